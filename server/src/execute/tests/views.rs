//! Materialized views over several cores: what is built, emptied and written beside other statements.

use model::{TableId, Token};
use shard::owner::Sharder;
use shard::upkeep::Upkeep;

use super::*;

const TABLE: &str = "CREATE TABLE ks.b (k int PRIMARY KEY, r int, v int)";
const VIEW: &str = "CREATE MATERIALIZED VIEW ks.w AS SELECT * FROM ks.b \
                    WHERE r IS NOT NULL AND k IS NOT NULL PRIMARY KEY (r, k)";

impl Bench {
    /// A server with the table `ks.b`.
    fn with_base(shards: usize) -> Bench {
        let mut bench =
            Bench::with(ManualConfig { shard_memory_bytes: 128 << 20, ..small(shards) });
        assert_eq!(bench.query(TABLE), "CREATED TABLE ks b");
        bench
    }

    /// The same, with its view.
    fn with_view(shards: usize) -> Bench {
        let mut bench = Bench::with_base(shards);
        assert_eq!(bench.query(VIEW), "CREATED TABLE ks w");
        bench.until_built(&["w"]);
        bench
    }

    /// Turns and moves the time until all views that are built are these.
    fn until_built(&mut self, views: &[&str]) {
        let mut built = String::new();
        for _ in 0..200 {
            built =
                self.query("SELECT view_name FROM system.built_views WHERE keyspace_name = 'ks'");
            if built == views.join(", ") {
                return;
            }
            self.pass_ms(20);
        }
        panic!("built: {built}");
    }

    fn pass_ms(&mut self, ms: u32) {
        for _ in 0..ms {
            while self.server.turn() {}
            self.server.advance(Duration::from_millis(1));
        }
    }

    fn id_of(&mut self, name: &str) -> TableId {
        let name = name.to_owned();
        let id = self.server.on_first_core(async move |shard| {
            shard.schema().table("ks", &name).map(|table| table.id)
        });
        id.flatten().unwrap()
    }

    fn upkeep(&mut self, upkeep: Upkeep) {
        let done = self.server.on_first_core(async move |shard| shard.upkeep(&upkeep).await);
        done.unwrap().unwrap();
    }
}

/// Numbers from `first` on whose partitions this core of two has.
fn of_core(core: usize, first: i32) -> impl Iterator<Item = i32> {
    let sharder = Sharder::new(2);
    (first..).filter(move |k| sharder.shard_of(Token::of_key(&k.to_be_bytes())).index() == core)
}

/// Before: a write of a base held its credit until its rows of views were with another core, and these needed one of
/// the same credits: two cores whose clients had all of them waited for each other until a restart.
#[test]
fn cores_that_have_given_each_other_all_credits_go_on() {
    const WRITES: usize = 2_200;
    let mut bench = Bench::with_view(2);
    let clients = [bench.client, bench.server.connect(1, VERSION)];
    for core in [0, 1] {
        for (k, r) in of_core(1 - core, 0).zip(of_core(core, 0)).take(WRITES) {
            bench.begin_as(clients[core], &format!("INSERT INTO ks.b (k, r) VALUES ({k}, {r})"));
        }
    }
    for client in clients {
        bench.server.run_until_answered(client);
        let answers = bench.answers_to(client);
        assert_eq!(answers.len(), WRITES);
        assert!(answers.iter().all(|(_, answer)| answer == "void"), "{answers:?}");
    }
    assert_eq!(bench.query("SELECT count(*) FROM ks.w"), (2 * WRITES).to_string());
}

/// Before: what was taken without rows of a view and was not readable yet when the view was built came into the base
/// alone.
#[test]
fn a_write_that_waits_while_its_view_is_made_is_in_it() {
    let mut bench = Bench::with_base(2);
    let base = bench.id_of("b");
    let writer = bench.server.connect(1, VERSION);
    bench.upkeep(Upkeep::HoldWrites(base));
    for k in [1, 2, 3] {
        bench.begin_as(writer, &format!("UPDATE ks.b SET r = 1 WHERE k = {k} IF r = null"));
        bench.begin_as(writer, &format!("INSERT INTO ks.b (k, r) VALUES ({k}, 5)"));
    }
    while bench.server.turn() {}
    assert_eq!(bench.query(VIEW), "CREATED TABLE ks w");
    bench.pass_ms(100);
    bench.upkeep(Upkeep::EndCut(base));
    bench.server.run_until_answered(writer);
    bench.until_built(&["w"]);
    let both = ["SELECT r, k FROM ks.b WHERE k IN (1, 2, 3)", "SELECT r, k FROM ks.w WHERE r = 5"];
    assert_eq!(both.map(|text| bench.query(text)), ["5 1, 5 2, 5 3"; 2]);
    assert_eq!(bench.query("SELECT count(*) FROM ks.w"), "3");
}
