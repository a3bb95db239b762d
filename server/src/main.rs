//! The binary `messina`: a CQL server on every core.

mod banner;
mod checks;
mod config;
mod connection;
mod connections;
mod execute;
mod ids;
mod limits;
mod listen;
mod load;
mod log;
mod node;
mod os;
mod pass;
mod prepared;
mod service;
mod session;
mod signals;
mod system;

/// Heaps per thread suit one thread per core.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    log::start();
    let status = match start() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("messina: {error}");
            1
        }
    };
    // Executors are not torn down: all that matters is on the disk.
    shard::os::cpus::exit(status)
}

fn start() -> Result<(), String> {
    let config::Loaded { config, mut warnings } = config::load()?;
    checks::run(&config, &mut warnings)?;
    for warning in &warnings {
        tracing::warn!("{warning}");
    }
    node::run(&config)
}
