//! Constants, the bytes they must become, and the refusals in Cassandra's words.

use proptest::prelude::*;

use super::*;
use crate::steps::steps_of;

fn value(text: &str, ty: &CqlType) -> std::result::Result<Vec<u8>, String> {
    from_text(text, ty).map_err(|error| error.to_string())
}

fn millis(text: &str) -> i64 {
    i64::from_be_bytes(value(text, &CqlType::Timestamp).unwrap().try_into().unwrap())
}

/// Texts and what Apache Cassandra 5.0.9 says of them.
#[test]
fn refusals_are_cassandras() {
    use CqlType::*;
    for (text, ty, error) in [
        ("99999999999", Int, "Unable to make int from '99999999999'"),
        ("99999", Smallint, "Unable to make short from '99999'"),
        ("999", Tinyint, "Unable to make byte from '999'"),
        ("99999999999999999999", Bigint, "Unable to make long from '99999999999999999999'"),
        ("0xa", Blob, "cannot parse 'a' as hex bytes"),
        ("abc", Date, "Unable to coerce 'abc' to a formatted date (long)"),
        ("2020-13-01", Date, "Unable to coerce '2020-13-01' to a formatted date (long)"),
        ("2020-02-30", Date, "Unable to coerce '2020-02-30' to a formatted date (long)"),
        ("2020-2-3", Date, "Unable to coerce '2020-2-3' to a formatted date (long)"),
        (
            "-5877641-06-22",
            Date,
            "Input date -5877641-06-22 is less than min supported date -5877641-06-23T00:00Z",
        ),
        ("4294967296", Date, "Unable to make unsigned int (for date) from: '4294967296'"),
        ("-1", Date, "Unable to make unsigned int (for date) from: '-1'"),
        ("1", Duration, "Unable to convert '1' to a duration"),
        ("1y1y", Duration, "Invalid duration. The years are specified multiple times"),
        ("1d1y", Duration, "Invalid duration. The days should be after years"),
        (
            "99999999999999d",
            Duration,
            "Invalid duration. The total number of days must be less or equal to 2147483647",
        ),
        ("1.2.3.4.5", Inet, "Unable to make inet address from '1.2.3.4.5'"),
        ("1.2.3.4.", Inet, "Unable to make inet address from '1.2.3.4.'"),
        ("xyzzy.invalid", Inet, "Unable to make inet address from 'xyzzy.invalid'"),
        ("abc", Time, "(TimeType) Unable to coerce 'abc' to a formatted time (long)"),
        ("25:00:00", Time, "(TimeType) Unable to coerce '25:00:00' to a formatted time (long)"),
        ("01:02", Time, "(TimeType) Unable to coerce '01:02' to a formatted time (long)"),
        ("-1", Time, "Unable to make long (for time) from: '-1'"),
        ("abc", Timestamp, "Unable to parse a date/time from 'abc'"),
        ("2020-01-01T25:00", Timestamp, "Unable to parse a date/time from '2020-01-01T25:00'"),
        (
            "123e4567-e89b-42d3-a456-426614174000",
            Timeuuid,
            "TimeUUID supports only version 1 UUIDs",
        ),
    ] {
        assert_eq!(value(text, &ty), Err(error.to_owned()), "{text}");
    }
}

#[test]
fn literals_go_only_where_they_fit() {
    let literal = Literal { kind: LiteralKind::String, text: "abc".into() };
    let error = constant(&literal, &CqlType::Int, "k").unwrap_err().to_string();
    assert_eq!(error, "Invalid STRING constant (abc) for \"k\" of type int");
    assert!(constant(&literal, &CqlType::Text, "k").is_ok());
}

#[test]
fn dates_and_timestamps_count_from_1970() {
    assert_eq!(value("1970-01-01", &CqlType::Date), Ok(vec![0x80, 0, 0, 0]));
    assert_eq!(value("1969-12-31", &CqlType::Date), Ok(vec![0x7F, 0xFF, 0xFF, 0xFF]));
    assert_eq!(value("-5877641-06-23", &CqlType::Date), Ok(vec![0; 4]));
    assert_eq!(value("2147483650", &CqlType::Date), Ok(vec![0x80, 0, 0, 2]));
    assert_eq!(millis("1970-01-01"), 0);
    assert_eq!(millis("2011-02-03 04:05:06.789+0100"), 1_296_702_306_789);
    assert_eq!(millis("2011-02-03T04:05Z"), 1_296_705_900_000);
    assert_eq!(millis("2011-02-03-01:30"), 1_296_696_600_000);
    assert_eq!(millis("2020-01-01 00:00:00.1234"), millis("2020-01-01 00:00:00.123"));
    assert_eq!(millis("-5"), -5);
    assert_eq!(millis("2011-02-03 24:00"), millis("2011-02-04"));
    assert_eq!(millis("2011-2-3 4:5:6.7 PST"), millis("2011-02-03T12:05:06.7Z"));
    for text in ["2011-02-03 24:01", "12011-02-03", "2011-02-03 04:05:00  UTC", "2011-02-03z"] {
        assert!(value(text, &CqlType::Timestamp).is_err(), "{text}");
    }
    let nanos = value("1:2:3.5", &CqlType::Time).unwrap();
    assert_eq!(nanos, 3_723_500_000_000i64.to_be_bytes());
}

