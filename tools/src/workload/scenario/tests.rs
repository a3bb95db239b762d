//! Scenarios: against a server of a few lines that keeps its promises, and against ones that break one each.

use std::collections::{BTreeMap, HashSet};

use rand::SeedableRng;

use super::*;
use crate::ledger::Frontier;
use crate::limits::FIELDS_MAX;
use crate::popularity::Popularity;
use crate::proof::{Floor, Violation};
use crate::value::Origin;
use crate::wire::{Binder, Rows};
use crate::workload::{Findings, Next, Now, Op, Sent, Source, Unanswered, Workload};

/// Keys of each scenario.
const KEYS: u64 = 5;
/// Operations of a run.
const OPERATIONS: u64 = 3000;
/// Operations under way at a time.
const TOGETHER: usize = 7;

/// The promise that the server breaks, in every 50th write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// It answers as if it were done, and nothing is.
    Forgets,
    /// It is done, and the answer says that it was refused.
    DoesRefused,
    /// It is done twice.
    DoesTwice,
    /// Half of it is done.
    DoesHalf,
    /// An index does not hear of it, nor a view.
    HidesFromIndex,
    /// Its name is not kept: sent again, it is done again.
    ForgetsName,
}

/// A server as a map: (partition, row) to its cells.
struct Model {
    fault: Fault,
    statements: Vec<String>,
    rows: BTreeMap<(i64, i64), Vec<Option<Vec<u8>>>>,
    /// Keys that the index does not lead to.
    hidden: HashSet<i64>,
    /// The rows of a view: (partition, row) to its cells.
    view: BTreeMap<(i32, i64), Vec<Option<Vec<u8>>>>,
    /// The newest removal of each key.
    removals: BTreeMap<i64, u64>,
    writes: u64,
    /// Names of increments that were done.
    names: HashSet<[u8; 16]>,
}

fn int(value: &[u8]) -> i64 {
    i64::from_be_bytes(value.try_into().unwrap())
}

/// The write that made a value.
fn sequence(value: &[u8]) -> u64 {
    Origin::of_value(value).unwrap().sequence
}

fn cell(number: i64) -> Option<Vec<u8>> {
    Some(number.to_be_bytes().to_vec())
}

impl Model {
    fn new(fault: Fault, statements: Vec<String>) -> Model {
        Model {
            fault,
            statements,
            rows: BTreeMap::new(),
            hidden: HashSet::new(),
            view: BTreeMap::new(),
            removals: BTreeMap::new(),
            writes: 0,
            names: HashSet::new(),
        }
    }

    /// Executes one statement; the rows of its answer, as cells.
    fn execute(
        &mut self,
        statement: usize,
        values: &[&[u8]],
        (timestamp, name): (u64, Option<[u8; 16]>),
    ) -> Vec<Vec<Option<Vec<u8>>>> {
        let text = self.statements[statement].clone();
        assert_eq!(text.matches('?').count(), values.len(), "{text}");
        if text.starts_with("SELECT") {
            return self.read(&text, values);
        }
        self.writes += 1;
        let fault = if self.writes.is_multiple_of(50) { self.fault } else { Fault::None };
        let applied = vec![vec![Some(vec![u8::from(fault != Fault::DoesRefused)])]];
        let refused = vec![vec![Some(vec![0])]];
        if text.contains("(id, state, value)") {
            let (id, value) = (int(values[0]), Some(values[1].to_vec()));
            let is_new = !self.rows.contains_key(&(id, 0));
            if is_new && fault != Fault::Forgets {
                self.rows.insert((id, 0), vec![value]);
            }
            return if is_new { applied } else { refused };
        }
        if text.contains("IF state") {
            let there = self.rows.get_mut(&(int(values[1]), 0));
            if fault != Fault::Forgets {
                there.unwrap()[0] = Some(values[0].to_vec());
            }
            return applied;
        }
        if text.contains("IF NOT EXISTS") {
            let bank = int(values[0]);
            (0..8).for_each(|account| {
                self.rows.entry((bank, account)).or_insert_with(|| vec![cell(1000)]);
            });
            return applied;
        }
        if text.contains("IF balance") {
            return if self.transfer(values, fault) { applied } else { refused };
        }
        if text.contains("hits + 1") {
            let is_kept = fault != Fault::ForgetsName;
            if name.is_some_and(|name| self.names.contains(&name)) {
                return Vec::new();
            }
            self.names.extend(name.filter(|_| is_kept));
            let count = self.rows.entry((int(values[0]), 0)).or_insert_with(|| vec![cell(0)]);
            let more = match fault {
                Fault::Forgets => 0,
                Fault::DoesTwice => 2,
                _ => 1,
            };
            count[0] = cell(int(count[0].as_ref().unwrap()) + more);
            return Vec::new();
        }
        if text.contains(".views ") {
            self.write_viewed(&text, values, timestamp, fault);
            return Vec::new();
        }
        if text.contains("(id, tag, value)") {
            self.write_indexed(values, fault);
            return Vec::new();
        }
        let kept = match fault {
            Fault::Forgets => 0,
            Fault::DoesHalf => 5,
            _ => 10,
        };
        for row in values.chunks(2).take(kept) {
            let there = self.rows.entry((int(row[0]), 0)).or_insert_with(|| vec![None]);
            if there[0].as_ref().is_none_or(|value| sequence(value) < sequence(row[1])) {
                there[0] = Some(row[1].to_vec());
            }
        }
        Vec::new()
    }

