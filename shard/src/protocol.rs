//! What the layer above a shard says to itself on other cores, as two types.
//!
//! The shard carries the questions and does not look into them: which clients are connected, which
//! statements were prepared. They are plain data. A question of a peer comes out of
//! [`drain_mail`](crate::Shard::drain_mail) and is answered with [`answer`](crate::Shard::answer).

/// The questions and answers of the layer above.
pub trait Protocol: 'static {
    /// A question of a peer.
    type Ask: Send + 'static;
    /// What a question takes while it waits, in bytes, beside the question itself. Asked only of those that wait.
    fn ask_bytes(_: &Self::Ask) -> usize {
        0
    }
    /// The answer to such a question.
    type Answer: Send + 'static;
}
