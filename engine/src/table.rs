//! One table of a shard: the memtable that takes writes, those that wait to be flushed, the sstables.
//!
//! ```text
//! writes ─► active ─(seal)─► sealed … ─(flush)─► views          newest to oldest, left to right
//! ```
//!
//! 1. What a reader sees are these three together; a reader takes them at once ([`Table::sources`]) and keeps what it
//!    took, so what happens during its waits takes nothing from it.
//! 2. A table costs nothing but this entry until its first write.
//! 3. A memtable knows where in the log its oldest record begins: while it lives, the log keeps that.

use crate::commitlog::Position;
use crate::memtable::Memtable;
use model::mutation::MutationRef;
use model::schema::Table as Definition;
use std::cell::RefCell;
use std::rc::Rc;

/// A memtable that readers may hold while it changes or goes.
pub(crate) type SharedMemtable = Rc<RefCell<Memtable>>;

/// One table's data.
#[derive(Debug)]
pub(crate) struct Table {
    /// Shared within the shard, so that a read does not touch a counter that other cores touch.
    definition: RefCell<Rc<Definition>>,
    /// Memtables, oldest first: they are flushed in this order, and the last takes writes.
    layers: RefCell<Vec<Layer>>,
}

/// A memtable and its hold on the log.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    /// Its rows.
    pub(crate) memtable: SharedMemtable,
    /// Its oldest record begins here.
    #[expect(dead_code, reason = "flushing follows")]
    pub(crate) since: Position,
    /// Its newest record ends here.
    pub(crate) until: Position,
    /// It takes no more and waits to be flushed.
    pub(crate) sealed: bool,
}

impl Table {
    /// A table without data.
    pub(crate) fn new(definition: &Definition) -> Self {
        let definition = RefCell::new(Rc::new(definition.clone()));
        Table { definition, layers: RefCell::default() }
    }

    /// A table that is one memtable and nothing else.
    pub(crate) fn of_memtable(memtable: Memtable, definition: &Definition) -> Self {
        let table = Table::new(definition);
        let memtable = Rc::new(RefCell::new(memtable));
        let layer = Layer { memtable, since: Position::ZERO, until: Position::ZERO, sealed: false };
        table.layers.borrow_mut().push(layer);
        table
    }

    /// What the schema says of it.
    #[inline]
    pub(crate) fn definition(&self) -> Rc<Definition> {
        self.definition.borrow().clone()
    }

    /// The schema says something else now.
    pub(crate) fn set_definition(&self, definition: &Definition) {
        let same = **self.definition.borrow() == *definition;
        if !same {
            *self.definition.borrow_mut() = Rc::new(definition.clone());
        }
    }

    /// Takes in a change that the log holds from `start` to `end`; how many bytes of memory that took.
    pub(crate) fn apply(
        &self,
        mutation: &MutationRef<'_>,
        start: Position,
        end: Position,
    ) -> usize {
        let mut layers = self.layers.borrow_mut();
        if layers.last().is_none_or(|layer| layer.sealed) {
            let memtable = SharedMemtable::default();
            layers.push(Layer { memtable, since: start, until: end, sealed: false });
        }
        let layer = layers.last_mut().expect("it was just pushed");
        assert!(layer.until <= end, "records are applied in the order of the log");
        layer.until = end;
        let mut memtable = layer.memtable.borrow_mut();
        let before = memtable.bytes();
        memtable.insert(mutation);
        memtable.bytes() - before
    }

    /// Looks at the memtables, oldest first.
    #[inline]
    pub(crate) fn with_memtables<R>(&self, look: impl FnOnce(&[Layer]) -> R) -> R {
        look(&self.layers.borrow())
    }
}
