//! `run`: one of the workloads, on data that are loaded.
//!
//! 1. Check flags that do not suit the data; read the promises of a scenario's journal.
//! 2. Find the server; open the journal; begin the statement that is repeated beside the run (`--beside`), if there is
//!    one.
//! 3. Make a workload for each thread: a rule (records, series, customers or a scenario) and a source of operations.
//!
//! Invariants
//! 1. The operations of `--mix` must be ones that the data know.
//! 2. Each thread has a random generator of its own, made from `--seed` and the thread's number.
//! 3. The ledger of acknowledged writes and the ring of loaded keys are kept only where `--verify` needs them.
//!
//! Not here: how a run is measured and reported (`command.rs`), scenarios (`command/scenario.rs`), customers
//! (`command/customers.rs`).

use std::sync::Arc;

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::load::{open_journal, record_shape, series_shape};
use super::{Job, Server, customers, scenario};
use crate::client::beside::Beside;
use crate::console::{Goal, say};
use crate::error::{Error, Result};
use crate::flags::{DataName, PopularityName, RunFlags, WorkloadName};
use crate::ledger::{Frontier, Ledger};
use crate::limits::SCAN_ROWS_MAX;
use crate::popularity::Popularity;
use crate::popularity::zipf::Zipf;
use crate::report::units::grouped;
use crate::workload::customers as by_index;
use crate::workload::mix::Mix;
use crate::workload::ring::Ring;
use crate::workload::series::{self, Series, Setup};
use crate::workload::{Source, Verb, Workload, ycsb};

/// Runs the workload.
pub(super) fn work(flags: &RunFlags) -> Result<bool> {
    let data = &flags.data;
    let name = flags.workload.data();
    let mix = mix(flags)?;
    if !(1..=SCAN_ROWS_MAX).contains(&flags.scan_rows) {
        return Err(Error::Invalid(format!("--scan-rows must be between 1 and {SCAN_ROWS_MAX}")));
    }
    if flags.write_all_fields && name != DataName::Ycsb {
        return Err(Error::Invalid("--write-all-fields: only YCSB's records have fields".into()));
    }
    if name == DataName::Timeseries && flags.popularity.is_some() {
        return Err(Error::Invalid("--popularity: series are read as scrambled always".into()));
    }
    let promises = match name.scenario() {
        Some(_) => scenario::promises_before(flags.journal.as_deref())?,
        None => Default::default(),
    };
    let server = Server::find(&flags.client)?;
    let warmup_s = flags.warmup.as_secs();
    let job = Job {
        client: &flags.client,
        output: &flags.output,
        server,
        title: flags.output.title.clone().unwrap_or_else(|| title(flags)),
        workload: words(flags, &mix),
        rate: flags.rate,
        operations: flags.operations,
        warmup: flags.warmup,
        duration: flags.operations.is_none().then_some(flags.duration),
        verified: flags.verify,
        goal: match flags.operations {
            Some(count) => Goal::Operations(count),
            None => Goal::Seconds(warmup_s + flags.duration.as_secs()),
        },
        journal: open_journal(flags.journal.as_deref(), data, name)?,
    };
    let beside = match &flags.beside {
        Some(text) => {
            Some(Beside::start(job.server.target.clone(), text.clone(), flags.beside_rows)?)
        }
        None => None,
    };
    let result = match (name, name.scenario()) {
        (_, Some(scenario)) => {
            let popularity = popularity(flags, &mix)?;
            let generators = |thread| generator(flags, thread);
            scenario::work((scenario, &promises), flags, job, (mix, popularity), generators)
        }
        (DataName::Timeseries, _) => work_on_series(flags, job, &mix),
        (DataName::Customers, _) => {
            let popularity = popularity(flags, &mix)?;
            let generators = |thread| generator(flags, thread);
            customers::work(flags, job, (mix, popularity), generators)
        }
        _ => work_on_records(flags, job, &mix),
    };
    if let Some(beside) = beside {
        say(&format!("{}\n", beside.stop()?))?;
    }
    result
}

