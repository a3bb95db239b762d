//! Aggregates over a range of partitions: each core adds up the rows that it owns, and the states are put together.
//!
//! ```text
//! asker   select_in_parts ─► part of its own tokens ─────────────────────────────┐
//!                  │                                                             ├─► encoder ─► answer
//!                  └─► Ask::Part: the request as a frame, the tokens ─► owner ─► │ Answer::Part: groups, states
//! ```
//!
//! 1. No row leaves its core: what travels is a state, or the rows of groups that are whole.
//! 2. The parts are made side by side, each a task of the group for long work. Where the result depends on the order of
//!    the rows, or ends at a LIMIT, each goes on with the state of the one before (`cql/src/plan/select.rs`, `Parts`).
//! 3. All parts see one clock, the asker's: a row is expired for all or for none.
//! 4. A part has the asker's deadline, and a term from the moment it arrives.
//!
//! A part counts against the memory for answers of the core that makes it, the result against that of the asker. Not
//! here: an aggregate over keys, which has no parts, and one that is traced or of a long text: its rows come to the
//! core that was asked.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use cql::bind::Bindings;
use cql::frame::header::{Direction, HEADER_BYTES, Header};
use cql::frame::request::Request;
use cql::frame::response::Envelope;
use cql::plan::{BoundRead, Parts};
use cql::rows::{OpenGroup, ResultEncoder, ResultPart};
use model::TokenRange;
use model::read::Partitions;
use shard::scatter::split_range;
use shard::stalls::Work;
use shard::{Asker, Group, ShardId, Term, join};

use super::call::Call;
use super::forward::put_frame;
use super::peers::{Answer, Ask};
use super::read::{Given, LongSelect, Pending, SelectRun};
use super::statement::SeenSchema;
use super::statement_clock::StatementClock;
use super::terms::Registered;
use super::{ExecuteError, Executor, Run};
use crate::answers::Lease;
use crate::limits::AGGREGATES_IN_PARTS_MAX;
use crate::prepared::StatementId;

/// How a SELECT is made in parts.
pub(super) struct InParts {
    how: Parts,
    /// The parts in the order of their tokens.
    owners: Vec<(ShardId, TokenRange)>,
    /// The client's request, which all parts share.
    frame: Arc<[u8]>,
    /// The keyspace of its unqualified names.
    keyspace: Option<Box<str>>,
    /// What the asker compiled the request against.
    seen: Arc<SeenSchema>,
    /// When the answer is due.
    deadline: Instant,
    _place: InPartsPlace,
}

/// The place of one aggregate among those that wait for their parts.
struct InPartsPlace(Rc<Cell<usize>>);

impl InPartsPlace {
    /// `None` while [`AGGREGATES_IN_PARTS_MAX`] wait.
    fn take(taken: &Rc<Cell<usize>>) -> Option<InPartsPlace> {
        let number = taken.get() + 1;
        (number <= AGGREGATES_IN_PARTS_MAX).then(|| {
            taken.set(number);
            InPartsPlace(taken.clone())
        })
    }
}

impl Drop for InPartsPlace {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// What is asked of the owner of a part.
#[derive(Clone, Debug)]
pub(crate) struct PartAsk {
    /// The client's request: QUERY or EXECUTE as a frame, uncompressed.
    frame: Arc<[u8]>,
    /// The keyspace of unqualified names.
    keyspace: Option<Box<str>>,
    /// The result metadata of the statement as the asker has it.
    result_id: StatementId,
    /// What the asker compiled the statement against: of another plan, its states mean something else.
    seen: Arc<SeenSchema>,
    /// The tokens of the part, which the receiver owns.
    tokens: TokenRange,
    /// The state that the part goes on with.
    open: Option<OpenGroup>,
    /// How many groups are wanted of it.
    groups_max: u64,
    /// The clock of the statement.
    time: StatementClock,
    /// When the asker's answer is due.
    deadline: Instant,
    /// The asker's number for the part.
    number: u32,
}

/// What the owner of a part has made of its rows.
#[derive(Clone, Debug)]
pub(crate) struct PartAnswer {
    part: ResultPart,
    /// Rows of storage that were read.
    rows: u64,
    /// Tombstones that were passed.
    tombstones: u64,
}

/// One part to make.
struct Part {
    owner: ShardId,
    tokens: TokenRange,
    open: Option<OpenGroup>,
    groups_max: u64,
}

impl Executor {
    /// How this SELECT is made in parts, if other cores have some of its rows and it can be.
    pub(super) fn in_parts(&self, call: &Call, run: Run<'_>, pending: &Pending) -> Option<InParts> {
        let plan = run.statement.select()?;
        let how = plan.parts(&pending.bound)?;
        let Partitions::Range(range) = pending.bound.command.as_ref()?.partitions else {
            return None;
        };
        if call.trace.is_some() || run.is_query_of_long_text() {
            return None;
        }
        let owners = split_range(range, None, self.shard.sharder());
        if owners.iter().all(|(owner, _)| *owner == self.shard.me()) {
            return None;
        }
        let place = InPartsPlace::take(&self.in_parts)?;
        let mut frame = Vec::new();
        let keyspace = put_frame(call, run, &mut frame);
        let frame = frame.into();
        let seen = Arc::new(run.statement.seen(plan));
        let deadline = pending.deadline;
        Some(InParts { how, owners, frame, keyspace, seen, deadline, _place: place })
    }

