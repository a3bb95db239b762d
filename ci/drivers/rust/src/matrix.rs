//! The type matrix: every CQL type from and into the Rust types that the driver has for it, by derived rows and user
//! types. A row is written twice, bound and as literals, and must come back as itself from both.
//!
//! 1. Three rows: usual values, the least and the greatest ones, and nothing but nulls.
//! 2. Each is read as `Every`, a row with a field a column, and as `Row`, columns with values of any type.
//! 3. `empty`: a value without bytes is not a null, and a null is an error for a Rust type that has none.
//! 4. `refusals`: a value that is not of its column's type is refused by the driver or by the server.
//!
//! Invariant: rows are compared as texts, since `-0.0 == 0.0`, and as numbers of unequal bytes may be equal.
//!
//! Not here: the 10,000 rows of scalars and paging (`main.rs`).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use scylla::client::session::Session;
use scylla::value::{
    CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue, CqlVarint,
    MaybeEmpty, Row,
};
use scylla::{DeserializeRow, DeserializeValue, SerializeRow, SerializeValue};
use uuid::Uuid;

const COLUMNS: usize = 29;
const NAMES: &str = "id, a_ascii, a_bigint, a_blob, a_boolean, a_date, a_decimal, a_double, a_duration, a_float, \
    a_inet, a_int, a_smallint, a_text, a_time, a_timestamp, a_timeuuid, a_tinyint, a_uuid, a_varint, a_list, a_set, \
    a_map, a_nest, a_tuple, a_vector, a_words, a_type, a_types";
const TABLE: &str = "CREATE TABLE driver_rust.matrix (id int PRIMARY KEY, a_ascii ascii, a_bigint bigint, a_blob blob, \
    a_boolean boolean, a_date date, a_decimal decimal, a_double double, a_duration duration, a_float float, \
    a_inet inet, a_int int, a_smallint smallint, a_text text, a_time time, a_timestamp timestamp, \
    a_timeuuid timeuuid, a_tinyint tinyint, a_uuid uuid, a_varint varint, a_list list<text>, a_set set<bigint>, \
    a_map map<text, inet>, a_nest map<text, frozen<list<frozen<set<int>>>>>, \
    a_tuple tuple<int, text, frozen<list<uuid>>>, a_vector vector<double, 2>, a_words vector<text, 2>, \
    a_type frozen<shape>, a_types list<frozen<point>>)";

/// A user type in a user type.
#[derive(Debug, PartialEq, DeserializeValue, SerializeValue)]
struct Point {
    x: Option<i32>,
    y: Option<String>,
}

/// A user type with others in its collections; one field has another name in Rust.
#[derive(Debug, PartialEq, DeserializeValue, SerializeValue)]
struct Shape {
    #[scylla(rename = "name")]
    title: Option<String>,
    points: Vec<Point>,
    corners: BTreeMap<String, Point>,
}

/// A column of every type, matched by name.
#[derive(Debug, Default, PartialEq, DeserializeRow, SerializeRow)]
struct Every {
    id: i32,
    a_ascii: Option<String>,
    a_bigint: Option<i64>,
    a_blob: Option<Vec<u8>>,
    a_boolean: Option<bool>,
    a_date: Option<CqlDate>,
    a_decimal: Option<CqlDecimal>,
    a_double: Option<f64>,
    a_duration: Option<CqlDuration>,
    a_float: Option<f32>,
    a_inet: Option<IpAddr>,
    a_int: Option<MaybeEmpty<i32>>,
    a_smallint: Option<i16>,
    a_text: Option<String>,
    a_time: Option<CqlTime>,
    a_timestamp: Option<CqlTimestamp>,
    a_timeuuid: Option<CqlTimeuuid>,
    a_tinyint: Option<i8>,
    a_uuid: Option<Uuid>,
    a_varint: Option<CqlVarint>,
    a_list: Option<Vec<String>>,
    a_set: Option<BTreeSet<i64>>,
    a_map: Option<HashMap<String, IpAddr>>,
    a_nest: Option<BTreeMap<String, Vec<BTreeSet<i32>>>>,
    a_tuple: Option<(Option<i32>, Option<String>, Option<Vec<Uuid>>)>,
    a_vector: Option<Vec<f64>>,
    a_words: Option<Vec<String>>,
    a_type: Option<Shape>,
    a_types: Option<Vec<Point>>,
}

