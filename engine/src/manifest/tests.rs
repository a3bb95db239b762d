//! Edits and the state they add up to. Crashes are in `engine/tests/crash.rs` and `shard/tests/sim`.
//!
//! 1. Golden: the bytes of an edit, and of one that cuts views inside a partition, are those of `journal/FORMAT.md`.
//! 2. Edits add up, and are found again when the manifest is read or opened; one that is full is rewritten from its
//!    state; a large state is cut into several entries.
//! 3. Commits of several tasks take turns on a disk that suspends.
//! 4. Fuzz: any bytes that decode are the bytes of that edit; no part of an edit is one.
//!
//! Not here: the journal below (`journal/tests.rs`), which files an edit lets go (`engine/tests/shared_files.rs`).

use model::token::{Token, TokenRange};
use proptest::prelude::*;

use super::*;
use crate::io::{Faults, SimDisk, SimExec};

fn view(n: u64) -> ViewEntry {
    ViewEntry {
        sstable: Uuid::from_u64_pair(1, n),
        table: Uuid::from_u64_pair(2, n % 3),
        run: Uuid::from_u64_pair(3, n),
        tokens: TokenRange { first: Token(-5), last: Token(n as i64) },
        begin: None,
        file_bytes: n * 4096,
        footer_checksum: !n,
        level: n as u8,
        shared: n.is_multiple_of(2),
    }
}

fn run(f: impl AsyncFnOnce(Disk) + 'static) {
    let disk = Disk::Sim(SimDisk::new(1, Faults { suspensions_max: 2, ..Faults::default() }));
    SimExec::new(1).run(async move { f(disk).await }).done();
}

/// The bytes of `journal/FORMAT.md`, which every build to come opens.
#[test]
fn the_bytes_of_an_edit_are_as_specified() {
    let edit = Edit {
        flushed: Some(Position::new(2, 4096)),
        add: vec![view(7)],
        remove: vec![view(3).id()],
        replayed_from: vec![(Uuid::from_u128(9), Position::new(3, 8192))],
    };
    let specified = crate::journal::tests::listed("### An edit of the manifest");
    assert_eq!(edit.encode(), specified);
    assert_eq!(Edit::decode(&specified), Ok(edit));
}

/// A view that begins inside a partition.
fn cut_view(n: u64, position: &[u8]) -> ViewEntry {
    let begin = ViewBegin { key: b"key"[..].into(), position: position.into() };
    ViewEntry { begin: Some(std::sync::Arc::new(begin)), ..view(n) }
}

#[test]
fn the_bytes_of_an_edit_that_cuts_inside_a_partition_are_as_specified() {
    let place = [0x40, 7];
    let edit = Edit { add: vec![cut_view(7, &place), cut_view(8, &place)], ..Edit::default() };
    let specified =
        crate::journal::tests::listed("### An edit that cuts two views inside a partition");
    assert_eq!(edit.encode(), specified);
    assert_eq!(Edit::decode(&specified), Ok(edit));
    let others = [view(1), cut_view(2, b"a"), view(3), cut_view(4, b"a"), cut_view(5, b"b")];
    let edit = Edit { add: others.into(), ..Edit::default() };
    assert_eq!(Edit::decode(&edit.encode()), Ok(edit));
}

#[test]
fn edits_add_up_and_stay() {
    run(async |disk| {
        let root = RelPath::root();
        let manifest = Manifest::create(&disk, &root, 1, State::default()).await.unwrap();
        let at = Position::new(2, 4096);
        let add = Edit { add: vec![view(1), view(2)], flushed: Some(at), ..Edit::default() };
        manifest.commit(&add).await.unwrap();
        let (table, replayed) = (Uuid::from_u128(9), Position::new(3, 8192));
        let replace = Edit {
            remove: vec![view(1).id()],
            add: vec![view(3)],
            replayed_from: vec![(table, replayed)],
            ..Edit::default()
        };
        manifest.commit(&replace).await.unwrap();
        let state = manifest.state().clone();
        assert_eq!(state.views.values().collect::<Vec<_>>(), [&view(2), &view(3)]);
        assert_eq!((state.flushed, &state.replayed_from), (at, &[(table, replayed)].into()));
        assert!(!state.is_replayed(table, replayed));
        assert!(state.is_replayed(table, Position::new(3, 8193)));
        assert!(state.is_replayed(Uuid::from_u128(8), at), "of another table nothing is known");
        assert_eq!(Manifest::read(&disk, &root).await.unwrap(), state);
        let again = Manifest::open(&disk, &root, 2).await.unwrap();
        assert_eq!(*again.state(), state);
        let flushed = Edit { flushed: Some(replayed), ..Edit::default() };
        again.commit(&flushed).await.unwrap();
        assert!(again.state().replayed_from.is_empty(), "the log holds nothing of it any more");
    });
}

#[test]
fn a_manifest_that_is_full_is_made_anew() {
    run(async |disk| {
        let root = RelPath::root();
        let manifest = Manifest::create(&disk, &root, 1, State::default()).await.unwrap();
        for n in 0..200 {
            let remove = if n > 10 { vec![view(n - 1).id()] } else { Vec::new() };
            manifest.commit(&Edit { add: vec![view(n)], remove, ..Edit::default() }).await.unwrap();
        }
        let state = manifest.state().clone();
        assert_eq!(Manifest::read(&disk, &root).await.unwrap(), state);
        assert_eq!(state.views.len(), 11);
    });
}

#[test]
fn commits_of_several_tasks_take_turns() {
    let disk = Disk::Sim(SimDisk::new(3, Faults { suspensions_max: 4, ..Faults::default() }));
    let exec = SimExec::new(3);
    let spawner = exec.clone();
    let done = async move {
        let made = Manifest::create(&disk, &RelPath::root(), 1, State::default()).await.unwrap();
        let manifest = std::rc::Rc::new(made);
        for n in 0..20 {
            let manifest = manifest.clone();
            spawner.spawn(async move {
                let edit = Edit { add: vec![view(n)], ..Edit::default() };
                manifest.commit(&edit).await.unwrap();
            });
        }
        while manifest.state().views.len() < 20 {
            futures_lite::future::yield_now().await;
        }
        let read = Manifest::read(&disk, &RelPath::root()).await.unwrap();
        assert_eq!(read, *manifest.state());
    };
    exec.run(done).done();
}

#[test]
fn a_large_state_is_cut_into_entries() {
    let mut state = State::default();
    let views: Vec<_> = (0..2500).map(view).collect();
    state.apply(&Edit { add: views, flushed: Some(Position::new(1, 1)), ..Edit::default() });
    assert_eq!(state.snapshot().len(), 4);
    let mut again = State::default();
    for edit in state.snapshot() {
        let edit = Edit::decode(&edit.encode()).unwrap();
        again.check(&edit).unwrap();
        again.apply(&edit);
    }
    assert_eq!(again, state);
}

proptest! {
    #[test]
    fn any_bytes_are_an_edit_or_none(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(edit) = Edit::decode(&bytes) {
            prop_assert_eq!(edit.encode(), bytes);
        }
    }

    #[test]
    fn a_cut_edit_is_none(adds in 0..4_u64, cut in 0..100_usize) {
        let edit = Edit { add: (0..adds).map(view).collect(), ..Edit::default() };
        let bytes = edit.encode();
        prop_assert!(Edit::decode(&bytes[..cut % bytes.len()]).is_err());
        prop_assert_eq!(Edit::decode(&bytes), Ok(edit));
    }
}