    fn write_viewed(&mut self, text: &str, values: &[&[u8]], timestamp: u64, fault: Fault) {
        let (id, cells) = match values {
            [id] => (int(id), None),
            [id, cells @ ..] if text.starts_with("INSERT") => (int(id), Some(cells)),
            [cells @ .., id] => (int(id), Some(cells)),
            [] => panic!("a write names its row"),
        };
        let tag = |cells: &Vec<Option<Vec<u8>>>| {
            i32::from_be_bytes(cells[0].as_deref().unwrap().try_into().unwrap())
        };
        let before = self.rows.get(&(id, 0)).map(tag);
        let there = self.rows.get(&(id, 0)).map_or(0, |cells| sequence(cells[1].as_ref().unwrap()));
        let removal = self.removals.entry(id).or_default();
        if fault == Fault::Forgets || timestamp <= there.max(*removal) {
            return;
        }
        self.rows.remove(&(id, 0));
        match cells {
            None => *removal = timestamp,
            Some(cells) => {
                let cells = cells.iter().map(|value| Some(value.to_vec())).collect();
                self.rows.insert((id, 0), cells);
            }
        }
        if fault == Fault::HidesFromIndex {
            return;
        }
        self.view.retain(|&(tag, of), _| of != id || Some(tag) != before);
        if let Some(cells) = self.rows.get(&(id, 0)) {
            self.view.insert((tag(cells), id), cells.clone());
        }
    }

    fn write_indexed(&mut self, values: &[&[u8]], fault: Fault) {
        let id = int(values[0]);
        let cells = || values[1..].iter().map(|value| Some(value.to_vec())).collect::<Vec<_>>();
        let there = self.rows.entry((id, 0)).or_insert_with(cells);
        let is_newer = sequence(there[1].as_ref().unwrap()) < sequence(values[2]);
        if is_newer && fault != Fault::Forgets {
            *there = cells();
        }
        if fault == Fault::HidesFromIndex {
            self.hidden.insert(id);
        }
    }

    fn transfer(&mut self, values: &[&[u8]], fault: Fault) -> bool {
        let holds = |change: &[&[u8]]| {
            self.rows[&(int(change[1]), int(change[2]))][0].as_deref() == Some(change[3])
        };
        if !holds(&values[..4]) || !holds(&values[4..8]) {
            return false;
        }
        if fault == Fault::Forgets {
            return true;
        }
        let kept = if fault == Fault::DoesHalf { 1 } else { 2 };
        for change in values[..8].chunks(4).take(kept) {
            let place = (int(change[1]), int(change[2]));
            self.rows.insert(place, vec![Some(change[0].to_vec())]);
        }
        let place = (int(values[8]), int(values[9]));
        let order = values[10..].iter().map(|value| Some(value.to_vec()));
        self.rows.insert(place, [None].into_iter().chain(order).collect());
        true
    }