#[test]
fn hours_of_a_timestamp_that_no_day_has_are_refused() {
    for hours in ["25", "9223372036854775807", "2562047788016", "99999999999999999999"] {
        let text = format!("2020-01-01 {hours}:00");
        let expected = format!("Unable to parse a date/time from '{text}'");
        assert_eq!(value(&text, &CqlType::Timestamp), Err(expected));
    }
}

/// Before: two digits at most were read, and no blanks.
#[test]
fn numbers_of_a_time_are_those_of_javas_parse_int() {
    let time = value("08:30:15", &CqlType::Time);
    for text in [" 08:30:15 ", "008:030:15", "+8:+30:+015", "8:30:15.0", "8:30:15.000000000\t"] {
        assert_eq!(value(text, &CqlType::Time), time, "{text}");
    }
    assert_eq!(value("-0:-0:-0", &CqlType::Time), value("0:0:0", &CqlType::Time));
    for text in [
        "8: 30:15",
        "-1:30:15",
        "8:30:",
        ":30:15",
        "8:30:15.",
        "8:30:15.+1",
        "8:30:15.0000000001",
        "8:30:15.1.2",
        "8:30:15:1",
        "99999999999:0:0",
        "8:30:60",
        "24:00:00",
    ] {
        let refused = format!("(TimeType) Unable to coerce '{text}' to a formatted time (long)");
        assert_eq!(value(text, &CqlType::Time), Err(refused));
    }
}

/// Before: weeks stood beside other parts, an empty duration was refused, and the alternative form took any digits.
#[test]
fn durations_of_iso_8601_have_the_forms_that_cassandra_reads() {
    for (text, shown) in [
        ("P", ""),
        ("PT", ""),
        ("-P", ""),
        ("P1YT", "1y"),
        ("PT5M", "5m"),
        ("-P3W", "-21d"),
        ("P0001-02-03T04:05:06", "1y2mo3d4h5m6s"),
    ] {
        assert_eq!(text.parse::<Duration>().unwrap().to_string(), shown, "{text}");
    }
    for text in [
        "P1Y2W",
        "PW",
        "P1M1Y",
        "P1Y1Y",
        "PY",
        "PT1HT1M",
        "P1-2-3T4:5:6",
        "P0001-02-03",
        "P0001-02-03t04:05:06",
        "P00010-2-03T04:05:06",
    ] {
        let refused = format!("Unable to convert '{text}' to a duration");
        assert_eq!(text.parse::<Duration>().unwrap_err().to_string(), refused);
    }
    let refused = "-P1X".parse::<Duration>().unwrap_err().to_string();
    assert_eq!(refused, "Unable to convert 'P1X' to a duration", "without its sign");
}

#[test]
fn durations_are_read_in_every_form() {
    let duration = |text: &str| text.parse::<Duration>().unwrap();
    let all = Duration { months: 14, days: 24, nanos: 14_707_008_009_010 };
    assert_eq!(duration("1y2mo3w3d4h5m7s8ms9us10ns"), all);
    assert_eq!(duration("P1Y2M3DT4H5M6S").nanos, 14_706_000_000_000);
    assert_eq!(duration("P0001-02-03T04:05:06"), duration("P1Y2M3DT4H5M6S"));
    assert_eq!(duration("-P2W"), Duration { months: 0, days: -14, nanos: 0 });
    assert_eq!(duration("5µs").nanos, 5000);
    assert_eq!(all.to_string(), "1y2mo24d4h5m7s8ms9us10ns");
}

#[test]
fn decimals_read_and_show_as_javas() {
    for (text, shown) in [
        ("1", "1"),
        ("-1.50", "-1.50"),
        ("1e3", "1E+3"),
        ("12.5e3", "1.25E+4"),
        ("0.0000001", "1E-7"),
        ("0.000001", "0.000001"),
        (".5", "0.5"),
    ] {
        assert_eq!(Decimal::parse(text).unwrap().to_string(), shown);
    }
    assert_eq!(value("1.5", &CqlType::Decimal), Ok(vec![0, 0, 0, 1, 15]));
    assert_eq!(value("-1", &CqlType::Varint), Ok(vec![0xFF]));
    assert_eq!(value("NaN", &CqlType::Double), Ok(f64::NAN.to_be_bytes().to_vec()));
}

