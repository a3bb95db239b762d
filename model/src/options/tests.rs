//! Options against what Cassandra 5.0.9 answers, and against the table in the documents.

use std::fmt::Write as _;

use super::*;

/// `name = 'text'`, or `name = {'key': 'value', ..}`.
pub(super) fn given(text: &str) -> (&str, Given) {
    let (name, value) = text.split_once(" = ").unwrap();
    let unquoted = |text: &str| text.trim_matches('\'').to_owned();
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
    (name, given)
}

/// Sets one option of a new table.
fn set(text: &str) -> (TableOptions, Result<()>, Vec<String>) {
    let (name, given) = given(text);
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
            Err(Refusal::Invalid(text)) => format!("2200 {text}"),
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
        "extensions = {'a': 'b'}",
        "compression = {'class': 'LZ4Compressor', 'min_compress_ratio': '1.5'}",
        "compression = {'class': 'LZ4Compressor', 'lz4_compressor_type': 'high'}",
        "compression = {'class': 'SnappyCompressor'}",
        "compression = {'class': 'DeflateCompressor'}",
        "compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': '1024'}",
        "compaction = {'class': 'SizeTieredCompactionStrategy', 'log_all': 'true'}",
        "compaction = {'class': 'SizeTieredCompactionStrategy', 'unchecked_tombstone_compaction': 'true'}",
        "compaction = {'class': 'SizeTieredCompactionStrategy', 'only_purge_repaired_tombstones': 'true'}",
        "compaction = {'class': 'SizeTieredCompactionStrategy', 'provide_overlapping_tombstones': 'ROW'}",
        "compaction = {'class': 'LeveledCompactionStrategy', 'single_sstable_uplevel': 'false'}",
        "in_memory = true",
        "paxos_grace_seconds = 10",
        "tombstone_gc = {'mode': 'timeout', 'propagation_delay_in_seconds': '60'}",
    ] {
        let (_, result, warnings) = set(text);
        assert_eq!((result, warnings.len()), (Ok(()), 1), "{text}: {warnings:?}");
    }
}

/// It was kept, and nothing asked for it.
#[test]
fn the_age_at_which_tombstones_are_merged_is_the_tables_own() {
    let interval_s = |of: &str| {
        let (options, result, warnings) =
            set(&format!("compaction = {{'class': 'LeveledCompactionStrategy'{of}}}"));
        assert_eq!((result, warnings), (Ok(()), vec![]), "{of}");
        options.compaction.tombstone_compaction_interval_s()
    };
    assert_eq!(interval_s(""), 0, "what goes is certain to go");
    assert_eq!(interval_s(", 'tombstone_compaction_interval': '86400'"), 86_400);
    assert_eq!(interval_s(", 'tombstone_compaction_interval': '9999999999'"), u32::MAX);
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

/// In ScyllaDB's words (`tombstone_gc_options.cc`), apart from the mode that needs replicas.
#[test]
fn tombstone_gc_is_read_as_scylladb_does() {
    let read = |text: &str| {
        let (options, result, warnings) = set(&format!("tombstone_gc = {{{text}}}"));
        assert_eq!(warnings, Vec::<String>::new(), "{text}");
        result.map(|()| options.tombstone_gc.mode()).map_err(|refusal| refusal.to_string())
    };
    assert_eq!(read("'mode': 'disabled'"), Ok("disabled"));
    assert_eq!(read("'mode': 'immediate'"), Ok("immediate"));
    assert_eq!(read("'mode': 'timeout', 'propagation_delay_in_seconds': '3600'"), Ok("timeout"));
    assert_eq!(read(""), Ok("timeout"));
    let wrong = |text: &str| read(text).expect_err(text);
    assert_eq!(wrong("'mode': 'never'"), "Invalid value for tombstone_gc option mode: never");
    assert_eq!(wrong("'node': 'timeout'"), "Invalid tombstone_gc option: node");
    assert_eq!(
        wrong("'propagation_delay_in_seconds': '-1'"),
        "Invalid value for tombstone_gc option propagation_delay_in_seconds: -1"
    );
    let repair = wrong("'mode': 'repair'");
    assert!(repair.starts_with("tombstone_gc option mode: repair is not supported"), "{repair}");
    let (_, result, _) = set("tombstone_gc = 'timeout'");
    assert!(matches!(result, Err(Refusal::Syntax(_))), "{result:?}");
}

#[test]
fn data_asked_to_be_encrypted_is_not_written_plain() {
    let (_, result, _) = set("auto_repair = {'full_enabled': 'true'}");
    let Err(Refusal::Config(text)) = result else { panic!("{result:?}") };
    assert!(text.starts_with("Option 'auto_repair' is not supported"), "{text}");
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

/// Compares the tables of `docs/options.md` after the line of `marker` with what the lists say, or writes them.
pub(super) fn documented(marker: &str, tables: &str) -> std::result::Result<(), String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/options.md");
    let text = std::fs::read_to_string(path).unwrap();
    let begin = format!("<!-- {marker}: made by a test of model -->\n");
    let end = format!("<!-- end of {marker} -->");
    let (before, rest) = text.split_once(&begin).unwrap();
    let (found, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("MESSINA_BLESS").is_some() {
        std::fs::write(path, format!("{before}{begin}\n{}\n\n{end}{after}", tables.trim()))
            .unwrap();
        return Ok(());
    }
    let same = found.trim() == tables.trim();
    same.then_some(())
        .ok_or_else(|| format!("{marker}: the document says\n{found}\nand the code\n{tables}"))
}

/// One table of the document: a title, and a row for each option.
pub(super) fn table(title: &str, rows: impl IntoIterator<Item = (&'static str, Effect)>) -> String {
    let mut out = format!("\n## {title}\n\n| Option | Here | Why |\n|---|---|---|\n");
    for (name, effect) in rows {
        let (what, why) = match effect {
            Effect::Works => ("works", ""),
            Effect::Kept(why) => ("kept, with a warning", why),
            Effect::LeftOut(why) => ("left out, with a warning", why),
            Effect::Refused(why) => ("refused", why),
        };
        let _ = writeln!(out, "| `{name}` | {what} | {why} |");
    }
    out
}

/// The tables of `docs/options.md` about tables, made from the lists.
fn tables() -> String {
    let own = || OPTIONS.iter().chain(&SCYLLA_OPTIONS);
    let subs = |subs: &'static [SubOption]| subs.iter().map(|sub| (sub.name, sub.effect));
    let options = own().map(|option| (option.name, option.effect));
    let mut out = table("Options of a table", options.chain(FOREIGN));
    for option in own().filter(|option| !option.sub_options().is_empty()) {
        let mut rows: Vec<_> = subs(option.sub_options()).collect();
        if option.name == "compression" {
            rows.extend([
                ("class: LZ4Compressor", Effect::Works),
                ("class: ZstdCompressor", Effect::Works),
                ("class: NoopCompressor", Effect::Works),
                ("class: SnappyCompressor", Effect::Kept("files are written with LZ4")),
                ("class: DeflateCompressor", Effect::Kept("files are written with Zstandard")),
            ]);
        }
        out += &table(&format!("In `{}`", option.name), rows);
    }
    let common = subs(&COMMON).chain([(OVERLAPPING.name, OVERLAPPING.effect)]);
    out += &table("In `compaction`, of every strategy", common);
    for class in Class::ALL {
        out +=
            &table(&format!("In `compaction`, of `{}`", class.name()), subs(class.sub_options()));
    }
    out
}

#[test]
fn the_documents_list_every_option() {
    assert_eq!(documented("table options", &tables()), Ok(()));
}
