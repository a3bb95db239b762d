//! `messina-sst`: looks into sstables, without a server. `messina-sst --help` says how.

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use messina_tools::sst::{Flags, run};

fn main() -> ExitCode {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let done = run(&Flags::parse(), &mut out)
        .and_then(|whole| out.flush().map(|()| whole).map_err(|error| error.to_string()));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("messina-sst: {error}");
            ExitCode::from(2)
        }
    }
}