/// Cassandra 5 fails to parse such a statement, whatever the type; before version 4 it refused the decimal alone.
#[test]
fn a_decimal_whose_exponent_does_not_fit_is_refused() {
    for text in [
        "1e-9223372036854775808",
        "1e9223372036854775807",
        "1e99999999999999999999",
        "1e-2147483648",
        "-1e2147483649",
        "1.1e-2147483647",
    ] {
        let refused = format!("unable to make BigDecimal from '{text}'");
        let literal = Literal { kind: LiteralKind::Float, text: text.to_owned() };
        let refuses =
            |ty: &CqlType| constant(&literal, ty, "c").unwrap_err().to_string() == refused;
        assert!(refuses(&CqlType::Decimal) && refuses(&natural_type(&literal).unwrap()), "{text}");
    }
    for text in ["1e-2147483647", "1.1e2147483647", "1e0000000000000000005"] {
        assert!(value(text, &CqlType::Decimal).is_ok(), "{text}");
    }
    let infinite = f64::INFINITY.to_be_bytes().to_vec();
    assert_eq!(value("1e99999999999999999999", &CqlType::Double), Ok(infinite));
}

/// Before: they were shown without, and Cassandra takes no such text back.
#[test]
fn a_year_of_more_than_four_digits_has_a_sign() {
    for (text, shown) in [
        ("+12026-01-02", "+12026-01-02"),
        ("+5881580-07-11", "+5881580-07-11"),
        ("-12026-01-02", "-12026-01-02"),
        ("+02026-01-02", "2026-01-02"),
        ("-2026-01-02", "-2026-01-02"),
        ("0000-01-02", "0000-01-02"),
    ] {
        let bytes = value(text, &CqlType::Date).unwrap();
        assert_eq!(to_text(&CqlType::Date, &bytes).unwrap(), shown);
    }
    for text in ["12026-01-02", "02026-01-02", "+2026-01-02", "-0000-01-02"] {
        let refused = format!("Unable to coerce '{text}' to a formatted date (long)");
        assert_eq!(value(text, &CqlType::Date), Err(refused));
    }
}

/// Cassandra's text of them is that of another time.
#[test]
fn a_timestamp_before_the_year_1_is_shown_with_its_sign() {
    for (millis, shown) in [
        (-62_135_596_800_000, "0001-01-01T00:00:00.000Z"),
        (-62_135_596_800_001, "0000-12-31T23:59:59.999Z"),
        (-70_000_000_000_000, "-0249-10-15T19:33:20.000Z"),
        (-440_000_000_000_000, "-11974-12-15T09:46:40.000Z"),
        (i64::MIN, "-292275055-05-16T16:47:04.192Z"),
        (253_402_300_800_000, "+10000-01-01T00:00:00.000Z"),
    ] {
        assert_eq!(to_text(&CqlType::Timestamp, &i64::to_be_bytes(millis)).unwrap(), shown);
    }
}

#[test]
fn a_decimal_of_more_digits_than_a_format_pads_is_shown() {
    // Zeros that padding adds, where the exponent is still plain.
    for scale in 1..=6 {
        let decimal = Decimal { unscaled: 1.into(), scale };
        assert_eq!(decimal.to_string(), format!("0.{:0>1$}", 1, scale as usize));
    }
    let text = format!("-0.{}", "7".repeat(70_000));
    assert_eq!(Decimal::parse(&text).unwrap().to_string(), text);
}

proptest! {
    #[test]
    fn every_day_is_one_date(days in -2_147_483_648i64..=2_147_483_647) {
        prop_assert_eq!(days_of_civil(civil_of_days(days)), days);
        let shown = civil_of_days(days).to_string();
        let back = value(&shown, &CqlType::Date).unwrap();
        prop_assert_eq!(back, ((days + EPOCH_DAYS_BIAS) as u32).to_be_bytes().to_vec());
    }

    #[test]
    fn vints_round_trip_and_the_model_reads_them(months: i32, days: i32, nanos: i64) {
        let sign = |n: i64| if nanos < 0 { -n.saturating_abs() } else { n.saturating_abs() };
        let months = sign(months.into()).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let days = sign(days.into()).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let duration = Duration { months, days, nanos };
        prop_assert_eq!(Duration::from_bytes(&duration.to_bytes()), Some(duration));
        prop_assert!(CqlType::Duration.validate(&duration.to_bytes()).is_ok());
    }

    /// The same by numbers of any length.
    #[test]
    fn a_float_is_a_double_if_a_double_is_that_number(
        text in "-?[0-9]{0,3}0{0,2}(\\.0{0,2}[0-9]{0,17})?(e[-+]?[0-9]{1,3})?",
    ) {
        let exact = text.parse::<f64>().ok().zip(Decimal::parse(&text)).is_some_and(|(double, decimal)| {
            let double = Decimal::parse(&float::double_text(double));
            double.and_then(|double| double.aligned(&decimal)).is_some_and(|(a, b, _)| a == b)
        });
        let is_double = number::narrowest_float(&text) == CqlType::Double;
        prop_assert_eq!(is_double, exact);
    }

    #[test]
    fn no_text_panics(text in "[-+0-9PTYMWDHS:. aeyZ]{0,30}") {
        for name in ["date", "time", "timestamp", "duration", "decimal", "varint", "inet", "uuid", "blob"] {
            let _ = from_text(&text, &CqlType::scalar(name).unwrap());
        }
    }
}

