//! Settings of guardrails: how they are read and shown, and what the documents say of them.

use std::fmt::Write as _;

use super::*;

fn setting(values: &Values, name: &str) -> String {
    let all = settings(values);
    all.into_iter().find(|(known, _)| known == name).expect("a setting").1
}

#[test]
fn values_are_read_as_they_are_shown() {
    let mut values = Values::default();
    for (name, text, shown) in [
        ("tables_warn_threshold", "10", "10"),
        ("tables_fail_threshold", "-1", "-1"),
        ("drop_keyspace_enabled", "false", "false"),
        ("zero_ttl_on_twcs_warned", "false", "false"),
        ("table_properties_ignored", "COMMENT, cdc", "[cdc, comment]"),
        ("table_properties_warned", "null", "[]"),
        ("read_consistency_levels_warned", "[ONE, two]", "[ONE, TWO]"),
        ("column_value_size_fail_threshold", "1024KiB", "1MiB"),
        ("column_value_size_fail_threshold", "1000", "1000B"),
        ("column_value_size_fail_threshold", "null", "null"),
        ("maximum_timestamp_warn_threshold", "90m", "90m"),
        ("maximum_timestamp_warn_threshold", "48h", "2d"),
        ("minimum_timestamp_warn_threshold", "0s", "0us"),
        ("data_disk_usage_percentage_warn_threshold", "80", "80"),
    ] {
        set(&mut values, name, text).unwrap();
        assert_eq!(setting(&values, name), shown, "{name}");
        let mut again = values.clone();
        set(&mut again, name, shown).unwrap();
        assert_eq!(again, values, "{name}");
    }
    for (name, text, why) in [
        ("tables_warn_threshold", "0", "1 to 2147483647"),
        ("tables_warn_threshold", "many", "1 to 2147483647"),
        ("drop_keyspace_enabled", "no", "true or false"),
        ("read_consistency_levels_warned", "MOST", "no consistency level"),
        ("column_value_size_warn_threshold", "0B", "null is none"),
        ("column_value_size_warn_threshold", "-1", "does not begin with a number"),
        ("minimum_timestamp_warn_threshold", "5", "is no time"),
        ("data_disk_usage_percentage_warn_threshold", "101", "1 to 100"),
        ("table_properties_warned", "coment", "no option of a table"),
        ("tables_threshold", "1", "no such guardrail"),
    ] {
        assert!(set(&mut values, name, text).unwrap_err().contains(why), "{name}: {text}");
    }
}

#[test]
fn a_warning_comes_before_the_refusal() {
    let of = |name: &str, warn: &str, fail: &str| {
        let mut values = Values::default();
        set(&mut values, &format!("{name}_warn_threshold"), warn).unwrap();
        set(&mut values, &format!("{name}_fail_threshold"), fail).unwrap();
        check(&values)
    };
    assert_eq!(of("tables", "10", "10"), Ok(()));
    assert_eq!(of("tables", "10", "-1"), Ok(()));
    assert_eq!(
        of("tables", "11", "10").unwrap_err(),
        "The warn threshold 11 for tables_warn_threshold should be lower than the fail threshold 10"
    );
    assert_eq!(
        of("minimum_replication_factor", "1", "2").unwrap_err(),
        "The warn threshold 1 for minimum_replication_factor_warn_threshold should be greater than the fail threshold 2"
    );
}

#[test]
fn scylladb_has_names_of_its_own() {
    let mut values = Values::default();
    for (name, text, own, shown) in [
        ("restrict_replication_simplestrategy", "true", "simplestrategy_enabled", "false"),
        ("restrict_twcs_without_default_ttl", "true", "zero_ttl_on_twcs_enabled", "false"),
        ("restrict_twcs_without_default_ttl", "warn", "zero_ttl_on_twcs_warned", "true"),
        ("restrict_twcs_without_default_ttl", "false", "zero_ttl_on_twcs_warned", "false"),
        ("enable_create_table_with_compact_storage", "false", "compact_tables_enabled", "false"),
    ] {
        assert!(is_setting(name));
        set(&mut values, name, text).unwrap();
        assert_eq!(setting(&values, own), shown, "{name}: {text}");
    }
    let refused = set(&mut values, "restrict_replication_simplestrategy", "warn").unwrap_err();
    assert!(refused.contains("simplestrategy_enabled"), "{refused}");
}

/// The tables of `docs/guardrails.md`, made of the guardrails.
#[test]
fn the_documents_list_every_guardrail() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guardrails.md");
    let document = std::fs::read_to_string(path).unwrap();
    let (begin, end) =
        ("<!-- guardrails: made by a test of server -->\n", "<!-- end of guardrails -->");
    let (before, rest) = document.split_once(begin).unwrap();
    let (found, after) = rest.split_once(end).unwrap();
    let default = Values::default();
    let mut table =
        "| Guardrail | Settings, and their defaults | What it looks at |\n|---|---|---|\n"
            .to_owned();
    for definition in &GUARDRAILS {
        let shown = |(name, _): (String, Part)| format!("`{name}` {}", setting(&default, &name));
        let names: Vec<String> = names_of(definition.guardrail).into_iter().map(shown).collect();
        let _ = writeln!(
            table,
            "| `{}` | {} | {} |",
            definition.name,
            names.join(", "),
            definition.about
        );
    }
    table += "\n| Not here | Why |\n|---|---|\n";
    for (name, why) in NOT_APPLICABLE {
        let star = if name.ends_with('_') { "*" } else { "" };
        let _ = writeln!(table, "| `{name}{star}` | {why} |");
    }
    if std::env::var_os("MESSINA_BLESS").is_some() {
        std::fs::write(path, format!("{before}{begin}\n{table}\n{end}{after}")).unwrap();
        return;
    }
    assert_eq!(found.trim(), table.trim());
}