/// Writes rows both ways, and reads them typed and untyped; says how many there were.
pub async fn run(session: &Session) -> Result<usize, Box<dyn Error>> {
    for statement in [
        "CREATE TYPE driver_rust.point (x int, y text)",
        "CREATE TYPE driver_rust.shape (name text, points frozen<list<frozen<point>>>, \
         corners map<text, frozen<point>>)",
        TABLE,
    ] {
        session.query_unpaged(statement, ()).await?;
    }
    session.await_schema_agreement().await?;
    session.refresh_metadata().await?;
    let rows = rows();
    let marks = ["?"; COLUMNS].join(", ");
    let insert = session
        .prepare(format!("INSERT INTO driver_rust.matrix ({NAMES}) VALUES ({marks})"))
        .await?;
    for (row, literals) in &rows {
        session.execute_unpaged(&insert, row).await?;
        let again = format!(
            "INSERT INTO driver_rust.matrix ({NAMES}) VALUES ({}, {literals})",
            row.id + 100
        );
        session.query_unpaged(again, ()).await?;
        let bound = read::<Every>(session, row.id).await?;
        // As texts, too: they tell zeros with a sign apart, and bytes of numbers that are equal.
        assert_eq!(format!("{bound:?}"), format!("{row:?}"), "row {}, bound", row.id);
        let mut literal = read::<Every>(session, row.id + 100).await?;
        literal.id = row.id;
        assert_eq!(format!("{literal:?}"), format!("{row:?}"), "row {}, as literals", row.id);
        let bound = read::<Row>(session, row.id).await?.columns;
        let literal = read::<Row>(session, row.id + 100).await?.columns;
        assert_eq!((bound.len(), &bound[1..]), (COLUMNS, &literal[1..]), "row {}, untyped", row.id);
    }
    empty(session).await?;
    refusals(session).await?;
    Ok(rows.len())
}

/// Reads one row.
async fn read<R>(session: &Session, id: i32) -> Result<R, Box<dyn Error>>
where
    R: for<'f, 'm> scylla::deserialize::row::DeserializeRow<'f, 'm>,
{
    let select = format!("SELECT {NAMES} FROM driver_rust.matrix WHERE id = ?");
    Ok(session.query_unpaged(select, (id,)).await?.into_rows_result()?.single_row::<R>()?)
}

/// An empty value is no null, and what a null is for a type that has none is an error.
async fn empty(session: &Session) -> Result<(), Box<dyn Error>> {
    let insert = "INSERT INTO driver_rust.matrix (id, a_int) VALUES (50, ?)";
    session.query_unpaged(insert, (MaybeEmpty::<i32>::Empty,)).await?;
    let row = read::<Every>(session, 50).await?;
    assert_eq!(row, Every { id: 50, a_int: Some(MaybeEmpty::Empty), ..Every::default() });
    let untyped = read::<Row>(session, 50).await?;
    assert_eq!((&untyped.columns[11], &untyped.columns[12]), (&Some(CqlValue::Empty), &None));
    let select = "SELECT a_text FROM driver_rust.matrix WHERE id = 50";
    let rows = session.query_unpaged(select, ()).await?.into_rows_result()?;
    assert!(rows.single_row::<(String,)>().is_err(), "a null is a String");
    assert_eq!(rows.single_row::<(Option<&str>,)>()?, (None,));
    Ok(())
}

/// Values that a column's type does not have are refused, before they are sent or read or by the server.
async fn refusals(session: &Session) -> Result<(), Box<dyn Error>> {
    let insert =
        session.prepare("INSERT INTO driver_rust.matrix (id, a_int) VALUES (51, ?)").await?;
    assert!(session.execute_unpaged(&insert, (7_i64,)).await.is_err(), "an int is 8 bytes");
    let rows = session
        .query_unpaged("SELECT a_int FROM driver_rust.matrix WHERE id = 0", ())
        .await?
        .into_rows_result()?;
    assert!(rows.single_row::<(i64,)>().is_err(), "an int is read as 8 bytes");
    let vectors =
        session.prepare("INSERT INTO driver_rust.matrix (id, a_vector) VALUES (51, ?)").await?;
    assert!(session.execute_unpaged(&vectors, (vec![1.0_f64],)).await.is_err(), "a short vector");
    let ascii =
        session.prepare("INSERT INTO driver_rust.matrix (id, a_ascii) VALUES (51, ?)").await?;
    let refused = session.execute_unpaged(&ascii, ("ü",)).await.unwrap_err().to_string();
    assert!(refused.contains("Invalid byte for ascii: -61"), "{refused}");
    Ok(())
}

