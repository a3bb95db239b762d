//! Zones of timestamps: how far the clocks of a place were ahead of UTC.
//!
//! ```text
//! behind the time       Z  +01  +0100  +01:00              of a date also +01:00:00
//! after one space       the same  +01:00:00  UTC  GMT+03:00  Europe/Berlin  PST
//! ```
//!
//! 1. Names are told by case, as in Cassandra. A name is that of a place, also where it sounds like half of a year:
//!    `PST` in July is an hour ahead of `PST` in January.
//! 2. A time that clocks skipped is that much later, of one that they showed twice the first is meant.
//!
//! Not here: names of several words, such as `Pacific Standard Time`, which Cassandra reads, too.

use jiff::SignedDuration;
use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;

use super::time::{MILLIS_OF_DAY, Scanner, civil_of_days};

const OFFSET_S_MAX: i64 = 18 * 3600;
/// After so many years days of the week, and with them the rules of summer time, repeat.
const CYCLE_DAYS: i64 = 146_097;
/// Days since 1970 of the last years that have rules of their own.
const CYCLE_BEGINS_DAYS: i64 = 2 * CYCLE_DAYS;

/// What may stand behind a time, or behind a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// A time of day.
    Time,
    /// A date without a time.
    Date,
}

/// How many milliseconds the clocks that show `local` ms since 1970 are ahead of UTC; `None` if the rest of a timestamp
/// is no zone.
pub(super) fn ahead_ms(rest: &str, behind: Behind, local: i64) -> Option<i64> {
    let Some(zone) = rest.strip_prefix(' ') else {
        let form = match behind {
            Behind::Time => Offset::Short,
            Behind::Date => Offset::Any,
        };
        return if rest.is_empty() { Some(0) } else { offset_ms(rest, form) };
    };
    if let Some(offset) = offset_ms(zone, Offset::Any) {
        return Some(offset);
    }
    let of_utc = ["UTC", "GMT", "UT"].iter().find_map(|name| zone.strip_prefix(name));
    match of_utc {
        Some("") => Some(0),
        Some(offset) if offset.starts_with(['+', '-']) => offset_ms(offset, Offset::Colons),
        _ => place_ms(zone, local),
    }
}

/// Which forms of an offset are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offset {
    /// `Z`, `+01`, `+0100`, `+01:00`.
    Short,
    /// With colons: `+01:00`, `+01:00:00`.
    Colons,
    /// Each of them.
    Any,
}

fn offset_ms(text: &str, form: Offset) -> Option<i64> {
    if text == "Z" && form != Offset::Colons {
        return Some(0);
    }
    let mut scanner = Scanner::of(text);
    let sign = if scanner.mark(&['+', '-'])? == '-' { -1 } else { 1 };
    let mut seconds = scanner.number(2, 2)? * 3600;
    let has_colon = scanner.mark(&[':']).is_some();
    if has_colon || !scanner.is_done() {
        seconds += scanner.number(2, 2).filter(|minutes| *minutes < 60)? * 60;
    }
    if has_colon && form != Offset::Short && scanner.mark(&[':']).is_some() {
        seconds += scanner.number(2, 2).filter(|seconds| *seconds < 60)?;
    }
    let fits =
        scanner.is_done() && seconds <= OFFSET_S_MAX && (has_colon || form != Offset::Colons);
    fits.then_some(sign * seconds * 1000)
}

/// How far ahead of UTC clocks are at a local time, both in ms: where the zone has this name, or its clocks are
/// called so (`CLOCKS`). `None` if there is no such zone.
fn place_ms(name: &str, local: i64) -> Option<i64> {
    // Java knows neither: the first is a zone of a sign that says the other side, the second none at all.
    if name.strip_prefix("Etc/GMT").is_some_and(|rest| !rest.is_empty()) || name == "Factory" {
        return None;
    }
    let of_clocks = CLOCKS.iter().find(|(_, names)| names.split(' ').any(|known| known == name));
    let place = of_clocks.map_or(name, |(place, _)| place);
    let zone = TimeZone::get(place).ok().filter(|zone| zone.iana_name() == Some(place))?;
    let (mut days, millis) = (local.div_euclid(MILLIS_OF_DAY), local.rem_euclid(MILLIS_OF_DAY));
    if days >= CYCLE_BEGINS_DAYS {
        days = CYCLE_BEGINS_DAYS + (days - CYCLE_BEGINS_DAYS) % CYCLE_DAYS;
    }
    let civil = civil_of_days(days);
    let year = i16::try_from(civil.year).ok()?;
    let date = Date::new(year, civil.month as i8, civil.day as i8).ok()?;
    let time = SignedDuration::from_millis(millis);
    let shown = date.to_datetime(Time::midnight()).checked_add(time).ok()?;
    let (as_utc, at) = (TimeZone::UTC.to_timestamp(shown).ok()?, zone.to_timestamp(shown).ok()?);
    Some(as_utc.as_millisecond() - at.as_millisecond())
}