    fn read(&self, text: &str, values: &[&[u8]]) -> Vec<Vec<Option<Vec<u8>>>> {
        if text.contains("views_by_tag") {
            let is_asked = |tag: i32, id: i64| match values[0].try_into() {
                Ok(asked) => i32::from_be_bytes(asked) == tag,
                Err(_) => int(values[0]) == id,
            };
            let rows = self.view.iter().filter(|((tag, id), _)| is_asked(*tag, *id));
            let whole = |((_, id), cells): (&(i32, i64), &Vec<_>)| {
                [cell(*id)].into_iter().chain(cells.iter().cloned()).collect::<Vec<_>>()
            };
            return rows.map(whole).collect();
        }
        if text.contains("indexed") || text.contains(".views ") {
            let whole = |((id, _), cells): (&(i64, i64), &Vec<_>)| {
                [cell(*id)].into_iter().chain(cells.iter().cloned()).collect::<Vec<_>>()
            };
            let is_hidden =
                |row: &Vec<Option<Vec<u8>>>| self.hidden.contains(&int(row[0].as_ref().unwrap()));
            let asked = |row: &Vec<Option<Vec<u8>>>| match text {
                _ if text.contains("id = ?") => row[0].as_deref() == Some(values[0]),
                _ if text.contains("tag = ?") => {
                    row[1].as_deref() == Some(values[0]) && !is_hidden(row)
                }
                _ => true,
            };
            return self.rows.iter().map(whole).filter(asked).collect();
        }
        let key = int(values[0]);
        let with_entry = |low, high| {
            let rows = self.rows.range((key, low)..(key, high));
            rows.map(|((_, entry), cells)| {
                let mut row = vec![cell(*entry)];
                row.extend(cells.iter().cloned());
                row.resize(5, None);
                row
            })
        };
        if text.contains("entry <") {
            return with_entry(0, 8).map(|row| row[..2].to_vec()).collect();
        }
        if text.contains("entry = ?") {
            let row = self.rows.get(&(key, int(values[1])));
            return row.map(|row| row[1..].to_vec()).into_iter().collect();
        }
        if text.contains("SELECT entry") {
            return with_entry(0, i64::MAX).collect();
        }
        if text.contains("hits") || text.contains("conditional") {
            return self.rows.get(&(key, 0)).cloned().into_iter().collect();
        }
        let there = values.iter().map(|id| int(id)).filter_map(|id| {
            let value = self.rows.get(&(id, 0))?;
            Some(vec![cell(id), value[0].clone()])
        });
        there.collect()
    }
}

/// The client's half: what it was told, and what it found.
struct Client {
    workload: Workload,
    sequence: u64,
    findings: Findings,
    journal: BTreeMap<u64, Vec<Record>>,
    names: HashSet<&'static str>,
}

impl Client {
    fn new(workload: Workload) -> Client {
        let (findings, journal, names) = Default::default();
        Client { workload, sequence: 100, findings, journal, names }
    }

    fn send(&mut self, op: &Op) -> (u64, Floor) {
        let mut floor = [0; FIELDS_MAX];
        if !op.verb.is_write() {
            self.workload.rule.floor(op, &mut floor);
            return (0, floor);
        }
        self.sequence += 1;
        let mark = self.workload.rule.begin(op, self.sequence);
        self.note(op, mark);
        (self.sequence, floor)
    }

    fn note(&mut self, op: &Op, mask: u16) {
        if mask != 0 {
            let sequence = self.workload.rule.journal_sequence(op, self.sequence);
            let record = Record { key: op.key, sequence, mask };
            self.journal.entry(op.key).or_default().push(record);
        }
    }

