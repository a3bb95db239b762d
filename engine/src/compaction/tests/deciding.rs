//! What each strategy proposes: worlds drawn as text, with the answer below each (`engine/testdata/compaction`).
//!
//! ```text
//! # Four runs in level 0 are merged with what they meet in level 1.
//! strategy Leveled
//! facts now=100 gc_before=50 unflushed=7            may be left out
//! a: 50MiB [1..50]                                  name, bytes, tokens; `a*4:` are four such pieces
//! …
//! e: 160MiB [1..40] level=1                         and what else is known of the piece
//! ----
//! merge a b c d e f -> level 1 in 160MiB, Shape     or: drop a b, or: nothing
//! ```
//!
//! `MESSINA_BLESS=1` writes the answers that were given into the files.
//!
//! Not here: what a strategy costs over a long time (`steady.rs`), the merge that is proposed (`rewriting.rs`).

use std::collections::BTreeMap;
use std::fmt::Write;

use model::options::{Class, Compaction};
use model::{Token, TokenRange};
use uuid::Uuid;

use super::super::*;

/// A world: the strategy, what is known, the pieces by name.
struct World {
    compaction: Compaction,
    facts: CompactionContext,
    names: Vec<String>,
    pieces: Vec<Piece>,
}

fn compaction(words: &[&str]) -> Compaction {
    let mut given: BTreeMap<String, String> = words[1..].iter().map(|word| pair(word)).collect();
    let is_named = |class: &Class| format!("{class:?}") == words[0];
    let class = Class::ALL.into_iter().find(is_named).expect("a strategy");
    given.insert("class".to_owned(), class.name().to_owned());
    Compaction::parse(&given).expect("sound options")
}

fn pair(word: &str) -> (String, String) {
    let (name, value) = word.split_once('=').expect("name=value");
    (name.to_owned(), value.to_owned())
}

fn size(text: &str) -> u64 {
    let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).expect("a unit"));
    let unit = match unit {
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        other => panic!("{other} is not a unit"),
    };
    digits.parse::<u64>().expect("a number") * unit
}

/// `10MiB [1..9] run=7 level=1 oldest=3 newest=5 dead_at=9 dead=0.3 made=7 shared busy`, all but the size optional.
fn piece(index: usize, words: &[&str]) -> Piece {
    let mut piece = Piece {
        run: Uuid::from_u128(1000 + index as u128),
        level: 0,
        tokens: TokenRange::ALL,
        bytes: size(words[0]),
        oldest_timestamp: 1,
        newest_timestamp: 9,
        last_death_s: u32::MAX,
        dead_part: 0.0,
        joined_dead_part: 0.0,
        made_s: 0,
        shared: false,
        busy: false,
        merging: false,
    };
    for word in &words[1..] {
        if let Some(range) = word.strip_prefix('[') {
            let (first, last) = range.trim_end_matches(']').split_once("..").expect("a range");
            let token = |text: &str| Token(text.parse().expect("a token"));
            piece.tokens = TokenRange { first: token(first), last: token(last) };
            continue;
        }
        let (name, value) = word.split_once('=').unwrap_or((word, "1"));
        let number = || value.parse::<i64>().expect("a number");
        match name {
            "run" => piece.run = Uuid::from_u128(number() as u128),
            "level" => piece.level = number() as u8,
            "oldest" => piece.oldest_timestamp = number(),
            "newest" => piece.newest_timestamp = number(),
            "dead_at" => piece.last_death_s = number() as u32,
            "dead" => {
                piece.dead_part = value.parse().expect("a part");
                piece.joined_dead_part = piece.dead_part;
            }
            "made" => piece.made_s = number() as u32,
            "shared" => piece.shared = true,
            "busy" => piece.busy = true,
            "merging" => (piece.busy, piece.merging) = (true, true),
            other => panic!("{other} is not known"),
        }
    }
    piece
}

fn world(text: &str) -> World {
    let mut facts = CompactionContext {
        gc_before_s: 0,
        now_s: u32::MAX,
        oldest_unflushed: i64::MAX,
        overwritten_ratio: None,
    };
    let mut world =
        World { compaction: Compaction::default(), facts, names: Vec::new(), pieces: Vec::new() };
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[0] {
            "#" => {}
            "strategy" => world.compaction = compaction(&words[1..]),
            "facts" => {
                let of: BTreeMap<String, String> = words[1..].iter().map(|w| pair(w)).collect();
                let number = |name: &str| of.get(name).map(|n| n.parse::<i64>().expect("a number"));
                facts.gc_before_s = number("gc_before").unwrap_or(0) as u32;
                facts.now_s = number("now").map_or(u32::MAX, |now| now as u32);
                facts.oldest_unflushed = number("unflushed").unwrap_or(i64::MAX);
                facts.overwritten_ratio = of.get("overwritten").map(|p| p.parse().expect("a part"));
                world.facts = facts;
            }
            name => {
                // `a*33:` are 33 pieces.
                let (name, count) =
                    name.trim_end_matches(':').split_once('*').unwrap_or((name, "1"));
                for _ in 0..count.parse().expect("a number") {
                    world.names.push(name.trim_end_matches(':').to_owned());
                    world.pieces.push(piece(world.pieces.len(), &words[1..]));
                }
            }
        }
    }
    world
}

/// What the strategy proposes, in words.
fn answer(world: &World) -> String {
    let named = |pieces: &[usize]| {
        let names: Vec<&str> = pieces.iter().map(|&index| world.names[index].as_str()).collect();
        names.join(" ")
    };
    match Strategy::of(&world.compaction).propose(&world.pieces, &world.facts) {
        None => "nothing\n".to_owned(),
        Some(Task::Drop { pieces }) => format!("drop {}\n", named(&pieces)),
        Some(Task::Merge(MergeTask { pieces, level, fragment_bytes, why })) => {
            let megabytes = fragment_bytes >> 20;
            format!("merge {} -> level {level} in {megabytes}MiB, {why:?}\n", named(&pieces))
        }
    }
}

fn check(file: &str) {
    let path = format!("{}/testdata/compaction/{file}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the test data is there");
    let mut given = String::new();
    let is_blessed = std::env::var_os("MESSINA_BLESS").is_some();
    for case in text.trim_end().split("\n\n") {
        let (drawn, said) = case.split_once("\n----").expect("a world and its answer");
        let (title, proposed) = (drawn.lines().next().unwrap_or_default(), answer(&world(drawn)));
        let is_same = said.trim() == proposed.trim();
        assert!(is_blessed || is_same, "{file}: {title}: it proposes {proposed}");
        write!(given, "{drawn}\n----\n{proposed}\n").expect("a string takes all");
    }
    let given = given.trim_end().to_owned() + "\n";
    if is_blessed {
        std::fs::write(&path, &given).expect("the test data can be written");
        return;
    }
    assert_eq!(given, text, "{file}");
}

#[test]
fn size_tiered_proposes_what_its_file_says() {
    check("size_tiered");
}

#[test]
fn time_window_proposes_what_its_file_says() {
    check("time_window");
}

#[test]
fn leveled_proposes_what_its_file_says() {
    check("leveled");
}

#[test]
fn unified_proposes_what_its_file_says() {
    check("unified");
}

#[test]
fn incremental_proposes_what_its_file_says() {
    check("incremental");
}

#[test]
fn any_strategy_proposes_what_its_file_says() {
    check("any_strategy");
}