fn work_on_records(flags: &RunFlags, job: Job<'_>, mix: &Mix) -> Result<bool> {
    let data = &flags.data;
    let shape = record_shape(data)?;
    if data.records == 0 {
        return Err(Error::Invalid("--records must be as many as were loaded".into()));
    }
    let frontier = Arc::new(Frontier::new(data.records));
    // Where nothing is written, no read has a floor, and a ledger of many records would be for nothing.
    let written = if mix.verbs().any(|verb| verb.is_write() || verb == Verb::ReadToModify) {
        data.records
    } else {
        0
    };
    let ledger = flags.verify.then(|| Arc::new(Ledger::new(written, data.fields)));
    let popularity = popularity(flags, mix)?;
    let scans = flags.verify && mix.verbs().any(|verb| verb == Verb::Scan);
    let ring = scans.then(|| Arc::new(Ring::of(data.records)));
    job.run(|thread| {
        let mut rng = generator(flags, thread);
        let core = ycsb::Core {
            shape: shape.clone(),
            writes_all_fields: flags.write_all_fields,
            scan_rows_max: flags.scan_rows,
            frontier: frontier.clone(),
            ledger: ledger.clone(),
            ring: ring.clone(),
            rng: SmallRng::from_rng(&mut rng),
        };
        let (keys, mix, popularity) = (frontier.clone(), mix.clone(), popularity.clone());
        let source = Source::Draw { keys, mix, popularity, rng };
        Ok(Workload { rule: Box::new(core), source })
    })
}

fn work_on_series(flags: &RunFlags, job: Job<'_>, mix: &Mix) -> Result<bool> {
    let data = &flags.data;
    let shape = series_shape(data)?;
    let threads = u64::from(flags.client.threads);
    let each = data.series.div_ceil(threads).max(1);
    job.run(|thread| {
        let mut rng = generator(flags, thread);
        let series = Series::new(Setup {
            shape: shape.clone(),
            rows_max: flags.scan_rows,
            verify: flags.verify,
            rng: SmallRng::from_rng(&mut rng),
            series: data.series,
            points: data.points,
            thread: (thread as u64, threads),
        })?;
        let keys = Arc::new(Frontier::new(series.owned()));
        let popularity = Popularity::Scrambled { zipf: Zipf::scrambled(), span: each };
        let source = Source::Draw { keys, mix: mix.clone(), popularity, rng };
        Ok(Workload { rule: Box::new(series), source })
    })
}

fn generator(flags: &RunFlags, thread: usize) -> SmallRng {
    SmallRng::seed_from_u64(flags.seed.wrapping_add(thread as u64 * 0x9e37_79b9))
}

/// The shares of the operations, which must suit the table.
fn mix(flags: &RunFlags) -> Result<Mix> {
    let letter = match flags.workload {
        WorkloadName::A => 'a',
        WorkloadName::B => 'b',
        WorkloadName::C => 'c',
        WorkloadName::D => 'd',
        WorkloadName::E => 'e',
        WorkloadName::F => 'f',
        _ => 's',
    };
    let scenario = flags.workload.data().scenario();
    let usual = match scenario {
        Some(scenario) => scenario.usual_mix(),
        None if flags.workload == WorkloadName::Customers => by_index::usual_mix(),
        None => ycsb::core_mix(letter).unwrap_or_else(series::usual_mix),
    };
    let Some(text) = &flags.mix else { return Ok(usual) };
    let mix = Mix::parse(text)?;
    let (suits, data): (&dyn Fn(Verb) -> bool, &str) = match (scenario, flags.workload) {
        (Some(scenario), _) => (&move |verb| scenario.knows(verb), scenario.keys_in_words()),
        (None, WorkloadName::Timeseries) => {
            (&|verb| series::usual_mix().share(verb) > 0.0, "series")
        }
        (None, WorkloadName::Customers) => (&by_index::knows, "customers"),
        (None, _) => (&ycsb::knows, "records"),
    };
    if let Some(verb) = mix.verbs().find(|verb| !suits(*verb)) {
        let name = verb.kind().name();
        return Err(Error::Invalid(format!("--mix {text}: '{name}' is no operation on {data}")));
    }
    Ok(mix)
}