    /// Executes one operation and what follows it.
    fn execute(&mut self, model: &mut Model, op: &Op, (sequence, floor): (u64, Floor)) {
        let mut bytes = Vec::new();
        self.workload.rule.bind(op, sequence, &mut Binder::new(&mut bytes));
        let mut values = Vec::new();
        let mut rest = &bytes[..];
        while let Some((length, more)) = rest.split_first_chunk::<4>() {
            let (value, more) = more.split_at(i32::from_be_bytes(*length) as usize);
            values.push(value);
            rest = more;
        }
        let (rule, statement) = (&self.workload.rule, self.workload.rule.statement(op));
        let name = rule.is_named(statement).then(|| rule.name(op, sequence));
        let rows = model.execute(statement, &values, (sequence, name));
        let mut cells = Vec::new();
        for cell in rows.iter().flatten() {
            let length = cell.as_ref().map_or(-1, |value| value.len() as i32);
            cells.extend_from_slice(&length.to_be_bytes());
            cells.extend_from_slice(cell.as_deref().unwrap_or_default());
        }
        let columns = rows.first().map_or(0, Vec::len) as u32;
        let answer = Rows::new(&cells, rows.len() as u32, columns);
        let at = Now { elapsed_ns: 0, wall_us: 0 };
        let sent = Sent { sequence, floor: &floor, at };
        let follows = self.workload.complete(op, sent, answer, &mut self.findings).unwrap();
        let mark = std::mem::take(&mut self.findings.mark);
        let own = std::mem::replace(&mut self.sequence, sequence);
        self.note(op, mark);
        self.sequence = own;
        self.names.extend(self.findings.violations.drain(..).map(|found| found.name()));
        if let Some(next) = follows {
            let sent = self.send(&next);
            self.execute(model, &next, sent);
        }
    }
}

fn rng(seed: u64) -> SmallRng {
    SmallRng::seed_from_u64(seed)
}

fn known(promises: BTreeMap<u64, Vec<Record>>) -> Known {
    Known {
        keyspace: "ks".into(),
        value_bytes: 40,
        judges: true,
        keys: KEYS,
        thread: (0, 1),
        tallies: Arc::new(Tallies::new(KEYS, |_| UNKNOWN)),
        promises: Arc::new(promises),
    }
}

fn walk_over(keys: Vec<u64>, name: ScenarioName, known: Known, verb: Verb) -> Workload {
    let source = Source::Walk { keys: Arc::new(keys), next: 0, stride: 1, verb };
    Workload { rule: name.rule(known, rng(1)), source }
}

/// Does all that the source gives, `TOGETHER` operations under way at a time, answered in the order of a stack.
fn drive(client: &mut Client, model: &mut Model, operations: u64) {
    let mut under_way = Vec::new();
    for turn in 0.. {
        let next = if turn < operations { client.workload.next_op() } else { Next::Done };
        if let Next::Op(op) = next {
            let sent = client.send(&op);
            under_way.push((op, sent));
        }
        if under_way.len() >= TOGETHER || next == Next::Done {
            while let Some((op, sent)) = under_way.pop() {
                client.execute(model, &op, sent);
            }
        }
        if next == Next::Done {
            return;
        }
    }
}

/// Loads, runs, checks; the names of what a run and then the check found.
fn life(name: ScenarioName, fault: Fault) -> [Vec<&'static str>; 2] {
    let keys = (0..KEYS).collect();
    let filling =
        walk_over(keys, name, Known { judges: false, ..known(BTreeMap::new()) }, name.filling());
    let mut client = Client::new(filling);
    let mut model = Model::new(Fault::None, client.workload.rule.statements());
    drive(&mut client, &mut model, u64::MAX);
    model.fault = fault;
    let (mix, popularity) = (name.usual_mix(), Popularity::Uniform);
    let source = Source::Draw { keys: Arc::new(Frontier::new(KEYS)), mix, popularity, rng: rng(2) };
    client.workload = Workload { rule: name.rule(known(BTreeMap::new()), rng(3)), source };
    drive(&mut client, &mut model, OPERATIONS);
    let of_run = client.names.drain().collect();
    let keys = name.checked(client.journal.keys().copied().collect());
    client.workload = walk_over(keys, name, known(client.journal.clone()), name.checking());
    drive(&mut client, &mut model, u64::MAX);
    let mut found: [Vec<&str>; 2] = [of_run, client.names.drain().collect()];
    found.iter_mut().for_each(|names| names.sort_unstable());
    found
}

#[test]
fn an_honest_server_is_found_to_be_one() {
    for name in ScenarioName::ALL {
        assert_eq!(life(name, Fault::None), [vec![], vec![]] as [Vec<&str>; 2], "{name:?}");
    }
}

#[test]
fn money_that_is_lost_or_made_is_seen() {
    use ScenarioName::Bank;
    assert_eq!(life(Bank, Fault::Forgets), [vec!["lost transfer"], vec!["lost transfer"]]);
    let done = "refused transfer done";
    assert_eq!(life(Bank, Fault::DoesRefused), [vec![done], vec![done]]);
    assert_eq!(
        life(Bank, Fault::DoesHalf),
        [vec!["wrong sum"], vec!["wrong balance", "wrong sum"]]
    );
}

