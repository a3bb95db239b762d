//! A bank: transfers between its accounts by conditional batches. No money appears or vanishes.
//!
//! ```text
//! partition  bank        entry 0 … 7             entry = number of the transfer
//!                        balance of an account   source, target, amount
//!
//! transfer   read the balances ─► UPDATE source IF balance = what was read
//!                                 UPDATE target IF balance = what was read     one batch: all of it, or nothing
//!                                 INSERT the transfer
//! ```
//!
//! What is judged
//! 1. The accounts of a bank have together what was paid in. A read of several rows may meet a batch in the middle
//!    (docs/conditional-writes.md), so a read is judged if no transfer of its bank was under way beside it.
//! 2. A transfer that was answered as applied is there as it was written, one that was refused is not.
//! 3. In a check: every account has what the transfers that are there leave it.
//!
//! A transfer whose outcome is not known is not sent again: refused the second time, it would seem never done.

use model::Token;
use rand::RngExt;
use rand::rngs::SmallRng;

use super::scenario::{Known, number};
use super::{Findings, Op, Rule, Sent, Unanswered, Verb};
use crate::error::Result;
use crate::limits::RECEIPTS_KEPT;
use crate::proof::{Floor, Violation};
use crate::wire::{Binder, Rows};

/// The columns of the table.
pub const COLUMNS: &str = "bank bigint, entry bigint, balance bigint, source int, target int, \
                           amount bigint, PRIMARY KEY (bank, entry)";

/// Accounts of a bank.
const ACCOUNTS: usize = 8;
/// What each account has at first.
const PAID_IN: i64 = 1000;
/// What one transfer moves at most.
const AMOUNT_MAX: i64 = 100;

/// What the journal notes.
const APPLIED: u16 = 1;
const REFUSED: u16 = 2;
const OPENED: u16 = 4;

const OPEN: usize = 0;
const BALANCES: usize = 1;
const TRANSFER: usize = 2;
const RECEIPT: usize = 3;
const WHOLE: usize = 4;

/// The balances of a bank's accounts; `None` of one that is not there.
type Balances = [Option<i64>; ACCOUNTS];

/// Money on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Order {
    source: u8,
    target: u8,
    amount: i64,
    /// The balances of both as they were read.
    read: [i64; 2],
}

/// A transfer that was answered.
#[derive(Clone, Copy, Debug)]
struct Answered {
    bank: u64,
    sequence: u64,
    order: Order,
    is_applied: bool,
}

/// The bank in one client thread.
#[derive(Debug)]
pub struct Bank {
    known: Known,
    rng: SmallRng,
    /// Orders of transfers that are under way; `detail` is a position here.
    orders: Slots<Order>,
    /// Transfers that were answered lately.
    answered: Vec<Answered>,
    /// Where the next one goes.
    turn: usize,
    /// Transfers that are being read back; `detail` is a position here.
    asked: Slots<Answered>,
}

/// Values by number, whose numbers are used again.
#[derive(Debug)]
struct Slots<T> {
    values: Vec<T>,
    free: Vec<usize>,
}

impl<T: Copy> Slots<T> {
    fn new() -> Slots<T> {
        Slots { values: Vec::new(), free: Vec::new() }
    }

    fn put(&mut self, value: T) -> u64 {
        let slot = self.free.pop().unwrap_or(self.values.len());
        if slot == self.values.len() {
            self.values.push(value);
        }
        self.values[slot] = value;
        slot as u64
    }

    fn get(&self, slot: u64) -> &T {
        &self.values[slot as usize]
    }

    fn take(&mut self, slot: u64) -> T {
        self.free.push(slot as usize);
        self.values[slot as usize]
    }
}

impl Bank {
    /// Statements and judge.
    pub fn new(known: Known, rng: SmallRng) -> Bank {
        Bank {
            known,
            rng,
            orders: Slots::new(),
            answered: Vec::new(),
            turn: 0,
            asked: Slots::new(),
        }
    }

