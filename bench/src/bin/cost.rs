//! `cost`: instructions and allocations of one operation in one shard; the first table of docs/benchmarks.md.
//!
//! 1. For each path and shape: allocations are counted in this process, instructions in another one, which is this
//!    program with `--path` under callgrind.
//! 2. What only the simulated disk spends in a durable write is taken off (`Path::baseline`).
//! 3. Print the table; where it is wanted, put it between the document's marks.
//!
//! Invariant: the counting allocator is this program's alone: other programs of the crate use the system's.
//!
//! Not here: the paths (`cost/path.rs`), callgrind (`cost/callgrind.rs`), the marks (`document.rs`).

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use messina_bench::compare::{Failed, Result};
use messina_bench::cost::allocations::Counting;
use messina_bench::cost::callgrind::instructions;
use messina_bench::cost::path::{Counted, Path};
use messina_bench::cost::shard::Shape;
use messina_bench::document::put_into;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts what one operation costs inside one shard.
#[derive(Debug, Parser)]
#[command(name = "cost")]
struct Flags {
    /// Count only this path, here and now, without callgrind.
    #[arg(long, requires = "shape")]
    path: Option<String>,
    /// The shape of records: scylla or ycsb.
    #[arg(long)]
    shape: Option<String>,
    /// Operations that are counted.
    #[arg(long, default_value_t = 4096)]
    operations: u64,
    /// The document whose marked place takes the table; else it is only printed.
    #[arg(long)]
    document: Option<PathBuf>,
}

const SHAPES: [(&str, Shape); 2] = [("scylla", Shape::SCYLLA), ("ycsb", Shape::YCSB)];

fn main() -> ExitCode {
    let flags = Flags::parse();
    let done = match &flags.path {
        Some(path) => one(&flags, path),
        None => all(&flags),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("cost: {failed}");
            ExitCode::FAILURE
        }
    }
}

fn one(flags: &Flags, name: &str) -> Result<()> {
    let path = Path::named(name).ok_or_else(|| Failed(format!("no path is called '{name}'")))?;
    let wanted = flags.shape.as_deref().unwrap_or_default();
    let shape = SHAPES.iter().find(|(name, _)| *name == wanted);
    let (_, shape) = shape.ok_or_else(|| Failed(format!("no shape is called '{wanted}'")))?;
    let counted = path.run(shape, flags.operations);
    println!("{:.3} allocations of {:.0} bytes", counted.allocations, counted.bytes);
    Ok(())
}

fn all(flags: &Flags) -> Result<()> {
    let mut text = String::from("| Path | record | instructions | allocations |\n");
    text.push_str("|---|---|---|---|\n");
    for path in Path::ALL {
        for (name, shape) in &SHAPES {
            let mut cost = cost(path, name, shape, flags.operations)?;
            if let Some(baseline) = path.baseline() {
                cost = cost.less(&self::cost(baseline, name, shape, flags.operations)?);
            }
            let line = format!(
                "| {} | {} | {:.0} | {:.2} |\n",
                path.title(),
                shape.name,
                cost.instructions,
                cost.counted.allocations
            );
            eprint!("{line}");
            text.push_str(&line);
        }
    }
    print!("{text}");
    match &flags.document {
        Some(path) => put_into(path, "cost", &text),
        None => Ok(()),
    }
}

/// What one operation costs.
struct Cost {
    instructions: f64,
    counted: Counted,
}

impl Cost {
    fn less(self, other: &Cost) -> Cost {
        Cost {
            instructions: self.instructions - other.instructions,
            counted: Counted {
                // The baseline's buffers grow at other moments: a hair less than nothing is nothing.
                allocations: (self.counted.allocations - other.counted.allocations).max(0.0),
                bytes: self.counted.bytes - other.counted.bytes,
            },
        }
    }
}

/// Counts allocations here and instructions in a process of their own.
fn cost(path: Path, name: &str, shape: &Shape, operations: u64) -> Result<Cost> {
    let program = std::env::current_exe().map_err(Failed::io("finding this program"))?;
    let count = operations.to_string();
    let arguments = ["--path", path.name(), "--shape", name, "--operations", &count];
    let all = instructions(&program, &arguments)?;
    let counted = path.run(shape, operations);
    Ok(Cost { instructions: all as f64 / operations as f64, counted })
}