#[test]
fn conditional_writes_that_are_lost_are_seen() {
    let [of_run, of_check] = life(ScenarioName::Conditional, Fault::Forgets);
    assert_eq!(of_run, ["lost write"]);
    assert!(of_check.contains(&"missing row"), "a claim was lost: {of_check:?}");
}

#[test]
fn rows_that_an_index_does_not_lead_to_are_seen() {
    let unfound = "row not found by index";
    let found = life(ScenarioName::Indexed, Fault::HidesFromIndex);
    assert_eq!(found, [vec![unfound], vec![unfound]]);
    let [of_run, _] = life(ScenarioName::Indexed, Fault::Forgets);
    assert!(of_run.contains(&"lost write"), "{of_run:?}");
}

#[test]
fn rows_that_a_view_lacks_or_keeps_are_seen() {
    let found = life(ScenarioName::Views, Fault::HidesFromIndex);
    for names in &found {
        assert!(names.contains(&"row not in the view"), "{found:?}");
        assert!(names.contains(&"row left in the view"), "{found:?}");
    }
    let [of_run, of_check] = life(ScenarioName::Views, Fault::Forgets);
    assert!(of_run.contains(&"row not in the view"), "{of_run:?}");
    assert!(of_check.iter().all(|name| !name.contains("view")), "as the table: {of_check:?}");
}

#[test]
fn a_row_has_one_change_under_way_and_none_after_one_in_doubt() {
    let mut rule = ScenarioName::Conditional.rule(known(BTreeMap::new()), rng(1));
    let changes: Vec<Op> = (0..KEYS).filter_map(|_| rule.op(Verb::Change, 0)).collect();
    let keys: HashSet<u64> = changes.iter().map(|op| op.key).collect();
    assert_eq!(keys.len() as u64, KEYS);
    assert_eq!(rule.op(Verb::Change, 0).unwrap().verb, Verb::Read, "a read needs not wait");
    for (op, how) in [(&changes[2], Unanswered::Unknown), (&changes[3], Unanswered::NotDone)] {
        rule.settled(op, how);
        rule.failed(op);
    }
    let again = rule.op(Verb::Change, 0).unwrap();
    assert_eq!((again.verb, again.key), (Verb::Change, changes[3].key));
    assert_eq!(rule.op(Verb::Change, 0).unwrap().verb, Verb::Read);
}

#[test]
fn counts_that_are_lost_or_made_are_seen() {
    for fault in [Fault::Forgets, Fault::DoesTwice] {
        let wrong = vec!["wrong count"];
        assert_eq!(life(ScenarioName::Counters, fault), [wrong.clone(), wrong], "{fault:?}");
    }
    for fault in [Fault::Forgets, Fault::DoesTwice, Fault::ForgetsName] {
        let wrong = vec!["wrong count"];
        assert_eq!(life(ScenarioName::Named, fault), [wrong.clone(), wrong], "{fault:?}");
    }
}

/// A crash leaves increments in doubt, done or not: sent again with their names, all of them count, once.
#[test]
fn named_increments_in_doubt_are_settled_by_a_check() {
    let record = |sequence, mask| Record { key: 3, sequence, mask };
    let journal = vec![record(101, 1), record(101, 2), record(102, 1), record(103, 1)];
    for (count, fault, wrong) in [(2, Fault::None, None), (3, Fault::None, Some("wrong count"))] {
        let known = known(BTreeMap::from([(3, journal.clone())]));
        let rule: Box<dyn Rule> = Box::new(named::Named::new(known, 1000));
        let source =
            Source::Walk { keys: Arc::new(vec![3]), next: 0, stride: 1, verb: Verb::Settle };
        let mut model = Model::new(fault, rule.statements());
        // 101 and 102 were done.
        model.rows.insert((3, 0), vec![cell(count)]);
        for number in [101_u128, 102] {
            model.names.insert((3_u128 << 64 | number).to_be_bytes());
        }
        let mut client = Client::new(Workload { rule, source });
        drive(&mut client, &mut model, u64::MAX);
        let found: Vec<&str> = client.names.into_iter().collect();
        assert_eq!(found, Vec::from_iter(wrong), "{count} before");
        let settled: Vec<u64> = client.journal[&3].iter().map(|record| record.sequence).collect();
        assert_eq!(settled, [102, 103], "the journal has them as acknowledged now");
        assert_eq!(named::promised(&[&journal[..], &client.journal[&3]].concat()).low, 3);
    }
}