    /// Puts the parts of a result together.
    pub(super) async fn select_in_parts(
        &self,
        select: LongSelect<'_>,
        in_parts: &InParts,
        encoder: &mut ResultEncoder<'_>,
        lease: &mut Lease,
    ) -> Result<Given, ExecuteError> {
        let mut given = Given::default();
        let mut take = |encoder: &mut ResultEncoder<'_>, answer: PartAnswer| {
            given.rows += answer.rows;
            given.tombstones += answer.tombstones;
            encoder.take_part(answer.part)?;
            match lease.hold(encoder.held_bytes()) {
                true => Ok(()),
                false => Err(ExecuteError::Overloaded(lease.refusal())),
            }
        };
        let part = |(owner, tokens): &(ShardId, TokenRange), open, groups_max| {
            let part = Part { owner: *owner, tokens: *tokens, open, groups_max };
            self.part(select, in_parts, part)
        };
        match in_parts.how {
            Parts::SideBySide => {
                let parts = in_parts.owners.iter().map(|owned| part(owned, None, u64::MAX));
                for answer in join(parts).await {
                    take(encoder, answer?)?;
                }
            }
            Parts::OneByOne => {
                for owned in &in_parts.owners {
                    let (open, groups_max) = (encoder.take_open(), encoder.groups_left());
                    take(encoder, part(owned, open, groups_max).await?)?;
                    if encoder.is_full() {
                        break;
                    }
                }
            }
        }
        Ok(given)
    }

    /// One part, from the core that has its rows.
    async fn part(
        &self,
        select: LongSelect<'_>,
        in_parts: &InParts,
        part: Part,
    ) -> Result<PartAnswer, ExecuteError> {
        let Part { owner, tokens, open, groups_max } = part;
        if owner == self.shard.me() {
            let bound = bound_of_part(select.bound.clone(), tokens, groups_max);
            return self.part_here(LongSelect { bound: &bound, ..select }, open).await;
        }
        let number = self.number_of_part();
        let ask = PartAsk {
            frame: in_parts.frame.clone(),
            keyspace: in_parts.keyspace.clone(),
            result_id: select.statement.result_id,
            seen: in_parts.seen.clone(),
            tokens,
            open,
            groups_max,
            time: StatementClock::of(select.bindings.time),
            deadline: in_parts.deadline,
            number,
        };
        let mut asked = Asked { executor: self, owner, number, is_answered: false };
        let answer = self.shard.ask(owner, Ask::Part(Box::new(ask))).await;
        asked.is_answered = true;
        match answer {
            Answer::Part(answer) => Ok(*answer),
            Answer::Frame(refusal) => Err(ExecuteError::OfPeer(refusal)),
            _ => unreachable!("a part is answered by what it is, or by an error"),
        }
    }

    /// A number that no other part has, nor a forwarded request.
    fn number_of_part(&self) -> u32 {
        let number = self.parts_asked.get();
        self.parts_asked.set((number + 1) % (1 << 31));
        u32::MAX - number
    }

