//! The binary `messina`.
#![expect(dead_code, reason = "the core that runs a pass over its engine lands next")]

mod banner;
mod checks;
mod config;
mod connection;
mod connections;
mod limits;
mod listen;
mod load;
mod log;
mod os;
mod pass;
mod service;
mod session;
mod signals;

fn main() {}
