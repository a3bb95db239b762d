//! Guardrails, each with the words of Cassandra 5.0.9, which was asked with the same settings.

use super::*;
use crate::testing::Database;

/// A guardrail as it is set, what has been done before, a statement, and what it is answered with.
type Case = (Guardrail, Value, &'static [&'static str], &'static str, &'static str);

const fn warn(warn: i64) -> Value {
    Value { warn, fail: -1, ignored: 0 }
}

const fn fail(fail: i64) -> Value {
    Value { warn: -1, fail, ignored: 0 }
}

/// A feature that is switched off.
const OFF: Value = Value { warn: 0, fail: 1, ignored: 0 };

use Guardrail as G;

#[rustfmt::skip]
const CASES: [Case; 43] = [
    (G::Keyspaces, warn(1), &[], "create keyspace k2 with replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}",
        "Guardrail keyspaces violated: Creating keyspace k2, current number of keyspaces 2 exceeds warning threshold of 1."),
    (G::Keyspaces, fail(1), &[], "create keyspace k3 with replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}",
        "Guardrail keyspaces violated: Cannot have more than 1 keyspaces, aborting the creation of keyspace k3"),
    (G::Keyspaces, fail(2), &[], "create keyspace k3 with replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}", ""),
    (G::Tables, warn(1), &["create table a (a int primary key)"], "create table d (a int primary key)",
        "Guardrail tables violated: Creating table d, current number of tables 2 exceeds warning threshold of 1."),
    // As in Cassandra, before it is seen that the table is there.
    (G::Tables, warn(1), &["create table a (a int primary key)"], "create table if not exists a (a int primary key)",
        "Guardrail tables violated: Creating table a, current number of tables 2 exceeds warning threshold of 1."),
    (G::Tables, fail(1), &["create table a (a int primary key)"], "create table d (a int primary key)",
        "Guardrail tables violated: Cannot have more than 1 tables, aborting the creation of table d"),
    (G::MaterializedViews, OFF, &["create table a (a int primary key)"], "create materialized view m as select * from a where a is not null primary key (a)",
        "Guardrail materialized_views violated: Creation of materialized views is not allowed"),
    (G::MaterializedViewsPerTable, warn(1), &["create table a (a int primary key)", "create materialized view l as select * from a where a is not null primary key (a)"],
        "create materialized view m as select * from a where a is not null primary key (a)",
        "Guardrail materialized_views_per_table violated: Creating materialized view m on table a, current number of views 2 exceeds warning threshold of 1."),
    (G::MaterializedViewsPerTable, fail(1), &["create table a (a int primary key)", "create materialized view l as select * from a where a is not null primary key (a)"],
        "create materialized view m as select * from a where a is not null primary key (a)",
        "Guardrail materialized_views_per_table violated: Tables cannot have more than 1 materialized views, aborting the creation of materialized view m on table a"),
    (G::MaterializedViewsPerTable, fail(2), &["create table a (a int primary key)", "create materialized view l as select * from a where a is not null primary key (a)"],
        "create materialized view m as select * from a where a is not null primary key (a)", ""),
    (G::ColumnsPerTable, warn(1), &[], "create table c (a int primary key, b int)",
        "Guardrail columns_per_table violated: The table c has 2 columns, this exceeds the warning threshold of 1."),
    (G::ColumnsPerTable, fail(5), &[], "create table c (a int primary key, b int, c int, d int, e int, f int)",
        "Guardrail columns_per_table violated: Tables cannot have more than 5 columns, but 6 provided for table c"),
    (G::ColumnsPerTable, fail(1), &["create table c (a int primary key)"], "alter table c add b int",
        "Guardrail columns_per_table violated: Tables cannot have more than 1 columns, but 2 provided for table c"),
    (G::FieldsPerUdt, warn(2), &[], "create type t (a int, b int, c int)",
        "Guardrail fields_per_udt violated: The user type t has 3 columns, this exceeds the warning threshold of 2."),
    (G::FieldsPerUdt, fail(3), &["create type t (a int, b int, c int)"], "alter type t add d int",
        "Guardrail fields_per_udt violated: User types cannot have more than 3 columns, but 4 provided for user type t."),
    (G::VectorType, OFF, &[], "create table c (a int primary key, v vector<int, 4>)",
        "Guardrail vector_type_enabled violated: Column v is not allowed"),
    (G::VectorType, OFF, &[], "create type t (f frozen<list<vector<int, 4>>>)",
        "Guardrail vector_type_enabled violated: Field f is not allowed"),
    (G::VectorDimensions, warn(3), &[], "create table c (a int primary key, v vector<int, 4>)",
        "Guardrail vector_dimensions violated: Column v has a vector of 4 dimensions, this exceeds the warning threshold of 3."),
    (G::VectorDimensions, fail(6), &[], "create table d (a int primary key, v list<frozen<vector<int, 7>>>)",
        "Guardrail vector_dimensions violated: Column v has a vector of 7 dimensions, this exceeds the failure threshold of 6."),
    (G::MinimumReplicationFactor, warn(2), &[], "create keyspace k1 with replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "Guardrail minimum_replication_factor violated: The keyspace k1 has a replication factor of 1, below the warning threshold of 2."),
    (G::MinimumReplicationFactor, fail(2), &[], "alter keyspace ks with replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}",
        "Guardrail minimum_replication_factor violated: The keyspace ks has a replication factor of 1, below the failure threshold of 2."),
    (G::MaximumReplicationFactor, fail(4), &[], "alter keyspace ks with replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 5}",
        "Guardrail maximum_replication_factor violated: The keyspace ks has a replication factor of 5, above the failure threshold of 4."),
    (G::SimpleStrategy, OFF, &[], "create keyspace k1 with replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "Guardrail simplestrategy violated: SimpleStrategy is not allowed"),
    (G::SimpleStrategy, OFF, &[], "alter keyspace ks with durable_writes = true and replication = {'class': 'org.apache.cassandra.locator.SimpleStrategy'}",
        "Guardrail simplestrategy violated: SimpleStrategy is not allowed"),
    (G::SimpleStrategy, OFF, &[], "create keyspace k1 with replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}", ""),
    (G::AlterTable, OFF, &["create table c (a int primary key)"], "alter table c add b int",
        "Guardrail alter_table violated: ALTER TABLE changing columns is not allowed"),
    (G::AlterTable, OFF, &["create table c (a int primary key)"], "alter table c rename a to b",
        "Guardrail alter_table violated: ALTER TABLE changing columns is not allowed"),
    (G::AlterTable, OFF, &["create table c (a int primary key)"], "alter table c with comment = 'x'", ""),
    (G::DropTruncateTable, OFF, &[], "drop table if exists c",
        "Guardrail drop_truncate_table_enabled violated: DROP and TRUNCATE TABLE functionality is not allowed"),
    (G::DropKeyspace, OFF, &[], "drop keyspace ks",
        "Guardrail drop_keyspace_enabled violated: DROP KEYSPACE functionality is not allowed"),
    (G::UncompressedTables, OFF, &[], "create table e (a int primary key) with compression = {'enabled': false}",
        "Guardrail uncompressed_tables_enabled violated: Uncompressed table is not allowed"),
    (G::UncompressedTables, OFF, &["create table e (a int primary key)"], "alter table e with compression = {'enabled': false}",
        "Guardrail uncompressed_tables_enabled violated: Uncompressed table is not allowed"),
    (G::UncompressedTables, OFF, &["create table e (a int primary key)"], "alter table e with comment = 'x'", ""),
    (G::CompactTables, OFF, &[], "create table e (a int primary key, b int) with compact storage",
        "Guardrail compact_tables violated: Creation of new COMPACT STORAGE tables is not allowed"),
    (G::CompactTables, OFF, &["create table e (a int primary key, b int) with compact storage"], "create table f like e",
        "Guardrail compact_tables violated: Creation of new COMPACT STORAGE tables is not allowed"),
    (G::ColumnsPerTable, fail(1), &["create table e (a int primary key, b int)"], "create table f like e",
        "Guardrail columns_per_table violated: Tables cannot have more than 1 columns, but 2 provided for table f"),
    (G::SecondaryIndexes, OFF, &["create table e (a int primary key, b int)"], "create index on e (b)",
        "Guardrail secondary_indexes violated: User creation of secondary indexes is not allowed"),
    (G::SecondaryIndexesPerTable, warn(1), &["create table e (a int primary key, b int, c int)", "create index on e (b)"], "create index i on e (c)",
        "Guardrail secondary_indexes_per_table violated: Creating secondary index i on table e, current number of indexes 2 exceeds warning threshold of 1."),
    (G::SecondaryIndexesPerTable, fail(1), &["create table e (a int primary key, b int, c int)", "create index on e (b)"], "create index on e (c)",
        "Guardrail secondary_indexes_per_table violated: Tables cannot have more than 1 secondary indexes, aborting the creation of secondary index on table e"),
    (G::SecondaryIndexesPerTable, fail(1), &["create table e (a int primary key, b int)"], "create index on e (b)", ""),
    (G::ZeroTtlOnTwcs, OFF, &[], "create table e (a int primary key) with compaction = {'class': 'TimeWindowCompactionStrategy'} and default_time_to_live = 5", ""),
    (G::ZeroTtlOnTwcs, OFF, &[], "create table e (a int primary key) with compaction = {'class': 'TimeWindowCompactionStrategy'}",
        "Guardrail zero_ttl_on_twcs violated: 0 default_time_to_live on a table with TimeWindowCompactionStrategy compaction strategy is not allowed. It is suspicious to use default_time_to_live set to 0 with such compaction strategy. Please keep in mind that data will not start to automatically expire after they are older than a respective compaction window unit of a certain size. Please set TTL for your INSERT or UPDATE statements if you expect data to be expired as table settings will not do it. "),
    (G::ZeroTtlOnTwcs, Value { warn: 1, fail: 0, ignored: 0 }, &["create table e (a int primary key)"], "alter table e with compaction = {'class': 'TimeWindowCompactionStrategy'}",
        "Guardrail zero_ttl_on_twcs violated: 0 default_time_to_live on a table with TimeWindowCompactionStrategy compaction strategy is not recommended. It is suspicious to use default_time_to_live set to 0 with such compaction strategy. Please keep in mind that data will not start to automatically expire after they are older than a respective compaction window unit of a certain size. Please set TTL for your INSERT or UPDATE statements if you expect data to be expired as table settings will not do it. "),
];

fn answer(db: &mut Database, text: &str) -> String {
    match db.run(text, &crate::frame::request::ValueList::new()) {
        Ok(_) => {
            let told = db.warnings.iter().filter(|warning| warning.starts_with("Guardrail"));
            told.cloned().collect::<Vec<_>>().join("\n")
        }
        Err(error) => error.to_string(),
    }
}

fn set(db: &Database, guardrail: Guardrail, value: Value) {
    let mut values = db.guardrails.load();
    values.set(guardrail, value);
    db.guardrails.store(&values);
}

#[test]
fn each_guardrail_answers_in_the_words_of_cassandra() {
    for (guardrail, value, before, text, expected) in CASES {
        let mut db = Database::new();
        before.iter().for_each(|statement| drop(db.ok(statement)));
        assert_eq!(answer(&mut db, text), "", "off: {text}");
        let mut db = Database::new();
        before.iter().for_each(|statement| drop(db.ok(statement)));
        set(&db, guardrail, value);
        assert!(db.guardrails.watched().has(guardrail));
        assert_eq!(answer(&mut db, text), expected, "{text}");
    }
    let is_tested = |known: &&Definition| {
        // Those of reads and writes are tested where these are executed, in the server.
        (known.guardrail as usize) < G::PageSize as usize
            && known.kind != Kind::Properties
            && CASES.iter().all(|(case, ..)| *case != known.guardrail)
    };
    let missing: Vec<&str> = GUARDRAILS.iter().filter(is_tested).map(|known| known.name).collect();
    assert_eq!(missing, [""; 0]);
}

#[test]
fn options_of_tables_are_warned_of_left_out_and_refused() {
    let mut db = Database::new();
    let bits = |names: &[&str]| names.iter().filter_map(|name| property_bit(name)).sum();
    let value = Value {
        warn: bits(&["comment", "cdc"]),
        ignored: bits(&["gc_grace_seconds"]),
        fail: bits(&["crc_check_chance", "speculative_retry"]),
    };
    set(&db, G::TableProperties, value);
    let text = "create table c (a int primary key) with crc_check_chance = 1 and speculative_retry = 'NONE' and cdc = false";
    assert_eq!(
        answer(&mut db, text),
        "Guardrail table_properties violated: Provided values [crc_check_chance, speculative_retry] are not allowed for Table Properties (disallowed values are: [crc_check_chance, speculative_retry])"
    );
    let ignored = "Guardrail table_properties violated: Ignoring provided values [gc_grace_seconds] as they are not supported for Table Properties (ignored values are: [gc_grace_seconds])";
    let warned = "Guardrail table_properties violated: Provided values [comment] are not recommended for Table Properties (warned values are: [cdc, comment])";
    let text = "create table c (a int primary key) with comment = 'x' and gc_grace_seconds = 7";
    assert_eq!(answer(&mut db, text), format!("{ignored}\n{warned}"));
    let options = |db: &Database| db.schema.table("ks", "c").unwrap().options.clone();
    assert_eq!((options(&db).gc_grace_seconds, &*options(&db).comment), (864_000, "x"));
    assert_eq!(answer(&mut db, "alter table c with gc_grace_seconds = 7"), ignored);
    assert_eq!(options(&db).gc_grace_seconds, 864_000);
}

#[test]
fn the_tables_of_the_server_are_not_held_to_guardrails() {
    let mut db = Database::new();
    set(&db, G::DropTruncateTable, OFF);
    let refused = answer(&mut db, "drop table system.local");
    assert_eq!(refused, "system keyspace is not user-modifiable.");
}

#[test]
fn tables_made_like_others_are_held_to_expiry() {
    let mut db = Database::new();
    db.ok("create table e (a int primary key)");
    set(&db, G::ZeroTtlOnTwcs, OFF);
    let windows = "with compaction = {'class': 'TimeWindowCompactionStrategy'}";
    let refused = answer(&mut db, &format!("create table f like e {windows}"));
    assert!(refused.starts_with("Guardrail zero_ttl_on_twcs violated: "), "{refused}");
    let expires = format!("create table f like e {windows} and default_time_to_live = 5");
    assert_eq!(answer(&mut db, &expires), "");
}

#[test]
fn tables_that_are_there_already_are_not_judged_by_what_they_would_be_made_like() {
    let mut db = Database::new();
    db.ok("create table e (a int primary key, b int) with compact storage");
    db.ok("create table f (a int primary key)");
    set(&db, G::CompactTables, OFF);
    assert_eq!(answer(&mut db, "create table if not exists f like e"), "");
    let refused = answer(&mut db, "create table if not exists g like e");
    assert!(refused.starts_with("Guardrail compact_tables violated: "), "{refused}");
}

#[test]
fn each_guardrail_is_at_its_place() {
    for (at, known) in GUARDRAILS.iter().enumerate() {
        assert_eq!(known.guardrail as usize, at, "{}", known.name);
    }
    let default = Guardrails::default();
    let on = GUARDRAILS.iter().filter(|known| default.watched().has(known.guardrail));
    let on: Vec<&str> = on.map(|known| known.name).collect();
    assert!(on.is_empty(), "as in Cassandra without logins: {on:?}");
}

#[test]
fn writes_are_held_to_how_full_the_disk_is() {
    let guardrails = Guardrails::default();
    let told = |used_percent| {
        let mut warnings = Vec::new();
        let checked = guardrails.check_disk(used_percent, &mut warnings);
        checked.map_or_else(|error| error.to_string(), |()| warnings.join("\n"))
    };
    assert_eq!(told(100), "");
    let mut values = guardrails.load();
    values.set(G::ReplicaDiskUsage, Value { warn: 70, fail: 80, ignored: 0 });
    guardrails.store(&values);
    assert_eq!(told(70), "");
    let warned =
        "Guardrail replica_disk_usage violated: Replica disk usage exceeds warning threshold";
    assert_eq!(told(71), warned);
    let refused = "Guardrail replica_disk_usage violated: Write request failed because disk usage exceeds failure threshold";
    assert_eq!(told(81), refused);
}
