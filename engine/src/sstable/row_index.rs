//! The row index of a wide partition: a tree of separators that leads a slice to its block.
//!
//! ```text
//! node  := slots; the first is level:u8 first:varint      first: ordinal of the first child
//! child := separator offset:varint length:varint          in a node of level 1 and up: a node
//!        | separator                                      in a leaf: a block, by its ordinal
//! separator := length:varint bytes
//! ```
//!
//! A separator is the shortest place that is above everything in the child before it and not above
//! anything in its own; the first of all is empty. Blocks of a partition lie one after the other, so a
//! leaf needs no offsets. Nodes lie in the index region of the file; offsets count from its start.

use model::bytes::{Cursor, put_bytes, put_varint};

use super::frame::{Framer, Kind};
use super::slots::{Slots, SlotsBuilder};
use crate::limits::{INDEX_LEVELS_MAX, INDEX_NODE_BYTES};
use crate::planted::{Bug, planted};

/// Where a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NodeRef {
    /// From the start of the index region.
    pub(super) offset: u64,
    pub(super) bytes: u32,
}

/// What a node says about a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Look into this node.
    Node(NodeRef),
    /// It is in the block with this ordinal in its partition.
    Block(usize),
}

/// Builds the index of one partition while its blocks are written.
#[derive(Debug, Default)]
pub(super) struct RowIndexBuilder {
    /// From the leaf up: the node being filled.
    levels: Vec<Level>,
    blocks: u64,
}

#[derive(Debug, Default)]
struct Level {
    slots: SlotsBuilder,
    first_separator: Vec<u8>,
    /// Children in finished nodes of this level.
    before: u64,
}

impl RowIndexBuilder {
    /// Adds the next block, which begins at `separator`; full nodes go to `region`.
    pub(super) fn block(&mut self, separator: &[u8], framer: &mut Framer, region: &mut Vec<u8>) {
        self.blocks += 1;
        self.child(0, separator, None, framer, region);
    }

    /// How many blocks were added.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    fn child(
        &mut self,
        level: usize,
        separator: &[u8],
        node: Option<NodeRef>,
        framer: &mut Framer,
        region: &mut Vec<u8>,
    ) {
        if level == self.levels.len() {
            self.levels.push(Level::default());
        }
        let full = self.levels[level].slots.bytes() + separator.len() > INDEX_NODE_BYTES;
        // A node of one child would never end the growth of levels.
        if full && self.levels[level].slots.count() > 2 {
            let (separator, node) = self.close(level, framer, region);
            self.child(level + 1, &separator, Some(node), framer, region);
        }
        let Level { slots, first_separator, before } = &mut self.levels[level];
        if slots.is_empty() {
            first_separator.clear();
            first_separator.extend_from_slice(separator);
            slots.marked_item(|out| {
                out.push(level as u8);
                put_varint(out, *before);
            });
        }
        slots.item(|out| {
            put_bytes(out, separator);
            if let Some(node) = node {
                put_varint(out, node.offset);
                put_varint(out, u64::from(node.bytes));
            }
        });
    }

    fn close(
        &mut self,
        level: usize,
        framer: &mut Framer,
        region: &mut Vec<u8>,
    ) -> (Vec<u8>, NodeRef) {
        let Level { slots, first_separator, before } = &mut self.levels[level];
        let count = slots.count();
        assert!(count > 1, "a node has a child");
        let mut raw = Vec::new();
        slots.finish(count, &mut raw);
        *before += count as u64 - 1;
        let offset = region.len() as u64;
        let bytes = framer.put(Kind::RowIndex, &raw, region) as u32;
        (std::mem::take(first_separator), NodeRef { offset, bytes })
    }

    /// Closes the tree; gives its root.
    pub(super) fn finish(mut self, framer: &mut Framer, region: &mut Vec<u8>) -> NodeRef {
        assert!(self.blocks > 0, "an index has blocks");
        assert!(self.levels.len() <= INDEX_LEVELS_MAX, "a search comes to its end");
        let mut level = 0;
        loop {
            let (separator, node) = self.close(level, framer, region);
            if level + 1 == self.levels.len() {
                return node;
            }
            level += 1;
            self.child(level, &separator, Some(node), framer, region);
        }
    }
}

