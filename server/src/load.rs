//! How much one core has taken on: requests that wait for an answer, answers that wait for their
//! readers, and the memory both hold.
//!
//! ```text
//! little ─► much: clients that wait for an answer are not read ─► full: OVERLOADED
//!          from 3/4                                                    a small first request: from 9/8
//! ```
//!
//! So a few clients that ask for much are slowed, and only as many as fill the rest with their first
//! requests are refused. A request over the limit is answered OVERLOADED at once; its bytes are already
//! read, and the connection stays in step.
//!
//! A compressed segment of v5 becomes up to 250 times as long as it is, and its frames are taken one after the other.
//! From 3/4 on it waits until there is space, unless those that are decompressed take less than 1/8: these come to an
//! end whatever the others hold, and then it is the next one's turn.

use std::sync::Arc;

use crate::answers::Answers;
use crate::limits::{
    EXPANDED_DIVISOR, FIRST_REQUEST_BYTES_MAX, FIRST_REQUEST_DIVISOR, HELD_BACK_PERCENT,
    KEPT_MEMORY_DIVISOR, PARTIAL_BYTES_FREE, REQUEST_MEMORY_DIVISOR, SHARD_REQUESTS_MAX,
};

/// What a waiting request takes beside its bytes.
const REQUEST_OVERHEAD_BYTES: u64 = 1024;

/// The requests in flight of one core.
#[derive(Debug)]
pub(crate) struct Load {
    requests: usize,
    request_bytes: u64,
    /// Of frames that are not whole, or were not taken yet.
    partial_bytes: u64,
    /// Those of them that are in segments that were decompressed.
    expanded_bytes: u64,
    answers: Arc<Answers>,
    bytes_max: u64,
    /// What buffers of connections have beside what is in them.
    kept_bytes: u64,
    kept_bytes_max: u64,
}

impl Load {
    /// Nothing in flight, on a core with this budget of memory.
    pub(crate) fn new(memory_bytes: u64, answers: Arc<Answers>) -> Load {
        let bytes_max = memory_bytes / REQUEST_MEMORY_DIVISOR;
        Load {
            requests: 0,
            request_bytes: 0,
            partial_bytes: 0,
            expanded_bytes: 0,
            answers,
            bytes_max,
            kept_bytes: 0,
            kept_bytes_max: memory_bytes / KEPT_MEMORY_DIVISOR,
        }
    }

    /// Whether another request may wait. One that is alone may, however large: else a core with little memory would
    /// never take it.
    #[inline]
    pub(crate) fn admits(&self, body_bytes: u32) -> bool {
        let bytes = self.bytes() + held(body_bytes);
        self.requests < SHARD_REQUESTS_MAX && (bytes <= self.bytes_max || self.is_idle())
    }

    /// Whether a request of a client that has none in flight may wait: a small one may when others may not, so that
    /// clients can connect, and ask how the node is.
    #[inline]
    pub(crate) fn admits_first(&self, body_bytes: u32) -> bool {
        self.admits(body_bytes)
            || body_bytes <= FIRST_REQUEST_BYTES_MAX && self.has_kept_place(body_bytes)
    }

    #[cold]
    fn has_kept_place(&self, body_bytes: u32) -> bool {
        let with_share = |most: u64| most + most / FIRST_REQUEST_DIVISOR;
        (self.requests as u64) < with_share(SHARD_REQUESTS_MAX as u64)
            && self.bytes() + held(body_bytes) <= with_share(self.bytes_max)
    }

    fn bytes(&self) -> u64 {
        self.request_bytes + self.partial_bytes + self.answers.unsent_bytes()
    }

    /// The bytes of a connection's frames that are not whole, or were not taken yet, were `before` and are `now`. Whether
    /// one that is not whole may stay: one that is alone may.
    #[inline]
    pub(crate) fn partial(&mut self, before: usize, now: usize) -> bool {
        self.partial_bytes = self.partial_bytes - before as u64 + now as u64;
        now <= PARTIAL_BYTES_FREE || !self.is_full() || self.bytes() == now as u64
    }

    /// The bytes of a connection's decompressed segment, which are among those, were `before` and are `now`.
    #[inline]
    pub(crate) fn expanded(&mut self, before: usize, now: usize) {
        self.expanded_bytes = self.expanded_bytes - before as u64 + now as u64;
    }

    /// The bytes to which a segment may be decompressed of which nothing was taken yet.
    #[inline]
    pub(crate) fn expanded_bytes_max(&self) -> usize {
        if self.may_expand() { usize::MAX } else { FIRST_REQUEST_BYTES_MAX as usize }
    }

    /// Whether a segment may be decompressed that becomes long.
    #[inline]
    pub(crate) fn may_expand(&self) -> bool {
        !self.holds_back() || self.expanded_bytes < self.bytes_max / EXPANDED_DIVISOR
    }

    /// Whether so much is taken on that clients with requests in flight must wait.
    #[inline]
    pub(crate) fn holds_back(&self) -> bool {
        self.requests * 100 >= SHARD_REQUESTS_MAX * HELD_BACK_PERCENT
            || self.bytes() * 100 >= self.bytes_max * HELD_BACK_PERCENT as u64
    }

    /// Whether requests and answers take all that they may.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    /// Whether clients that do not read hold so much that it is time to part from one that has so many bytes which it
    /// asks behind its answers: with these, what all clients ask counts as well.
    pub(crate) fn is_pressed(&self, partial_bytes: usize) -> bool {
        let of_requests = if partial_bytes > 0 { self.partial_bytes } else { 0 };
        self.answers.unsent_bytes() + of_requests > self.bytes_max / 2
    }

