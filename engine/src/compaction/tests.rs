//! Strategies against drawn worlds, and over a long time; the rewrite against what a reader sees.

mod deciding;
mod flow;
mod rewriting;
mod steady;