/// Names of clocks that are no names of places, by the place that Cassandra takes them for: asked of version 5.0.9.
const CLOCKS: [(&str, &str); 128] = [
    ("Africa/Harare", "CAST CAT"),
    ("Africa/Johannesburg", "SAST"),
    ("Africa/Lagos", "WAST WAT"),
    ("Africa/Nairobi", "EAT"),
    ("America/Argentina/Buenos_Aires", "ARST ART"),
    ("America/Asuncion", "PYST PYT"),
    ("America/Bogota", "COST COT"),
    ("America/Caracas", "VET"),
    ("America/Cayenne", "GFT"),
    ("America/Chicago", "CDT CST CT"),
    ("America/Denver", "MDT MST"),
    ("America/Guayaquil", "ECT"),
    ("America/Guyana", "GYT"),
    ("America/Halifax", "ADT AST AT"),
    ("America/Juneau", "AKDT AKST"),
    ("America/La_Paz", "BOT"),
    ("America/Lima", "PEST PET"),
    ("America/Los_Angeles", "PDT PST PT"),
    ("America/Manaus", "AMST AMT"),
    ("America/Miquelon", "PMDT PMST"),
    ("America/Montevideo", "UYST UYT"),
    ("America/New_York", "EDT EST ET"),
    ("America/Noronha", "FNST FNT"),
    ("America/Nuuk", "WGST WGT"),
    ("America/Paramaribo", "SRT"),
    ("America/Rio_Branco", "ACST ACT"),
    ("America/Sao_Paulo", "BRST BRT"),
    ("America/Scoresbysund", "EGST EGT"),
    ("America/St_Johns", "NDT NST"),
    ("Antarctica/Davis", "DAVT"),
    ("Antarctica/Mawson", "MAWT"),
    ("Antarctica/Palmer", "CLST CLT"),
    ("Antarctica/Rothera", "ROTT"),
    ("Antarctica/Vostok", "VOST"),
    ("Asia/Almaty", "ALMST ALMT"),
    ("Asia/Anadyr", "ANAST ANAT"),
    ("Asia/Aqtobe", "AQTST AQTT ORAST ORAT QYZST QYZT"),
    ("Asia/Ashgabat", "TMT"),
    ("Asia/Baku", "AZST AZT"),
    ("Asia/Bangkok", "ICT"),
    ("Asia/Bishkek", "KGST KGT"),
    ("Asia/Choibalsan", "CHOST CHOT"),
    ("Asia/Dhaka", "BDST BDT"),
    ("Asia/Dili", "TLT"),
    ("Asia/Dushanbe", "TJT"),
    ("Asia/Hong_Kong", "HKST HKT"),
    ("Asia/Hovd", "HOVST HOVT"),
    ("Asia/Irkutsk", "IRKST IRKT"),
    ("Asia/Jakarta", "WIB"),
    ("Asia/Jayapura", "WIT"),
    ("Asia/Kabul", "AFT"),
    ("Asia/Kamchatka", "PETST PETT"),
    ("Asia/Karachi", "PKST PKT"),
    ("Asia/Kathmandu", "NPT"),
    ("Asia/Kolkata", "IDT"),
    ("Asia/Krasnoyarsk", "KRAST KRAT"),
    ("Asia/Kuching", "BNT MYT"),
    ("Asia/Magadan", "MAGST MAGT"),
    ("Asia/Makassar", "WITA"),
    ("Asia/Novosibirsk", "NOVST NOVT"),
    ("Asia/Omsk", "OMSST OMST"),
    ("Asia/Riyadh", "SYOT"),
    ("Asia/Sakhalin", "SAKST SAKT"),
    ("Asia/Seoul", "KDT KST"),
    ("Asia/Singapore", "SGT"),
    ("Asia/Srednekolymsk", "SRET"),
    ("Asia/Tashkent", "UZST UZT"),
    ("Asia/Tbilisi", "GEST GET"),
    ("Asia/Tehran", "IRDT IRST"),
    ("Asia/Thimphu", "BTT"),
    ("Asia/Tokyo", "JDT JST"),
    ("Asia/Ulaanbaatar", "ULAST ULAT"),
    ("Asia/Urumqi", "XJT"),
    ("Asia/Vladivostok", "VLAST VLAT"),
    ("Asia/Yakutsk", "YAKST YAKT"),
    ("Asia/Yangon", "CCT MMT"),
    ("Asia/Yekaterinburg", "YEKST YEKT"),
    ("Atlantic/Azores", "AZOST AZOT"),
    ("Atlantic/Canary", "WEST WET"),
    ("Atlantic/Cape_Verde", "CVST CVT"),
    ("Atlantic/South_Georgia", "GST"),
    ("Atlantic/Stanley", "FKST FKT"),
    ("Australia/Adelaide", "ACDT"),
    ("Australia/Lord_Howe", "LHDT LHST"),
    ("Australia/Perth", "AWDT AWST"),
    ("Australia/Sydney", "AEDT AEST AET"),
    ("Europe/Bucharest", "EEST EET"),
    ("Europe/Moscow", "MSD MSK MT"),
    ("Europe/Paris", "CEST CET MEST MET"),
    ("Europe/Samara", "SAMST SAMT"),
    ("GMT", "IST"),
    ("Indian/Chagos", "IOT"),
    ("Indian/Christmas", "CXT"),
    ("Indian/Mahe", "SCT"),
    ("Indian/Maldives", "MVT TFT"),
    ("Indian/Mauritius", "MUST MUT"),
    ("Indian/Reunion", "RET"),
    ("Pacific/Apia", "WSDT WSST WST"),
    ("Pacific/Auckland", "NZDT NZST"),
    ("Pacific/Bougainville", "BST"),
    ("Pacific/Chatham", "CHADT CHAST"),
    ("Pacific/Easter", "EASST EAST"),
    ("Pacific/Efate", "VUST VUT"),
    ("Pacific/Fakaofo", "TKT"),
    ("Pacific/Fiji", "FJST FJT"),
    ("Pacific/Funafuti", "MHT TVT"),
    ("Pacific/Galapagos", "GALT"),
    ("Pacific/Gambier", "GAMT"),
    ("Pacific/Guadalcanal", "PONT SBT"),
    ("Pacific/Guam", "CHUT DDUT"),
    ("Pacific/Honolulu", "HADT HAST HDT HST"),
    ("Pacific/Kanton", "PHOT"),
    ("Pacific/Kiritimati", "LINT"),
    ("Pacific/Kosrae", "KOSST KOST"),
    ("Pacific/Marquesas", "MART"),
    ("Pacific/Midway", "SST"),
    ("Pacific/Nauru", "NRT"),
    ("Pacific/Niue", "NUT"),
    ("Pacific/Norfolk", "NFST NFT"),
    ("Pacific/Noumea", "NCST NCT"),
    ("Pacific/Palau", "PWT"),
    ("Pacific/Port_Moresby", "PGT"),
    ("Pacific/Rarotonga", "CKHST CKT"),
    ("Pacific/Tahiti", "TAHT"),
    ("Pacific/Tarawa", "GILT"),
    ("Pacific/Tongatapu", "TOST TOT"),
    ("Pacific/Wake", "WAKT"),
    ("Pacific/Wallis", "WFT"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clock_has_a_place_and_one_name_has_one() {
        let mut seen = std::collections::HashSet::new();
        for (place, names) in CLOCKS {
            for name in names.split(' ') {
                assert!(seen.insert(name), "{name} stands there twice");
                assert!(
                    ahead_ms(&format!(" {name}"), Behind::Time, 0).is_some(),
                    "{place} of {name}"
                );
            }
        }
    }

    #[test]
    fn summer_time_holds_for_as_long_as_times_do() {
        let half_a_year = 181 * MILLIS_OF_DAY;
        let hours =
            |zone: &str, local| ahead_ms(zone, Behind::Time, local).map(|ms| ms / 3_600_000);
        for (zone, winter, summer) in [(" Europe/Berlin", 1, 2), (" PST", -8, -7), (" PDT", -8, -7)]
        {
            let january = 1_295_000_000_000;
            assert_eq!(hours(zone, january), Some(winter), "{zone}");
            for cycle in [0, 1, 2, 3, 100, 700_000] {
                let later = cycle * CYCLE_DAYS * MILLIS_OF_DAY;
                assert_eq!(hours(zone, january + later), Some(winter), "{zone} {cycle}");
                assert_eq!(
                    hours(zone, january + later + half_a_year),
                    Some(summer),
                    "{zone} {cycle}"
                );
            }
        }
    }
}
