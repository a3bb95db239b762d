//! Options against what Cassandra 5.0.9 answers, and against the table in the documents.

use super::*;
use std::fmt::Write as _;

/// Sets one option of a new table: `name = 'text'`, or `name = {'key': 'value', ..}`.
fn set(text: &str) -> (TableOptions, Result<()>, Vec<String>) {
    let (name, value) = text.split_once(" = ").unwrap();
    let unquoted = |text: &str| text.trim().trim_matches('\'').to_owned();
    let given = match value.strip_prefix('{').and_then(|value| value.strip_suffix('}')) {
        None => Given::Text(unquoted(value)),
        Some(pairs) => {
            let pairs = pairs.split("', '").filter(|pair| !pair.is_empty());
            let pair = |pair: &str| {
                let (key, value) = pair.split_once("': '").unwrap();
                (unquoted(key), unquoted(value))
            };
            Given::Map(pairs.map(pair).collect())
        }
    };
    let (mut options, mut warnings) = (TableOptions::default(), Vec::new());
    let result = options.set(name, &given, &mut warnings).and_then(|()| options.check());
    (options, result, warnings)
}

fn shown(options: &TableOptions, name: &str) -> String {
    let (_, value) = options.pairs().find(|(option, _)| *option == name).unwrap();
    match value {
        Value::Text(text) => text.into_owned(),
        Value::Map(map) => format!("{map:?}").replace('"', "'"),
        other => format!("{other:?}"),
    }
}

