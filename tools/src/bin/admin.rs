//! `messina-admin`: asks a running server. `messina-admin --help` says how.

use std::process::ExitCode;

use clap::Parser;
use messina_tools::admin::{Flags, ask};
use messina_tools::console::say;
use messina_tools::error::Error;

fn main() -> ExitCode {
    match ask(&Flags::parse()).and_then(|text| say(&text)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("messina-admin: {error}");
            ExitCode::from(match error {
                Error::Invalid(_) => 2,
                Error::Lost(_) => 3,
                _ => 1,
            })
        }
    }
}
