//! Strategies against drawn worlds, the rewrite against what a reader sees.

mod deciding;
mod rewriting;