/// What was begun so long ago that the server need not know its name is not sent again, and may have been counted.
#[test]
fn named_increments_of_long_ago_stay_in_doubt() {
    let journal = BTreeMap::from([(3, vec![Record { key: 3, sequence: 101, mask: 1 }])]);
    let now_us = 102 + crate::limits::NAMES_USED_US;
    let mut rule = named::Named::new(known(journal), now_us);
    assert_eq!(rule.op(Verb::Settle, 3).unwrap().verb, Verb::Read);
}

#[test]
fn batches_that_are_lost_or_halved_are_seen() {
    let [of_run, _] = life(ScenarioName::Batches, Fault::Forgets);
    assert_eq!(of_run, ["lost write"]);
    let [of_run, _] = life(ScenarioName::Batches, Fault::DoesHalf);
    assert_eq!(of_run, ["lost write", "part of a batch"]);
}

/// What a run leaves in doubt may be done or not; what was not done is not expected.
#[test]
fn an_increment_in_doubt_may_count_and_one_that_was_not_done_may_not() {
    for (how, most) in [(Unanswered::Unknown, 2), (Unanswered::NotDone, 1)] {
        let shared = known(BTreeMap::new());
        let mut rule = ScenarioName::Counters.rule(shared.clone(), rng(1));
        let op = rule.op(Verb::Increment, 3).unwrap();
        let mut records = Vec::new();
        let mut note = |mask| records.push(Record { key: 3, sequence: 1, mask });
        for answered in [true, false] {
            note(rule.begin(&op, 1));
            let mut findings = Findings::default();
            let at = Now { elapsed_ns: 0, wall_us: 0 };
            let sent = Sent { sequence: 1, floor: &[0; FIELDS_MAX], at };
            if answered {
                rule.written(&op, sent, Rows::NONE, &mut findings).unwrap();
                note(findings.mark);
            } else {
                note(rule.settled(&op, how));
            }
        }
        assert_eq!((shared.tallies.answered(3), shared.tallies.begun(3)), (1, most as u64));
        assert_eq!(counters::promised(&records), Range { low: 1, high: most }, "{how:?}");
    }
}

/// A read beside a batch that is under way may show a part of it; the check of a quiet group may not.
#[test]
fn a_batch_under_way_is_not_judged() {
    let shared = known(BTreeMap::new());
    let mut rule = ScenarioName::Batches.rule(shared, rng(1));
    let [batch, read] = [Verb::Batch, Verb::Read].map(|verb| rule.op(verb, 0).unwrap());
    let mut values = Vec::new();
    for (key, sequence) in (0..10u64).map(|key| (key, if key < 5 { 8 } else { 7 })) {
        let origin = Origin { key, field: 0, mask: 1, sequence };
        let mut binder = Binder::new(&mut values);
        binder.value(&key.to_be_bytes());
        binder.value_of(40, |out| origin.append_value(40, out));
    }
    let judge = |rule: &mut Box<dyn Rule>| {
        let mut floor = [0; FIELDS_MAX];
        rule.floor(&read, &mut floor);
        let sent = Sent { sequence: 0, floor: &floor, at: Now { elapsed_ns: 0, wall_us: 0 } };
        let mut findings = Findings::default();
        rule.read(&read, sent, Rows::new(&values, 10, 2), &mut findings).unwrap();
        findings.violations.iter().map(Violation::name).collect::<Vec<_>>()
    };
    assert_eq!(judge(&mut rule), ["part of a batch"], "nothing is under way");
    rule.begin(&batch, 8);
    assert_eq!(judge(&mut rule), [""; 0]);
    let at = Now { elapsed_ns: 0, wall_us: 0 };
    let sent = Sent { sequence: 8, floor: &[0; FIELDS_MAX], at };
    rule.written(&batch, sent, Rows::NONE, &mut Findings::default()).unwrap();
    assert_eq!(judge(&mut rule), ["part of a batch"]);
}