/// Each line of the recording: an option, then what Cassandra answers.
#[test]
fn answers_are_cassandras() {
    let recorded = include_str!("../../testdata/options.txt");
    let lines: Vec<&str> =
        recorded.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).collect();
    assert!(lines.len() > 300, "all of the file is there: {}", lines.len());
    let mut wrong = String::new();
    for pair in lines.chunks_exact(2) {
        let (text, expected) = (pair[0], pair[1].trim());
        let (options, result, _) = set(text);
        let name = text.split(' ').next().unwrap();
        let answer = match result {
            Ok(()) => format!("ok {}", shown(&options, name)),
            Err(Refusal::Syntax(text)) => format!("2000 {text}"),
            Err(Refusal::Config(text)) => format!("2300 {text}"),
        };
        if answer != expected {
            let _ = writeln!(wrong, "{text}\n    {expected}\n    {answer}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn what_does_nothing_is_said() {
    for text in [
        "caching = {'keys': 'NONE'}",
        "crc_check_chance = 0.5",
        "read_repair = NONE",
        "memtable_flush_period_in_ms = 1000",
        "allow_auto_snapshot = false",
        "extensions = {'a': 'b'}",
        "compression = {'class': 'LZ4Compressor', 'min_compress_ratio': '1.5'}",
        "compression = {'class': 'LZ4Compressor', 'lz4_compressor_type': 'high'}",
        "compression = {'class': 'SnappyCompressor'}",
        "compression = {'class': 'DeflateCompressor'}",
        "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': '1024'}",
        "compaction = {'class': 'SizeTieredCompactionStrategy', 'log_all': 'true'}",
        "compaction = {'class': 'SizeTieredCompactionStrategy', 'tombstone_compaction_interval': '1'}",
        "compaction = {'class': 'SizeTieredCompactionStrategy', 'unchecked_tombstone_compaction': 'true'}",
        "compaction = {'class': 'SizeTieredCompactionStrategy', 'only_purge_repaired_tombstones': 'true'}",
        "compaction = {'class': 'SizeTieredCompactionStrategy', 'provide_overlapping_tombstones': 'ROW'}",
        "compaction = {'class': 'LeveledCompactionStrategy', 'single_sstable_uplevel': 'false'}",
        "compaction = {'class': 'UnifiedCompactionStrategy', 'base_shard_count': '8'}",
        "compaction = {'class': 'UnifiedCompactionStrategy', 'sstable_growth': '0.5'}",
        "compaction = {'class': 'UnifiedCompactionStrategy', 'min_sstable_size': '50MiB'}",
        "compaction = {'class': 'UnifiedCompactionStrategy', 'overlap_inclusion_method': 'SINGLE'}",
        "compaction = {'class': 'UnifiedCompactionStrategy', 'flush_size_override': '50MiB'}",
        "compaction = {'class': 'IncrementalCompactionStrategy'}",
        "in_memory = true",
        "paxos_grace_seconds = 10",
    ] {
        let (_, result, warnings) = set(text);
        assert_eq!((result, warnings.len()), (Ok(()), 1), "{text}: {warnings:?}");
    }
}

/// What DESCRIBE of another server writes for a plain table makes no noise.
#[test]
fn a_default_is_not_worth_a_word() {
    for (name, value) in TableOptions::default().pairs() {
        let given = match value {
            Value::Text(text) => Given::Text(text.into_owned()),
            Value::Boolean(value) => Given::Text(value.to_string()),
            Value::Double(value) => Given::Text(value.to_string()),
            Value::Int(value) => Given::Text(value.to_string()),
            Value::Map(map) => Given::Map(map.into_owned()),
            Value::Blobs(_) => Given::Map(BTreeMap::new()),
        };
        let (mut options, mut warnings) = (TableOptions::default(), Vec::new());
        assert_eq!(options.set(name, &given, &mut warnings), Ok(()), "{name}");
        assert_eq!((options, warnings), (TableOptions::default(), Vec::new()), "{name}");
    }
}

/// A schema without them loads into Cassandra as DESCRIBE wrote it.
#[test]
fn options_of_scylladb_are_shown_where_a_table_has_them() {
    let extras =
        |text: &str| -> Vec<_> { set(text).0.extras().map(|(name, _)| name).collect::<Vec<_>>() };
    assert_eq!(extras("paxos_grace_seconds = 10"), ["paxos_grace_seconds"]);
    assert!(extras("paxos_grace_seconds = 864000").is_empty(), "the default is not worth a word");
    let (options, _, _) = set("paxos_grace_seconds = 10");
    assert_eq!(options.pairs().count(), OPTIONS.len() + 1);
    assert!(options.columns().all(|(name, _)| name != "paxos_grace_seconds"));
}

#[test]
fn data_asked_to_be_encrypted_is_not_written_plain() {
    let (_, result, _) = set("scylla_encryption_options = {'key_provider': 'LocalFileSystem'}");
    let Err(Refusal::Config(text)) = result else { panic!("{result:?}") };
    assert!(text.starts_with("Option 'scylla_encryption_options' is not supported"), "{text}");
}

#[test]
fn the_unknown_is_refused() {
    for name in ["nope", "read_repair_chance", "dclocal_read_repair_chance", "index_interval"] {
        let (_, result, _) = set(&format!("{name} = 1"));
        assert_eq!(result, Err(Refusal::Syntax(format!("Unknown property '{name}'"))));
    }
}

/// The table of `docs/options.md`, made from the lists.
fn document() -> String {
    let mut out = String::new();
    let row = |out: &mut String, name: &str, effect: Effect| {
        let (what, why) = match effect {
            Effect::Works => ("works", ""),
            Effect::Kept(why) => ("kept, with a warning", why),
            Effect::LeftOut(why) => ("left out, with a warning", why),
            Effect::Refused(why) => ("refused", why),
        };
        let _ = writeln!(out, "| `{name}` | {what} | {why} |");
    };
    const HEAD: &str = "| Option | Here | Why |\n|---|---|---|\n";
    let _ = write!(out, "\n## Options of a table\n\n{HEAD}");
    let own = || OPTIONS.iter().chain(&SCYLLA_OPTIONS);
    own().for_each(|option| row(&mut out, option.name, option.effect));
    FOREIGN.iter().for_each(|(name, effect)| row(&mut out, name, *effect));
    for option in own().filter(|option| !option.sub_options().is_empty()) {
        let _ = write!(out, "\n## In `{}`\n\n{HEAD}", option.name);
        option.sub_options().iter().for_each(|sub| row(&mut out, sub.name, sub.effect));
        if option.name == "compression" {
            row(&mut out, "class: LZ4Compressor", Effect::Works);
            row(&mut out, "class: ZstdCompressor", Effect::Works);
            row(&mut out, "class: NoopCompressor", Effect::Works);
            row(&mut out, "class: SnappyCompressor", Effect::Kept("files are written with LZ4"));
            let zstd = Effect::Kept("files are written with Zstandard");
            row(&mut out, "class: DeflateCompressor", zstd);
        }
    }
    let _ = write!(out, "\n## In `compaction`, of every strategy\n\n{HEAD}");
    COMMON.iter().for_each(|option| row(&mut out, option.name, option.effect));
    row(&mut out, OVERLAPPING.name, OVERLAPPING.effect);
    for class in Class::ALL {
        let _ = write!(out, "\n## In `compaction`, of `{}`\n\n{HEAD}", class.name());
        if class == Class::Incremental {
            row(&mut out, "class", Effect::Kept("the table is compacted by size tiers"));
        }
        class.sub_options().iter().for_each(|option| row(&mut out, option.name, option.effect));
    }
    out
}

#[test]
fn the_documents_list_every_option() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/options.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (begin, end) = ("<!-- table options: made by a test of model -->\n", "<!-- end -->");
    let (before, rest) = text.split_once(begin).unwrap();
    let (table, after) = rest.split_once(end).unwrap();
    if std::env::var_os("MESSINA_BLESS").is_some() {
        std::fs::write(path, format!("{before}{begin}{}\n{end}{after}", document())).unwrap();
        return;
    }
    assert_eq!(table.trim(), document().trim());
}
