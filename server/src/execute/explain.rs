//! EXPLAIN: how a SELECT would be read, from its plan and from what the shards know of their files.
//!
//! ```text
//! bind ─► steps of the plan (`cql/src/plan/explain.rs`) ─► each shard that would be asked: memtables, sstables ─► rows
//! ```
//!
//! 1. It is bound as the SELECT is, so that its errors, levels and paging states are the same ones.
//!    So are its deadline and its end with the connection.
//! 2. Shards are asked for numbers (`engine/src/read/sources.rs`): no block is read, and no row.
//!
//! The answer is one page: a few rows, one for each condition, two for each shard. Not here: the numbers of a read that
//! is done, which its trace has (`read.rs`).

use std::rc::Rc;

use cql::bind::Bindings;
use cql::frame::response::add_warning;
use cql::frame::writer;
use cql::plan::{ExplainStep, SelectPlan};
use engine::ReadSources;
use model::read::{Partitions, ReadCommand};
use shard::scatter::split_range;
use shard::stalls::Work;
use shard::{Asker, Group, ShardId, join};

use super::call::{Call, Flow};
use super::peers::{Answer, Ask};
use super::read::SelectRun;
use super::terms::Registered;
use super::{ExecuteError, Executor, Run};
use crate::system;

impl Executor {
    /// Runs an EXPLAIN.
    #[cold]
    pub(super) fn explain(
        self: &Rc<Self>,
        call: Call,
        run: Run<'_>,
        plan: &SelectPlan,
        out: &mut Vec<u8>,
    ) -> Flow {
        let mut bindings = Bindings::none(run.time);
        if let Err(error) = bindings.bind(&run.parameters.values, run.statement.markers()) {
            return self.refuse(call, error.into(), out);
        }
        let select = SelectRun { run, plan, bindings: &bindings, at_once_bytes_max: 0 };
        let bound = match self.bind_read(&select) {
            Ok(bound) => bound,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let named = self.named_keys.hold(bound.named_bytes());
        let held = match named.and_then(|named| Ok((named, self.hold_compiled(run)?))) {
            Ok(held) => held,
            Err(refusal) => return self.refuse(call, refusal, out),
        };
        let mut steps = plan.explain(&bound);
        let (deadline, warnings) = (self.deadline_of(&bound), bound.warnings);
        let registered = Registered::for_client(&call.session, &self.deadlines, deadline);
        let level = run.parameters.consistency;
        let command = bound.command.filter(|_| !system::computes(&plan.table));
        let (executor, statement, target) = (self.clone(), run.statement.clone(), run.target);
        self.spawn(Group::Requests, call, async move |call, out| {
            let _held = held;
            if let Some(command) = &command {
                let sources = registered.term.run(executor.sources(command)).await;
                let Ok(sources) = sources else {
                    return Err(ExecuteError::ReadTimedOut(level));
                };
                for (shard, sources) in sources {
                    steps.extend(steps_of_shard(shard, &sources));
                }
            }
            let start = out.len();
            let open = statement.open_rows(&call.envelope(), target, out);
            for ExplainStep { step, what, value } in &steps {
                let texts = [step, what, value];
                texts.iter().for_each(|text| writer::bytes(out, Some(text.as_bytes())));
            }
            open.close(steps.len() as u32, None, out);
            warnings.iter().for_each(|text| add_warning(start, text, out));
            Ok(())
        });
        Flow::Later
    }

    /// What each shard would read for a command, in the order of the shards; those that have no such table say nothing.
    pub(super) async fn sources(&self, command: &ReadCommand) -> Vec<(ShardId, ReadSources)> {
        let parts = self.parts_of(command).into_iter();
        let asked = parts.map(async |(shard, part)| {
            let sources = match shard == self.shard.me() {
                true => self.sources_here(&part).await,
                false => match self.shard.ask(shard, Ask::Sources(Box::new(part))).await {
                    Answer::Sources(sources) => *sources,
                    _ => unreachable!("it was asked for sources"),
                },
            };
            sources.map(|sources| (shard, sources))
        });
        join(asked).await.into_iter().flatten().collect()
    }

    /// The part of a command that each shard has, without what is of no account before a row is read.
    fn parts_of(&self, command: &ReadCommand) -> Vec<(ShardId, ReadCommand)> {
        let sharder = self.shard.sharder();
        let part = |partitions| ReadCommand {
            partitions,
            slices: command.slices.clone(),
            filters: Vec::new(),
            lookups: Vec::new(),
            nearest: None,
            resume: None,
            ..*command
        };
        match &command.partitions {
            Partitions::Range(range) => split_range(*range, command.resume.as_ref(), sharder)
                .into_iter()
                .map(|(shard, tokens)| (shard, part(Partitions::Range(tokens))))
                .collect(),
            Partitions::Keys(keys) => {
                let mut of_shards = vec![Vec::new(); sharder.shards()];
                let resumed = command.resume.as_ref();
                let is_done = |key: &[u8]| resumed.is_some_and(|resume| *resume.key != *key);
                for (token, key) in keys.iter().skip_while(|(_, key)| is_done(key)) {
                    of_shards[sharder.shard_of(*token).index()].push((*token, key.clone()));
                }
                let all = sharder.all().zip(of_shards).filter(|(_, keys)| !keys.is_empty());
                all.map(|(shard, keys)| (shard, part(Partitions::Keys(keys)))).collect()
            }
        }
    }

    async fn sources_here(&self, command: &ReadCommand) -> Option<ReadSources> {
        let yielder = self.shard.runtime().yielder(Group::Background);
        // The only error is a table that another change of the schema has taken.
        self.shard.engine().read_sources(command, || yielder.yield_if_due()).await.ok()
    }

    /// Tells a peer what this shard would read.
    #[cold]
    pub(super) fn sources_for_peer(self: &Rc<Self>, asker: Asker, command: Box<ReadCommand>) {
        let executor = self.clone();
        let name = "sources of a read";
        let work = Work { group: Group::Requests, name, table: Some(command.table) };
        self.shard.runtime().spawn(work, async move {
            let sources = executor.sources_here(&command).await;
            executor.shard.answer(asker, Answer::Sources(Box::new(sources)));
            // The pass publishes; it may be asleep.
            executor.shard.wake().notify();
        });
    }
}

fn steps_of_shard(shard: ShardId, sources: &ReadSources) -> [ExplainStep; 2] {
    let ReadSources { memtables, memtable_bytes, sstables, sstable_bytes, .. } = *sources;
    let step = format!("shard {}", shard.index());
    let memtables = format!("{memtables} of {memtable_bytes} bytes");
    let sstables = format!(
        "{sstables} of {sstable_bytes} bytes; left out {} by bounds, {} by filter",
        sources.outside_bounds, sources.outside_filter
    );
    [
        ExplainStep::new(step.clone(), "memtables", memtables),
        ExplainStep::new(step, "sstables", sstables),
    ]
}
