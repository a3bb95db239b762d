//! Rows of storage to rows of a result, written straight into the answer.
//!
//! ```text
//! engine ──row──► RowView ──terms──► [bytes] [bytes] ..     one after the other, no row object
//!                    └──► accumulators, if the query aggregates; a row for each group at its end
//! ```
//!
//! A plain column is copied from where it lies. Only functions and collections that are stored by
//! element make new bytes.
//!
//! Not here: what is selected (`expr`), the frame around the rows and their metadata
//! (`frame/response`).

mod encoder;
mod source;
mod view;

pub use encoder::{OpenGroup, ResultEncoder, ResultPart, RowOrder, Shape};
pub use view::RowView;
