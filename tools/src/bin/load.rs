//! `messina-load`: drives any CQL server. `messina-load --help` says how.

use std::process::ExitCode;

use clap::Parser;
use messina_tools::command::execute;
use messina_tools::error::Error;
use messina_tools::flags::Flags;

fn main() -> ExitCode {
    match execute(Flags::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("messina-load: {error}");
            ExitCode::from(match error {
                Error::Invalid(_) => 2,
                Error::Lost(_) => 3,
                _ => 1,
            })
        }
    }
}
