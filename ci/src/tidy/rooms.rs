//! Where `unsafe` and the runtime's crate may be named, each place with its reason.
//!
//! Invariant: a file listed here uses what it is listed for; a stale line is a complaint.

use crate::repository::TextFile;
use crate::source::Source;

/// A file or folder (ending in `/`) that may use a word, and why.
struct Room {
    path: &'static str,
    reason: &'static str,
}

/// Files that may hold `unsafe`.
const UNSAFE_ROOMS: [Room; 6] = [
    Room { path: "bench/src/cost/allocations.rs", reason: "an allocator that counts" },
    Room { path: "engine/src/io/dma.rs", reason: "asks the filesystem for its free space" },
    Room { path: "server/src/os.rs", reason: "system calls: sockets, limits, free space" },
    Room { path: "shard/src/mailbox/ring.rs", reason: "slots that one side fills and one empties" },
    Room { path: "shard/src/os/", reason: "system calls: epoll, eventfd, affinity" },
    Room { path: "tools/src/client/sys.rs", reason: "system calls: epoll, sockets, affinity" },
];

/// Places that may name glommio: it stays replaceable only while few know it.
const RUNTIME_ROOMS: [Room; 4] = [
    Room { path: "engine/src/io/", reason: "the door to the disk" },
    Room { path: "engine/tests/door.rs", reason: "tries the door on a real disk" },
    Room { path: "shard/", reason: "the runtime" },
    Room { path: "server/", reason: "starts the runtime" },
];

/// Complaints about one file.
pub(super) fn check(path: &str, source: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for (word, rooms) in [("unsafe", &UNSAFE_ROOMS[..]), ("glommio", &RUNTIME_ROOMS[..])] {
        let Some(line) = source.find_word(word) else { continue };
        if !rooms.iter().any(|room| room.holds(path)) {
            let line = line + 1;
            let known = rooms.iter().map(Room::told).collect::<Vec<_>>().join("; ");
            complaints.push(format!("{path}:{line}: `{word}` outside its rooms: {known}"));
        }
    }
    complaints
}

/// Complaints about unsafe rooms that are not, or no longer, unsafe.
pub(super) fn check_all_used(files: &[TextFile]) -> Vec<String> {
    let is_unsafe = |room: &Room| {
        files
            .iter()
            .filter(|file| file.path.ends_with(".rs") && room.holds(&file.path))
            .any(|file| Source::new(&file.text).find_word("unsafe").is_some())
    };
    UNSAFE_ROOMS
        .iter()
        .filter(|room| !is_unsafe(room))
        .map(|room| format!("{}: needs no `unsafe` ({}): unlist it", room.path, room.reason))
        .collect()
}

impl Room {
    fn told(&self) -> String {
        format!("{} ({})", self.path, self.reason)
    }

    fn holds(&self, path: &str) -> bool {
        path == self.path || (self.path.ends_with('/') && path.starts_with(self.path))
    }
}
