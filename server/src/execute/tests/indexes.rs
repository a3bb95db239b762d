//! Indexes over several cores: what finds rows, and what the system's tables tell of them.

use super::*;

#[test]
fn rows_of_all_cores_are_found_by_an_index_and_the_system_tables_tell_of_it() {
    for shards in [1, 3] {
        let mut bench = Bench::new(shards);
        bench.query("CREATE TABLE ks.i (k int PRIMARY KEY, v int, w text)");
        for k in 0..30 {
            bench.query(&format!(
                "INSERT INTO ks.i (k, v, w) VALUES ({k}, {}, 'A{}')",
                k % 3,
                k % 2
            ));
        }
        bench.query("CREATE INDEX ON ks.i (v)");
        bench.query(
            "CREATE INDEX by_text ON ks.i (w) USING 'sai' WITH OPTIONS = {'case_sensitive': 'false'}",
        );
        assert_eq!(bench.query("SELECT count(*) FROM ks.i WHERE v = 1"), "10");
        assert_eq!(bench.query("SELECT count(*) FROM ks.i WHERE w = 'a1'"), "15");
        bench.query("UPDATE ks.i SET v = 1 WHERE k = 0");
        assert_eq!(bench.query("SELECT count(*) FROM ks.i WHERE v = 1"), "11");
        let of_table = "WHERE keyspace_name = 'ks' AND table_name = 'i'";
        let names =
            bench.query(&format!("SELECT index_name, kind FROM system_schema.indexes {of_table}"));
        assert_eq!(names, "by_text CUSTOM, i_v_idx COMPOSITES", "{shards} shards");
        let one =
            format!("SELECT kind FROM system_schema.indexes {of_table} AND index_name = 'by_text'");
        assert_eq!(bench.query(&one), "CUSTOM");
        let built = "SELECT index_name FROM system.\"IndexInfo\" WHERE table_name = 'ks'";
        assert_eq!(bench.query(built), "by_text, i_v_idx");
        bench.query("DROP INDEX ks.by_text");
        assert_eq!(bench.query(built), "i_v_idx");
        bench.query("DROP TABLE ks.i");
        assert_eq!(bench.query(built), "");
    }
}