/// The child of `node` that holds the place `at`, or where it would be.
pub(super) fn search(node: &Slots, at: &[u8]) -> Result<Found, &'static str> {
    let damaged = |_| "row index node";
    let mut head = Cursor::new(node.item(0));
    let level = head.u8().map_err(damaged)?;
    let before = head.varint().map_err(damaged)?;
    let separator = |index| Cursor::new(node.item(index)).bytes().map_err(damaged);
    if node.count() < 2 || !head.is_empty() {
        return Err("row index node");
    }
    let (mut low, mut high) = (1, node.count() - 1);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if separator(middle)? <= at {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    if level == 0 {
        let skipped = u64::from(planted(Bug::IndexSkipsBlock) && low + 1 < node.count());
        let ordinal = before.checked_add(low as u64 - 1 + skipped).ok_or("row index ordinal")?;
        return usize::try_from(ordinal).map(Found::Block).map_err(|_| "row index ordinal");
    }
    let mut child = Cursor::new(node.item(low));
    child.bytes().map_err(damaged)?;
    let offset = child.varint().map_err(damaged)?;
    let bytes = child.varint().map_err(damaged)?;
    let bytes = u32::try_from(bytes).map_err(|_| "row index node length")?;
    Ok(Found::Node(NodeRef { offset, bytes }))
}

/// The shortest place above `before` and not above `first`.
pub(crate) fn separator<'a>(before: &[u8], first: &'a [u8]) -> &'a [u8] {
    let common = before.iter().zip(first).take_while(|(a, b)| a == b).count();
    &first[..first.len().min(common + 1)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::frame::{Codec, Opener, seal};
    use super::*;

    fn lookup(region: &[u8], root: NodeRef, at: &[u8]) -> (usize, usize) {
        let (mut node, mut reads) = (root, 0);
        loop {
            reads += 1;
            let frame = &mut region[node.offset as usize..][..node.bytes as usize].to_vec();
            seal(frame, 0, node.offset);
            let raw = Opener::default().open(frame, Kind::RowIndex, 0, node.offset).unwrap();
            match search(&Slots::open(raw).unwrap(), at).unwrap() {
                Found::Node(next) => node = next,
                Found::Block(ordinal) => return (ordinal, reads),
            }
        }
    }

    fn build(separators: &[Vec<u8>]) -> (Vec<u8>, NodeRef) {
        let (mut region, mut framer) = (Vec::new(), Framer::new(Codec::Lz4));
        let mut builder = RowIndexBuilder::default();
        for separator in separators {
            builder.block(separator, &mut framer, &mut region);
        }
        let root = builder.finish(&mut framer, &mut region);
        (region, root)
    }

    proptest! {
        #[test]
        fn leads_to_the_last_block_that_begins_at_or_below(
            separators in prop::collection::btree_set(prop::collection::vec(0..4u8, 1..900), 1..60),
            probes in prop::collection::vec(prop::collection::vec(0..4u8, 0..5), 0..30)
        ) {
            let mut separators: Vec<Vec<u8>> = separators.into_iter().collect();
            separators.insert(0, Vec::new());
            let (region, root) = build(&separators);
            for probe in separators.iter().chain(&probes) {
                let expected = separators.partition_point(|s| s <= probe) - 1;
                prop_assert_eq!(lookup(&region, root, probe).0, expected);
            }
        }

        #[test]
        fn separators_separate(a: Vec<u8>, b: Vec<u8>) {
            prop_assume!(a < b);
            let s = separator(&a, &b);
            prop_assert!(a.as_slice() < s && s <= b.as_slice());
        }

        #[test]
        fn arbitrary_nodes_never_panic(items in prop::collection::vec(any::<Vec<u8>>(), 1..5), at: Vec<u8>) {
            let mut builder = SlotsBuilder::default();
            for item in &items {
                builder.item(|out| out.extend_from_slice(item));
            }
            let mut raw = Vec::new();
            builder.finish(items.len(), &mut raw);
            let _ = search(&Slots::open(raw).unwrap(), &at);
        }
    }

    #[test]
    fn a_quarter_of_a_million_blocks_are_three_reads_deep() {
        let separators: Vec<Vec<u8>> =
            (0..250_000u32).map(|i| [&[64; 8][..], &i.to_be_bytes()].concat()).collect();
        let (region, root) = build(&separators);
        for block in [0, 1, 77_777, 249_999] {
            assert_eq!(lookup(&region, root, &separators[block]), (block, 3));
        }
    }
}