    fn is_idle(&self) -> bool {
        self.requests == 0 && self.answers.unsent_bytes() == 0
    }

    /// A request waits.
    #[inline]
    pub(crate) fn take(&mut self, body_bytes: u32) {
        self.requests += 1;
        self.request_bytes += held(body_bytes);
    }

    /// A request waits no more.
    #[inline]
    pub(crate) fn release(&mut self, body_bytes: u32) {
        self.requests -= 1;
        self.request_bytes -= held(body_bytes);
    }

    /// The unsent answers of a connection were `before` bytes and are `now`.
    #[inline]
    pub(crate) fn unsent(&mut self, before: usize, now: usize) {
        self.answers.unsent(before, now);
    }

    /// What a connection's buffers have beside what is in them was `before` bytes and is `now`. Whether it may keep it.
    #[inline]
    pub(crate) fn kept(&mut self, before: usize, now: usize) -> bool {
        self.kept_bytes = self.kept_bytes - before as u64 + now as u64;
        self.kept_bytes <= self.kept_bytes_max
    }

    /// The number of requests that wait for their answers.
    pub(crate) fn requests(&self) -> usize {
        self.requests
    }

    /// What to say to a request that is not admitted.
    #[cold]
    pub(crate) fn refusal(&self) -> String {
        format!(
            "Request not taken: {} requests with {} bytes are in flight on this shard, {} bytes of \
             requests have begun to arrive and {} bytes of answers are unsent; at most \
             {SHARD_REQUESTS_MAX} and {} bytes may be",
            self.requests,
            self.request_bytes,
            self.partial_bytes,
            self.answers.unsent_bytes(),
            self.bytes_max
        )
    }
}

fn held(body_bytes: u32) -> u64 {
    u64::from(body_bytes) + REQUEST_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_of(memory_bytes: u64) -> Load {
        Load::new(memory_bytes, Answers::new(memory_bytes))
    }

    #[test]
    fn what_is_released_can_be_taken_again() {
        let mut load = load_of(100 << 20);
        let body_bytes = 1 << 20;
        let mut taken = 0;
        while load.admits(body_bytes) {
            load.take(body_bytes);
            taken += 1;
        }
        assert_eq!(taken, 9, "a tenth of the memory, and a little for each request");
        assert!(load.refusal().contains("9 requests"));
        load.release(body_bytes);
        assert!(load.admits(body_bytes));
    }

    #[test]
    fn answers_that_no_client_reads_take_space_too() {
        let mut load = load_of(100 << 20);
        (0..8).for_each(|_| load.take(1 << 20));
        assert!(load.admits(1 << 20));
        load.unsent(0, 2 << 20);
        assert!(!load.admits(1 << 20));
        load.unsent(2 << 20, 0);
        assert!(load.admits(1 << 20));
    }

    #[test]
    fn a_request_that_is_alone_may_be_long() {
        let mut load = load_of(10 << 20);
        assert!(load.admits(9 << 20), "alone");
        load.unsent(0, 1);
        assert!(!load.admits(9 << 20));
    }

    #[test]
    fn of_requests_that_begin_to_arrive_one_that_is_alone_may_be_long() {
        let mut load = load_of(10 << 20);
        assert!(load.partial(0, 15 << 20), "alone");
        assert!(load.partial(0, PARTIAL_BYTES_FREE), "few");
        assert!(!load.partial(15 << 20, 16 << 20), "not alone");
        load.take(0);
        assert!(!load.admits(0));
        assert!(load.partial(16 << 20, 0) && load.admits(1 << 19));
    }

    #[test]
    fn what_connections_keep_has_a_share_of_its_own() {
        let mut load = load_of(64 << 20);
        assert!(load.kept(0, 1 << 19) && load.kept(0, 1 << 19));
        assert!(!load.kept(0, 1) && !load.kept(1, 1));
        assert!(load.kept(1, 0), "it gives its part back");
        assert!(!load.is_full() && load.admits(6 << 20), "that is beside what requests may take");
    }

    #[test]
    fn first_requests_have_a_place_of_their_own_where_there_are_many_requests() {
        let mut many = load_of(1 << 40);
        (0..SHARD_REQUESTS_MAX).for_each(|_| many.take(0));
        assert!(!many.admits(0) && many.admits_first(0));
        (0..SHARD_REQUESTS_MAX as u64 / FIRST_REQUEST_DIVISOR).for_each(|_| many.take(0));
        assert!(!many.admits_first(0), "what is kept has an end, too");
    }

    #[test]
    fn short_first_requests_have_memory_of_their_own() {
        let mut full = load_of(10 << 20);
        full.take((1 << 20) - 1024);
        assert!(!full.admits(0) && full.admits_first(FIRST_REQUEST_BYTES_MAX));
        assert!(!full.admits_first(FIRST_REQUEST_BYTES_MAX + 1), "a large one waits its turn");
        full.take((1 << 17) - 1024);
        assert!(!full.admits_first(0));
    }

    #[test]
    fn clients_are_slowed_before_they_are_refused() {
        let mut load = load_of(100 << 20);
        let mut held_from = None;
        for taken in 0.. {
            if load.holds_back() {
                held_from.get_or_insert(taken);
            }
            if !load.admits(100 << 10) {
                let first = held_from.expect("slowed before it is full");
                assert!(first * 4 / 3 >= taken - 1 && first < taken, "{first} of {taken}");
                return;
            }
            load.take(100 << 10);
        }
    }
}
