//! The result of a run: as data (`data`), as text on a terminal (`summary`), as a page (`page`).

pub mod chart;
pub mod data;
pub mod page;
pub mod summary;
pub mod units;
