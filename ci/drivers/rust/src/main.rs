//! Drives a CQL server with ScyllaDB's Rust driver: schema, 10,000 rows, paging, and the type matrix (`matrix.rs`).
//!
//!   driver-check HOST PORT
//!
//! Prints `ok` last; any other end is a failure. The same rows as the other drivers' programs.
//!
//! 1. `create` makes a keyspace and a table, and looks for both in the driver's metadata, with every column's type.
//! 2. `write` inserts all rows by one prepared statement, 100 at a time, with lz4. A row's values follow from its
//!    number; every tenth row has a null.
//! 3. `read` pages through the table, 500 rows a page: every row comes once, with its values.
//! 4. `matrix::run`; then the keyspace is dropped.
//!
//! Not here: how the program is built and run, and against which server (`ci/src/drivers.rs`), the programs of the
//! other languages (the folders beside `ci/drivers/rust`).

mod matrix;

use std::collections::HashSet;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures::{StreamExt, TryStreamExt, stream};
use scylla::client::Compression;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::cluster::metadata::ColumnType;
use scylla::value::{
    CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue, CqlVarint, Row,
};
use uuid::Uuid;

const ROWS: i64 = 10_000;
const PAGE_ROWS: i32 = 500;
const BUCKETS: i64 = 100;
const IN_FLIGHT: usize = 100;
const TYPES: [&str; 20] = [
    "ascii",
    "bigint",
    "blob",
    "boolean",
    "date",
    "decimal",
    "double",
    "duration",
    "float",
    "inet",
    "int",
    "smallint",
    "text",
    "time",
    "timestamp",
    "timeuuid",
    "tinyint",
    "uuid",
    "varchar",
    "varint",
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let host = arguments.next().ok_or("HOST is missing")?;
    let port = arguments.next().ok_or("PORT is missing")?;
    let session = SessionBuilder::new()
        .known_node(format!("{host}:{port}"))
        .compression(Some(Compression::Lz4))
        .build()
        .await?;
    create(&session).await?;
    write(&session).await?;
    read(&session).await?;
    let count = matrix::run(&session).await?;
    session.query_unpaged("DROP KEYSPACE driver_rust", ()).await?;
    let shards = session
        .get_cluster_state()
        .get_nodes_info()
        .iter()
        .find_map(|node| node.sharder())
        .map_or("no shards".to_owned(), |sharder| format!("{} shards", sharder.nr_shards));
    println!("scylla Rust driver, protocol 4, lz4, {shards}, {count} rows of the type matrix");
    println!("ok");
    Ok(())
}

/// Creates the keyspace and the table, and sees them in the driver's metadata.
async fn create(session: &Session) -> Result<(), Box<dyn Error>> {
    session.query_unpaged("DROP KEYSPACE IF EXISTS driver_rust", ()).await?;
    let keyspace = "CREATE KEYSPACE driver_rust WITH replication = \
        {'class': 'SimpleStrategy', 'replication_factor': 1}";
    session.query_unpaged(keyspace, ()).await?;
    let columns = TYPES.map(|name| format!("c_{name} {name}")).join(", ");
    let table = format!(
        "CREATE TABLE driver_rust.everything (bucket int, id bigint, {columns}, \
         PRIMARY KEY (bucket, id)) WITH CLUSTERING ORDER BY (id DESC)"
    );
    session.query_unpaged(table, ()).await?;
    session.await_schema_agreement().await?;
    session.refresh_metadata().await?;
    let state = session.get_cluster_state();
    let keyspace = state.get_keyspace("driver_rust").ok_or("the driver sees no keyspace")?;
    let table = keyspace.tables.get("everything").ok_or("the driver sees no table")?;
    assert_eq!(table.columns.len(), TYPES.len() + 2);
    assert_eq!(
        (&table.partition_key[..], &table.clustering_key[..]),
        (&["bucket".to_owned()][..], &["id".to_owned()][..])
    );
    for name in TYPES {
        let ColumnType::Native(seen) = &table.columns[&format!("c_{name}")].typ else {
            return Err(format!("c_{name} is no scalar").into());
        };
        let told = if name == "varchar" { "text" } else { name };
        assert_eq!(format!("{seen:?}").to_lowercase(), told);
    }
    Ok(())
}

