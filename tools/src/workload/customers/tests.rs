//! Customers: what follows from their keys, and answers that leave something out, have too much or come out of order.

use rand::SeedableRng;

use super::*;
use crate::limits::FIELDS_MAX;
use crate::workload::Now;

const RECORDS: u64 = 30_000;

fn judge(limit: u32) -> Judge {
    Judge {
        shape: Customers { keyspace: "ycsb".to_owned(), note_bytes: 40 },
        limit,
        judges: true,
        finds: true,
        frontier: Some(Arc::new(Frontier::new(RECORDS))),
        rng: SmallRng::seed_from_u64(7),
    }
}

/// The cells of a row as the judge's own insert binds them.
fn row(judge: &Judge, key: u64) -> Vec<u8> {
    let insert = Op { verb: Verb::Insert, key, detail: 0, token: token_of(key) };
    let mut bytes = Vec::new();
    judge.bind(&insert, 17, &mut Binder::new(&mut bytes));
    bytes
}

/// What the judge says of an answer with the rows of these keys.
fn violations(judge: &mut Judge, op: &Op, keys: &[u64]) -> Vec<Violation> {
    let cells: Vec<u8> = keys.iter().flat_map(|key| row(judge, *key)).collect();
    let mut floor = [0; FIELDS_MAX];
    judge.floor(op, &mut floor);
    let sent = Sent { sequence: 0, floor: &floor, at: Now { elapsed_ns: 0, wall_us: 0 } };
    let mut findings = Findings::default();
    let rows = Rows::new(&cells, keys.len() as u32, 5);
    judge.read(op, sent, rows, &mut findings).unwrap();
    assert_eq!(findings.proved.len(), 1, "each query is held against something");
    findings.violations
}

/// What a right server answers, by going over all rows that there are.
fn scan(op: &Op, end: u64, limit: u32) -> Vec<u64> {
    let asked = Asked::of(op);
    let mut keys: Vec<u64> = (0..end).filter(|key| asked.has(*key)).collect();
    keys.sort_by_key(|key| token_of(*key));
    keys.truncate(limit as usize);
    keys
}

#[test]
fn names_are_told_apart_and_amounts_lead_back_to_their_keys() {
    let mut seen = std::collections::HashSet::new();
    for city in 0..CITIES {
        let mut name = String::new();
        append_city(city, &mut name);
        assert!(seen.insert(name), "city {city}");
    }
    for key in (0..AMOUNTS).step_by(777).chain([AMOUNTS * 9 + 5]) {
        assert_eq!(rest_of(amount_of(key)), key % AMOUNTS);
    }
}

#[test]
fn what_a_right_server_answers_is_right_also_while_rows_are_added() {
    let mut judge = judge(10);
    for round in 0..400 {
        let verb = [Verb::ByMail, Verb::ByCity, Verb::ByAmount, Verb::ByBoth][round % 4];
        let op = judge.op(verb, round as u64 * 73).unwrap();
        for end in [RECORDS, RECORDS + 5000] {
            let limit = if verb == Verb::ByMail { u32::MAX } else { 10 };
            let keys = scan(&op, end, limit);
            assert_eq!(violations(&mut judge, &op, &keys), [], "{op:?}: {keys:?}");
        }
    }
}

#[test]
fn what_is_left_out_too_much_or_out_of_order_is_found() {
    let mut judge = judge(10);
    for verb in [Verb::ByCity, Verb::ByAmount] {
        let op = match verb {
            Verb::ByAmount => Op { verb, key: 0, detail: 1000 << 32 | 3000, token: token_of(0) },
            _ => judge.op(verb, 99).unwrap(),
        };
        let right = scan(&op, RECORDS, 10);
        assert!(right.len() > 5, "{right:?}");
        for left_out in 0..right.len() {
            let mut keys = right.clone();
            let key = keys.remove(left_out);
            let found = violations(&mut judge, &op, &keys);
            assert!(matches!(found[..], [Violation::Unfound { .. }]), "{key}: {found:?}");
        }
        let mut keys = right.clone();
        keys.swap(2, 3);
        let found = violations(&mut judge, &op, &keys);
        assert!(found.iter().any(|one| matches!(one, Violation::Misplaced { .. })), "{found:?}");
        let stray = (0..RECORDS).find(|key| !Asked::of(&op).has(*key)).unwrap();
        let found = violations(&mut judge, &op, &[&right[..4], &[stray]].concat());
        assert!(found.contains(&Violation::Misplaced { key: stray }), "{found:?}");
    }
}

#[test]
fn of_more_rows_than_are_counted_out_the_limit_must_be_reached() {
    let mut judge = judge(10);
    let op = Op { verb: Verb::ByAmount, key: 3, detail: AMOUNTS / 2, token: token_of(0) };
    let right = scan(&op, RECORDS, 10);
    assert_eq!(violations(&mut judge, &op, &right), []);
    let lost = Violation::Incomplete { key: 3, expected: 10, rows: 9 };
    assert_eq!(violations(&mut judge, &op, &right[..9]), [lost]);
}

#[test]
fn a_row_that_is_not_what_its_key_says_is_found() {
    let mut judge = judge(10);
    let op = judge.op(Verb::ByMail, 5).unwrap();
    let right = row(&judge, 5);
    for at in [30, right.len() - 1] {
        let mut cells = right.clone();
        cells[at] ^= 1;
        let floor = [RECORDS; FIELDS_MAX];
        let sent = Sent { sequence: 0, floor: &floor, at: Now { elapsed_ns: 0, wall_us: 0 } };
        let mut findings = Findings::default();
        judge.read(&op, sent, Rows::new(&cells, 1, 5), &mut findings).unwrap();
        let garbled = |one: &Violation| matches!(one, Violation::Garbled { key: 5, .. });
        assert!(findings.violations.iter().any(garbled), "{:?}", findings.violations);
    }
}