/// The popularity of the keys: the workload's own unless another is asked for.
fn popularity(flags: &RunFlags, mix: &Mix) -> Result<Popularity> {
    let records = flags.data.records;
    let usual = match flags.workload {
        WorkloadName::D => PopularityName::Latest,
        // What is hot is mostly in doubt or refused, and proves little.
        WorkloadName::Customers => PopularityName::Uniform,
        other if other.data().scenario().is_some() => PopularityName::Uniform,
        _ => PopularityName::Scrambled,
    };
    Ok(match flags.popularity.unwrap_or(usual) {
        PopularityName::Uniform => Popularity::Uniform,
        PopularityName::Zipfian => Popularity::Zipfian(Zipf::new(records)),
        PopularityName::Latest => Popularity::Latest(Zipf::new(records)),
        PopularityName::Scrambled => {
            // YCSB leaves space for twice the inserts it expects; without a number of operations
            // to expect them from, a tenth of the records.
            let inserts = mix.share(Verb::Insert);
            let reserve = match flags.operations {
                Some(count) => (count as f64 * inserts * 2.0) as u64,
                None if inserts > 0.0 => records / 10,
                None => 0,
            };
            let span = records.saturating_add(reserve);
            Popularity::Scrambled { zipf: Zipf::scrambled(), span }
        }
        PopularityName::Hotspot => {
            let [hot_keys, hot_operations] = flags.hotspot[..] else {
                return Err(Error::Invalid("--hotspot takes two numbers".into()));
            };
            if !(0.0..=1.0).contains(&hot_keys) || !(0.0..=1.0).contains(&hot_operations) {
                return Err(Error::Invalid("--hotspot: both are shares between 0 and 1".into()));
            }
            Popularity::Hotspot { hot_keys, hot_operations }
        }
    })
}

fn title(flags: &RunFlags) -> String {
    match flags.workload {
        WorkloadName::Timeseries => "Time series".to_owned(),
        WorkloadName::Customers => "Customers".to_owned(),
        name if name.data().scenario().is_some() => format!("{name:?}"),
        letter => format!("YCSB {letter:?}"),
    }
}

fn words(flags: &RunFlags, mix: &Mix) -> String {
    let data = &flags.data;
    if let Some(scenario) = flags.workload.data().scenario() {
        return format!("{mix} on {}", scenario::words(scenario, data));
    }
    match flags.workload {
        WorkloadName::Customers => format!("{mix} on {} customers", grouped(data.records)),
        WorkloadName::Timeseries => {
            format!("{mix} on {} series of {}-byte points", grouped(data.series), data.field_bytes)
        }
        _ => format!(
            "{mix}{} on {} records of {} × {} bytes",
            if flags.write_all_fields { " of all fields" } else { "" },
            grouped(data.records),
            data.fields,
            data.field_bytes
        ),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::flags::{self, Flags};

    fn flags(extra: &[&str]) -> RunFlags {
        let all = ["messina-load", "run"].iter().chain(extra);
        match Flags::parse_from(all).verb {
            flags::Verb::Run(flags) => flags,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_workload_has_its_mix_and_popularity() {
        let expect = |workload: &str, words: &str| {
            let flags = flags(&["--workload", workload]);
            assert_eq!(mix(&flags).unwrap().to_string(), words);
        };
        expect("a", "50 % read, 50 % update");
        expect("e", "95 % scan, 5 % insert");
        expect("f", "50 % read, 50 % read-modify-write");
        expect("timeseries", "70 % append, 20 % latest, 10 % window");
        expect("bank", "70 % transfer, 15 % read, 15 % receipt");
        expect("conditional", "50 % change, 20 % claim, 30 % read");
        expect("counters", "70 % increment, 30 % read");
        expect("named", "70 % count, 30 % read");
        expect("indexed", "50 % tag, 40 % find, 10 % read");
        expect("batches", "60 % batch, 40 % read");
        expect("customers", "25 % by mail, 25 % by city, 50 % by amount");
        expect("views", "30 % tag, 30 % update, 20 % remove, 20 % find");
        let d = flags(&["--workload", "d"]);
        let popular = popularity(&d, &mix(&d).unwrap()).unwrap();
        assert!(matches!(popular, Popularity::Latest(_)));
        let e = flags(&["--workload", "e", "--records", "1000", "--operations", "100"]);
        let popular = popularity(&e, &mix(&e).unwrap()).unwrap();
        assert!(matches!(popular, Popularity::Scrambled { span: 1010, .. }), "{popular:?}");
    }

    #[test]
    fn a_mix_must_suit_its_table() {
        assert!(mix(&flags(&["--mix", "append=1"])).is_err());
        assert!(mix(&flags(&["--workload", "timeseries", "--mix", "read=1"])).is_err());
        assert!(mix(&flags(&["--mix", "update=100"])).is_ok());
        assert!(mix(&flags(&["--mix", "increment=1"])).is_err());
        assert!(mix(&flags(&["--workload", "counters", "--mix", "transfer=1"])).is_err());
        assert!(mix(&flags(&["--workload", "counters", "--mix", "increment=1"])).is_ok());
        let wrong = flags(&["--popularity", "hotspot", "--hotspot", "2,0.5"]);
        assert!(popularity(&wrong, &mix(&wrong).unwrap()).is_err());
    }
}