    /// Makes a part from the rows of this core.
    async fn part_here(
        &self,
        select: LongSelect<'_>,
        open: Option<OpenGroup>,
    ) -> Result<PartAnswer, ExecuteError> {
        let (mut rows, mut lease) = (Vec::new(), self.answers.lease());
        let mut encoder = select.plan.encoder(select.bindings, select.bound, &mut rows)?;
        encoder.take_part(open.map(ResultPart::from).unwrap_or_default())?;
        let given = self.give_rows(select, &mut encoder, &mut lease).await?;
        let Given { rows, tombstones, .. } = given;
        Ok(PartAnswer { part: encoder.into_part()?, rows, tombstones })
    }

    /// Makes a part for another core.
    #[cold]
    pub(super) fn part_for_peer(self: &Rc<Self>, asker: Asker, ask: PartAsk) {
        let executor = self.clone();
        // Before the task has its first turn: the asker may take the part back at any time.
        let name = (asker.peer(), ask.number);
        let registered =
            Registered::for_peer(&self.peer_terms, name, &self.deadlines, ask.deadline);
        let work = Work { group: Group::Streaming, name: "part of an aggregate", table: None };
        self.shard.runtime().spawn(work, async move {
            let answer = executor.answer_part(&registered.term, &ask).await;
            drop(registered);
            executor.shard.answer(asker, answer);
            // The pass publishes; it may be asleep.
            executor.shard.wake().notify();
        });
    }

    async fn answer_part(&self, term: &Term, ask: &PartAsk) -> Answer {
        let header = Header::decode(&ask.frame, Direction::Request);
        let header = header.ok().flatten().expect("a peer forwards whole frames");
        let request = Request::decode(&header, &ask.frame[HEADER_BYTES..]);
        let request = request.expect("a peer forwards what it has decoded itself");
        match self.part_of_request(term, ask, &request).await {
            Ok(answer) => Answer::Part(Box::new(answer)),
            Err(refusal) => {
                let mut frame = Vec::new();
                let envelope = Envelope::new(header.version, header.stream);
                refusal.put(&envelope, self.state.node(), &mut frame);
                Answer::Frame(frame)
            }
        }
    }

    async fn part_of_request(
        &self,
        term: &Term,
        ask: &PartAsk,
        request: &Request<'_>,
    ) -> Result<PartAnswer, ExecuteError> {
        let (keyspace, result_id) = (ask.keyspace.as_deref(), ask.result_id);
        let (statement, parameters, target) =
            self.statement_of(request, keyspace, Some(result_id))?;
        let is_same = statement.result_id == result_id && ask.seen.is_of(&self.shard.schema());
        let plan = statement.select().filter(|_| is_same);
        let Some(plan) = plan else {
            let text = "the table was changed while it was read: send the statement again";
            return Err(ExecuteError::invalid(text));
        };
        let time = ask.time.with(self.state.ids(), self.state.functions());
        let run = Run { statement: &statement, parameters, target, time };
        let bindings = Bindings::new(&parameters.values, statement.markers(), time)?;
        let select = SelectRun { run, plan, bindings: &bindings, at_once_bytes_max: 0 };
        let bound = self.bind_read(&select)?;
        let bound = bound_of_part(bound, ask.tokens, ask.groups_max);
        let level = parameters.consistency;
        let (statement, bindings, bound, deadline) = (&statement, &bindings, &bound, ask.deadline);
        let head_bytes = 0;
        let select = LongSelect { statement, plan, bindings, bound, level, deadline, head_bytes };
        let made = term.run(self.part_here(select, ask.open.clone())).await;
        made.unwrap_or(Err(ExecuteError::ReadTimedOut(level)))
    }
}

/// What a part reads, and how many groups it gives.
fn bound_of_part(bound: BoundRead, tokens: TokenRange, groups_max: u64) -> BoundRead {
    let mut bound = bound;
    bound.encoder_limit = bound.encoder_limit.min(groups_max);
    if let Some(command) = &mut bound.command {
        command.partitions = Partitions::Range(tokens);
    }
    bound
}

/// A part that another core makes: it ends with the task that waits for it.
struct Asked<'e> {
    executor: &'e Executor,
    owner: ShardId,
    number: u32,
    is_answered: bool,
}

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        if !self.is_answered {
            let Asked { executor, owner, number, .. } = *self;
            executor.shard.wake().notify();
            executor.shard.tell_end(owner, || Ask::EndSelect { number });
        }
    }
}