/// The rows with the literals of all columns but the first.
fn rows() -> Vec<(Every, String)> {
    let point = |x, y: Option<&str>| Point { x, y: y.map(str::to_owned) };
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let varint = |bytes: &[u8]| CqlVarint::from_signed_bytes_be_slice(bytes);
    let decimal =
        |bytes: &[u8], scale| CqlDecimal::from_signed_be_bytes_and_exponent(bytes.to_vec(), scale);
    let plain = Every {
        id: 0,
        a_ascii: Some("plain ~".to_owned()),
        a_bigint: Some(1 << 62),
        a_blob: Some(vec![0, 255]),
        a_boolean: Some(true),
        a_date: Some(CqlDate((1 << 31) + 20_455)),
        a_decimal: Some(decimal(&[0, 150], 2)),
        a_double: Some(0.1),
        a_duration: Some(CqlDuration { months: 1, days: 2, nanoseconds: 3 }),
        a_float: Some(-0.0),
        a_inet: Some(Ipv4Addr::new(10, 0, 0, 1).into()),
        a_int: Some(MaybeEmpty::Value(7)),
        a_smallint: Some(-7),
        a_text: Some("tèxt ' ☃ 🚀".to_owned()),
        a_time: Some(CqlTime(3_723_004_005_006)),
        a_timestamp: Some(CqlTimestamp(-1)),
        a_timeuuid: Some(CqlTimeuuid::from(Uuid::from_u128(
            0x50554d6e_29bb_11e5_b345_feff819cdc9f,
        ))),
        a_tinyint: Some(7),
        a_uuid: Some(Uuid::from_u128(5)),
        a_varint: Some(varint(&[0, 128])),
        a_list: Some(texts(&["b", "", "b"])),
        a_set: Some([-1, 3].into()),
        a_map: Some([("".to_owned(), Ipv6Addr::LOCALHOST.into())].into()),
        a_nest: Some(
            [("k".to_owned(), vec![[1, 2].into(), [].into()]), ("".to_owned(), vec![])].into(),
        ),
        a_tuple: Some((Some(1), Some("x".to_owned()), Some(vec![Uuid::nil(), Uuid::max()]))),
        a_vector: Some(vec![1.5, -0.0]),
        // The driver reads an empty text in a vector as null.
        a_words: Some(texts(&["a", "ü"])),
        a_type: Some(Shape {
            title: Some("s".to_owned()),
            points: vec![point(Some(1), Some("a")), point(None, Some(""))],
            corners: [("k".to_owned(), point(Some(-1), None))].into(),
        }),
        a_types: Some(vec![point(Some(2), Some("ü"))]),
    };
    let least = Every {
        id: 1,
        a_ascii: Some(String::new()),
        a_bigint: Some(i64::MIN),
        a_blob: Some(vec![]),
        a_boolean: Some(false),
        a_date: Some(CqlDate(0)),
        a_decimal: Some(decimal(&[255], i32::MAX)),
        a_double: Some(f64::NEG_INFINITY),
        a_duration: Some(CqlDuration { months: -i32::MAX, days: -1, nanoseconds: -i64::MAX }),
        a_float: Some(f32::MAX),
        a_inet: Some(Ipv6Addr::UNSPECIFIED.into()),
        a_int: Some(MaybeEmpty::Value(i32::MIN)),
        a_smallint: Some(i16::MIN),
        a_text: Some(String::new()),
        a_time: Some(CqlTime(86_399_999_999_999)),
        a_timestamp: Some(CqlTimestamp(i64::MIN)),
        a_timeuuid: Some(CqlTimeuuid::from(Uuid::from_u128(0x1000_8080_808080808080))),
        a_tinyint: Some(i8::MIN),
        a_uuid: Some(Uuid::max()),
        a_varint: Some(varint(&[128])),
        a_tuple: Some((None, None, Some(vec![]))),
        a_vector: Some(vec![f64::MAX, 5e-324]),
        a_words: Some(texts(&["b", "b"])),
        a_type: Some(Shape { title: None, points: vec![], corners: BTreeMap::new() }),
        ..Every::default()
    };
    let nothing = Every { id: 2, ..Every::default() };
    vec![
        (
            plain,
            "'plain ~', 4611686018427387904, 0x00ff, true, '2026-01-02', 1.50, 0.1, 1mo2d3ns, -0.0, '10.0.0.1', 7, -7, \
             'tèxt '' ☃ 🚀', '01:02:03.004005006', '1969-12-31 23:59:59.999+0000', \
             50554d6e-29bb-11e5-b345-feff819cdc9f, 7, 00000000-0000-0000-0000-000000000005, 128, ['b', '', 'b'], \
             {3, -1}, {'': '::1'}, {'k': [{2, 1}, {}], '': []}, \
             (1, 'x', [00000000-0000-0000-0000-000000000000, ffffffff-ffff-ffff-ffff-ffffffffffff]), [1.5, -0.0], \
             ['a', 'ü'], {name: 's', points: [{x: 1, y: 'a'}, {y: ''}], corners: {'k': {x: -1}}}, [{x: 2, y: 'ü'}]"
                .to_owned(),
        ),
        (
            least,
            "'', -9223372036854775808, 0x, false, '-5877641-06-23', -1E-2147483647, -Infinity, \
             -2147483647mo1d9223372036854775807ns, 3.4028235E38, '::', -2147483648, -32768, '', '23:59:59.999999999', \
             -9223372036854775808, 00000000-0000-1000-8080-808080808080, -128, ffffffff-ffff-ffff-ffff-ffffffffffff, \
             -128, [], {}, {}, {}, (null, null, []), [1.7976931348623157E308, 4.9E-324], ['b', 'b'], \
             {points: [], corners: {}}, []"
                .to_owned(),
        ),
        (nothing, ["null"; COLUMNS - 1].join(", ")),
    ]
}