/// Before: each digit was multiplied with all before it: 16 MB of them took a core for minutes.
#[test]
fn a_number_of_millions_of_digits_is_refused_as_text() {
    use crate::limits::NUMBER_DIGITS_MAX;
    let longest = "7".repeat(NUMBER_DIGITS_MAX);
    for ty in [CqlType::Varint, CqlType::Decimal] {
        let bytes = value(&longest, &ty).expect("as long as it may be");
        assert_eq!(to_text(&ty, &bytes).expect("it is shown again"), longest);
        let refused = format!("a {ty} of more than 100000 digits cannot be written as text");
        assert_eq!(value(&format!("{longest}7"), &ty), Err(refused));
    }
    let long = format!("{longest}.7");
    assert_eq!(Decimal::parse(&long), None);
    let literal = Literal { kind: LiteralKind::Float, text: long };
    assert_eq!(natural_type(&literal), Some(CqlType::Decimal));
}

/// Before: a power of ten of 12,000 digits was made to see that `1e-11999` is no double, for each way to add it.
#[test]
fn the_type_of_a_float_is_found_in_its_text() {
    let ty_of = |text: &str| {
        natural_type(&Literal { kind: LiteralKind::Float, text: text.to_owned() }).unwrap()
    };
    for text in ["1e-11999", "-1e-11999", "1e11999", "7.5e-400"] {
        let (steps, ty) = steps_of(|| ty_of(text));
        assert_eq!(ty, CqlType::Decimal, "{text}");
        assert!(steps < 20, "{text}: {steps} digits");
    }
    let zeros = "0".repeat(900);
    let doubles = ["0e-500", "-0.0e500", "100e300", "1e-300", "007.50", ".5", "1.", "4.9e-324"];
    let long = [format!("1.5{zeros}"), format!("{zeros}1.5")];
    let doubles = doubles.into_iter().chain(long.iter().map(String::as_str));
    doubles.for_each(|text| assert_eq!(ty_of(text), CqlType::Double, "{text}"));
    let long = [format!("1.{zeros}1"), format!("0e-12{zeros}")];
    let decimals = ["1e309", "0.10000000000000001", "9007199254740993.0", "1e-324", "0e-20000"];
    let decimals = decimals.into_iter().chain(long.iter().map(String::as_str));
    decimals.for_each(|text| assert_eq!(ty_of(text), CqlType::Decimal, "{text}"));
}

/// So did each byte of one that was bound and is shown.
#[test]
fn a_number_of_millions_of_bytes_is_not_shown() {
    use crate::limits::NUMBER_BYTES_MAX;
    for ty in [CqlType::Varint, CqlType::Decimal] {
        assert!(to_text(&ty, &[1; 9]).is_ok());
        assert_eq!(
            to_text(&ty, &vec![1; NUMBER_BYTES_MAX + 1]).expect_err("too long").to_string(),
            format!("a {ty} of more than 65536 bytes is not computed with or shown as text")
        );
    }
}

/// Before: `::1` was shown as that, where Java shows all groups.
#[test]
fn an_address_of_ipv6_is_shown_as_java_shows_it() {
    for (text, shown) in [
        ("::1", "0:0:0:0:0:0:0:1"),
        ("2001:DB8::ff00:42:8329", "2001:db8:0:0:0:ff00:42:8329"),
        ("::1.2.3.4", "0:0:0:0:0:0:102:304"),
        ("1.2.3.4", "1.2.3.4"),
    ] {
        let bytes = value(text, &CqlType::Inet).unwrap();
        assert_eq!(to_text(&CqlType::Inet, &bytes).unwrap(), shown);
    }
    // Of what is bound, too.
    let mapped = [&[0; 10][..], &[0xFF, 0xFF, 1, 2, 3, 4]].concat();
    assert_eq!(to_text(&CqlType::Inet, &mapped).unwrap(), "1.2.3.4");
}