/// Writes all rows by one prepared statement, many at a time.
async fn write(session: &Session) -> Result<(), Box<dyn Error>> {
    let names = TYPES.map(|name| format!("c_{name}")).join(", ");
    let marks = ["?"; TYPES.len() + 2].join(", ");
    let insert = session
        .prepare(format!(
            "INSERT INTO driver_rust.everything (bucket, id, {names}) VALUES ({marks})"
        ))
        .await?;
    stream::iter(0..ROWS)
        .map(|i| {
            let mut values =
                vec![Some(CqlValue::Int((i % BUCKETS) as i32)), Some(CqlValue::BigInt(i))];
            values.extend(row(i));
            let insert = &insert;
            async move { session.execute_unpaged(insert, values).await }
        })
        .buffer_unordered(IN_FLIGHT)
        .try_for_each(async |_| Ok(()))
        .await?;
    Ok(())
}

/// Pages all rows back and checks every value.
async fn read(session: &Session) -> Result<(), Box<dyn Error>> {
    let names = TYPES.map(|name| format!("c_{name}")).join(", ");
    let mut select =
        session.prepare(format!("SELECT bucket, id, {names} FROM driver_rust.everything")).await?;
    select.set_page_size(PAGE_ROWS);
    let mut rows = session.execute_iter(select, ()).await?.rows_stream::<Row>()?;
    let mut found = HashSet::new();
    while let Some(Row { columns }) = rows.try_next().await? {
        let Some(Some(CqlValue::BigInt(i))) = columns.get(1) else {
            return Err("a row without its id".into());
        };
        assert_eq!(columns[0], Some(CqlValue::Int((i % BUCKETS) as i32)), "row {i}");
        assert_eq!(columns[2..], row(*i)[..], "row {i}");
        assert!(found.insert(*i), "row {i} came twice");
    }
    assert_eq!(found.len() as i64, ROWS);
    Ok(())
}

/// The values of row i, one for each of TYPES.
fn row(i: i64) -> Vec<Option<CqlValue>> {
    let middle = i - ROWS / 2;
    let address = match i % 2 {
        1 => IpAddr::V4(Ipv4Addr::new(10, 0, (i / 256) as u8, (i % 256) as u8)),
        _ => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, i as u16)),
    };
    let bigint = match i {
        0 => i64::MIN,
        1 => i64::MAX,
        _ => middle * 1_000_003,
    };
    let double = match i {
        0 => f64::NEG_INFINITY,
        1 => -0.0,
        _ => i as f64 / 7.0,
    };
    let decimal = big_endian(i128::from(middle) * 10_i128.pow(10) + 7);
    let timeuuid =
        Uuid::from_fields(i as u32, 0xabcd, 0x11ee, &[0x80, 1, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc]);
    let uuid = Uuid::from_u128((i as u128) << 90 | 0x4000 << 64 | 0x8000 << 48);
    let varchar = (i % 10 != 9).then(|| CqlValue::Text("x".repeat((i % 300) as usize)));
    let mut values: Vec<Option<CqlValue>> = [
        CqlValue::Ascii(format!("ascii-{i}")),
        CqlValue::BigInt(bigint),
        CqlValue::Blob((0..i % 50).map(|k| (i + k) as u8).collect()),
        CqlValue::Boolean(i % 2 == 0),
        CqlValue::Date(CqlDate((1_i64 << 31).wrapping_add(middle) as u32)),
        CqlValue::Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(decimal, (i % 10) as i32)),
        CqlValue::Double(double),
        CqlValue::Duration(CqlDuration {
            months: (i % 13) as i32,
            days: (i % 31) as i32,
            nanoseconds: i * 1_000_000,
        }),
        CqlValue::Float(i as f32 / 4.0),
        CqlValue::Inet(address),
        CqlValue::Int((middle * 400_000) as i32),
        CqlValue::SmallInt(middle as i16),
        CqlValue::Text(format!("tèxt ☃ {i}")),
        CqlValue::Time(CqlTime(i * 7_919_000_001 % 86_400_000_000_000)),
        CqlValue::Timestamp(CqlTimestamp(middle * 86_400_123)),
        CqlValue::Timeuuid(CqlTimeuuid::from(timeuuid)),
        CqlValue::TinyInt((i % 256 - 128) as i8),
        CqlValue::Uuid(uuid),
    ]
    .map(Some)
    .into();
    let varint = big_endian(i128::from(middle) * 10_i128.pow(25));
    values.push(varchar);
    values.push(Some(CqlValue::Varint(CqlVarint::from_signed_bytes_be(varint))));
    values
}

/// The shortest big-endian two's complement form.
fn big_endian(number: i128) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let fill = if number < 0 { 0xff } else { 0 };
    let mut start = bytes.iter().take_while(|&&byte| byte == fill).count().min(15);
    // The first byte kept must still carry the sign.
    if start > 0 && (bytes[start] ^ fill) & 0x80 != 0 {
        start -= 1;
    }
    bytes[start..].to_vec()
}
