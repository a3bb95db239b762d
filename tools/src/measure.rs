//! What a run measures: operations and latencies per second (`interval`), CPU (`cpu`).

pub mod cpu;
pub mod interval;
