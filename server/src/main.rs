//! The binary `messina`.

/// Heaps per thread suit one thread per core.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    // Executors are not torn down: all that matters is on the disk.
    shard::os::cpus::exit(messina_server::main())
}