    /// An order that no account is overdrawn by.
    fn order(&mut self, balances: [i64; ACCOUNTS]) -> Order {
        let mut source = self.rng.random_range(0..ACCOUNTS);
        if balances[source] <= 0 {
            source = (0..ACCOUNTS).max_by_key(|&account| balances[account]).unwrap_or(source);
        }
        let target = (source + self.rng.random_range(1..ACCOUNTS)) % ACCOUNTS;
        let most = balances[source].clamp(1, AMOUNT_MAX);
        Order {
            source: source as u8,
            target: target as u8,
            amount: self.rng.random_range(1..=most),
            read: [balances[source], balances[target]],
        }
    }

    /// The balances that were read, judged if nothing was under way beside the read.
    fn balances(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        mut rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<[i64; ACCOUNTS]>> {
        let mut balances: Balances = [None; ACCOUNTS];
        for _ in 0..rows.rows {
            let (entry, balance) = (number(rows.cell()?), number(rows.cell()?));
            if let Some(account) = account(entry) {
                balances[account] = balance;
            }
        }
        let [begun, is_quiet] = [sent.floor[0], sent.floor[1]];
        if self.known.judges && is_quiet == 1 && self.known.tallies.begun(op.key) == begun {
            findings.proved.push("sums of a bank held against what was paid in");
            findings.violations.extend(judge_sum(op.key, &balances).err());
        }
        let whole = balances.iter().all(Option::is_some);
        Ok(whole.then(|| balances.map(|balance| balance.unwrap_or(0))))
    }

    /// The answer to a transfer.
    fn transferred(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        mut rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<()> {
        self.known.tallies.answer(op.key);
        let order = self.orders.take(op.detail);
        let is_applied = rows.is_applied()?;
        findings.mark = if is_applied { APPLIED } else { REFUSED };
        findings.proved.push(if is_applied { "transfers applied" } else { "transfers refused" });
        let answered = Answered { bank: op.key, sequence: sent.sequence, order, is_applied };
        if self.answered.len() < RECEIPTS_KEPT {
            self.answered.push(answered);
        } else {
            self.answered[self.turn] = answered;
            self.turn = (self.turn + 1) % RECEIPTS_KEPT;
        }
        Ok(())
    }

    /// A transfer that was read back.
    fn receipt(&mut self, op: &Op, mut rows: Rows<'_>, findings: &mut Findings) -> Result<()> {
        let Answered { bank: key, sequence, order, is_applied } = self.asked.take(op.detail);
        let found = if rows.rows == 0 { None } else { entered(&mut rows)? };
        if !self.known.judges {
            return Ok(());
        }
        let expected = (order.source, order.target, order.amount);
        if is_applied {
            findings.proved.push("applied transfers read back");
            if found != Some(expected) {
                findings.violations.push(Violation::Unapplied { key, sequence });
            }
        } else {
            findings.proved.push("refused transfers looked for");
            if rows.rows > 0 {
                findings.violations.push(Violation::Refused { key, sequence });
            }
        }
        Ok(())
    }

    /// All that a bank has, against what a journal promises and against itself.
    fn whole(&mut self, op: &Op, mut rows: Rows<'_>, findings: &mut Findings) -> Result<()> {
        let (key, mut balances) = (op.key, Balances::default());
        let (mut expected, mut there) = ([i128::from(PAID_IN); ACCOUNTS], Vec::new());
        for _ in 0..rows.rows {
            let (entry, balance) = (number(rows.cell()?), number(rows.cell()?));
            let order = entered(&mut rows)?;
            match (account(entry), order) {
                (Some(account), _) => balances[account] = balance,
                (None, Some((source, target, amount))) => {
                    expected[usize::from(source)] -= i128::from(amount);
                    expected[usize::from(target)] += i128::from(amount);
                    there.push(entry.unwrap_or(0) as u64);
                }
                _ => findings.violations.push(Violation::Misplaced { key }),
            }
        }
        findings.proved.push("banks held against all their transfers");
        findings.violations.extend(judge_sum(key, &balances).err());
        for (account, expected) in expected.into_iter().enumerate() {
            let balance = balances[account].unwrap_or(0);
            if i128::from(balance) != expected {
                let account = account as u8;
                findings.violations.push(Violation::Balance { key, account, balance, expected });
            }
        }
        let promises = self.known.promises.get(&key).into_iter().flatten();
        for record in promises.filter(|record| record.mask != OPENED) {
            let sequence = record.sequence;
            // Rows come in the order of their entries.
            let is_there = there.binary_search(&sequence).is_ok();
            match (record.mask, is_there) {
                (APPLIED, true) => findings.proved.push("applied transfers read back"),
                (APPLIED, false) => {
                    findings.violations.push(Violation::Unapplied { key, sequence });
                }
                (_, false) => findings.proved.push("refused transfers looked for"),
                (_, true) => findings.violations.push(Violation::Refused { key, sequence }),
            }
        }
        Ok(())
    }

    fn bind_transfer(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        let order = self.orders.get(op.detail);
        let bank = op.key.to_be_bytes();
        for (account, read, change) in [
            (order.source, order.read[0], -order.amount),
            (order.target, order.read[1], order.amount),
        ] {
            binder.value(&read.wrapping_add(change).to_be_bytes());
            binder.value(&bank);
            binder.value(&u64::from(account).to_be_bytes());
            binder.value(&read.to_be_bytes());
        }
        binder.value(&bank);
        binder.value(&sequence.to_be_bytes());
        binder.value(&i32::from(order.source).to_be_bytes());
        binder.value(&i32::from(order.target).to_be_bytes());
        binder.value(&order.amount.to_be_bytes());
    }
}

/// The account of an entry, if it is one.
fn account(entry: Option<i64>) -> Option<usize> {
    entry.and_then(|entry| usize::try_from(entry).ok()).filter(|&account| account < ACCOUNTS)
}

/// The source, the target and the amount of a transfer's row.
fn entered(rows: &mut Rows<'_>) -> Result<Option<(u8, u8, i64)>> {
    let [source, target] = [rows.cell()?, rows.cell()?].map(|cell| {
        let number = i32::from_be_bytes(cell?.try_into().ok()?);
        u8::try_from(number).ok().filter(|&account| usize::from(account) < ACCOUNTS)
    });
    let amount = number(rows.cell()?);
    Ok(source.zip(target).zip(amount).map(|((source, target), amount)| (source, target, amount)))
}

/// Whether a bank has all its accounts, with what was paid in.
fn judge_sum(key: u64, balances: &Balances) -> Result<(), Violation> {
    if balances.iter().any(Option::is_none) {
        return Err(Violation::Missing { key });
    }
    // What a server answers may be anything.
    let sum = balances.iter().flatten().map(|&balance| i128::from(balance)).sum();
    let expected = i128::from(PAID_IN) * ACCOUNTS as i128;
    if sum == expected { Ok(()) } else { Err(Violation::Sum { key, sum, expected }) }
}

impl Rule for Bank {
    fn statements(&self) -> Vec<String> {
        let table = format!("{}.bank", self.known.keyspace);
        let open = |account: usize| {
            format!(
                "INSERT INTO {table} (bank, entry, balance) VALUES (?, {account}, {PAID_IN}) IF NOT EXISTS; "
            )
        };
        let change =
            format!("UPDATE {table} SET balance = ? WHERE bank = ? AND entry = ? IF balance = ?; ");
        let enter = format!(
            "INSERT INTO {table} (bank, entry, source, target, amount) VALUES (?, ?, ?, ?, ?); "
        );
        let columns = "source, target, amount";
        vec![
            format!("BEGIN BATCH {}APPLY BATCH", (0..ACCOUNTS).map(open).collect::<String>()),
            format!("SELECT entry, balance FROM {table} WHERE bank = ? AND entry < {ACCOUNTS}"),
            format!("BEGIN BATCH {change}{change}{enter}APPLY BATCH"),
            format!("SELECT {columns} FROM {table} WHERE bank = ? AND entry = ?"),
            format!("SELECT entry, balance, {columns} FROM {table} WHERE bank = ?"),
        ]
    }

    fn statement(&self, op: &Op) -> usize {
        match op.verb {
            Verb::Open => OPEN,
            Verb::Transfer => TRANSFER,
            Verb::Receipt => RECEIPT,
            Verb::Whole => WHOLE,
            _ => BALANCES,
        }
    }

    fn op(&mut self, verb: Verb, key: u64) -> Option<Op> {
        if verb == Verb::Receipt && !self.answered.is_empty() {
            let answered = self.answered[self.rng.random_range(0..self.answered.len())];
            let (key, detail) = (answered.bank, self.asked.put(answered));
            return Some(Op { verb, key, detail, token: Token::of_key(&key.to_be_bytes()) });
        }
        // Nothing is there yet to be read back.
        let verb = if verb == Verb::Receipt { Verb::Read } else { verb };
        Some(Op { verb, key, detail: 0, token: Token::of_key(&key.to_be_bytes()) })
    }

    fn floor(&self, op: &Op, floor: &mut Floor) {
        let (answered, begun) =
            (self.known.tallies.answered(op.key), self.known.tallies.begun(op.key));
        floor[0] = begun;
        floor[1] = u64::from(answered == begun);
    }

    fn begin(&mut self, op: &Op, _sequence: u64) -> u16 {
        if op.verb == Verb::Transfer {
            self.known.tallies.begin(op.key);
        }
        0
    }

    fn bind(&self, op: &Op, sequence: u64, binder: &mut Binder<'_>) {
        match op.verb {
            Verb::Open => (0..ACCOUNTS).for_each(|_| binder.value(&op.key.to_be_bytes())),
            Verb::Transfer => self.bind_transfer(op, sequence, binder),
            Verb::Receipt => {
                binder.value(&op.key.to_be_bytes());
                binder.value(&self.asked.get(op.detail).sequence.to_be_bytes());
            }
            _ => binder.value(&op.key.to_be_bytes()),
        }
    }

    fn written(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        if op.verb == Verb::Transfer {
            return self.transferred(op, sent, rows, findings).map(|()| None);
        }
        // Refused: the accounts are there already, as they should be after another load.
        findings.mark = OPENED;
        Ok(None)
    }

    fn read(
        &mut self,
        op: &Op,
        sent: Sent<'_>,
        rows: Rows<'_>,
        findings: &mut Findings,
    ) -> Result<Option<Op>> {
        match op.verb {
            Verb::Receipt => self.receipt(op, rows, findings)?,
            Verb::Whole => self.whole(op, rows, findings)?,
            _ => {
                findings.not_found += u64::from(rows.rows == 0);
                let balances = self.balances(op, sent, rows, findings)?;
                if op.verb == Verb::ReadToTransfer
                    && let Some(balances) = balances
                {
                    let order = self.order(balances);
                    let detail = self.orders.put(order);
                    return Ok(Some(Op { verb: Verb::Transfer, detail, ..*op }));
                }
            }
        }
        Ok(None)
    }

    fn settled(&mut self, op: &Op, how: Unanswered) -> u16 {
        // One that is unknown stays under way: its bank is judged again by the check.
        if op.verb == Verb::Transfer && how == Unanswered::NotDone {
            self.known.tallies.answer(op.key);
        }
        0
    }

    fn failed(&mut self, op: &Op) {
        match op.verb {
            Verb::Transfer => drop(self.orders.take(op.detail)),
            Verb::Receipt => drop(self.asked.take(op.detail)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before: the tool aborted, where it had to tell of a wrong sum.
    #[test]
    fn balances_beyond_all_numbers_are_a_wrong_sum() {
        let mut balances = [Some(PAID_IN); ACCOUNTS];
        assert_eq!(judge_sum(1, &balances), Ok(()));
        balances[..2].fill(Some(i64::MAX));
        assert_eq!(judge_sum(1, &balances).unwrap_err().name(), "wrong sum");
    }
}
