//! The words of CQL: which are keywords, and which of them may still be names.
//!
//! A reserved word can never be a name without quotes; every other word can, wherever the grammar
//! expects a name. The list and its classes are Apache Cassandra's, plus the few words ScyllaDB
//! adds (`bypass`, `cache`, `logged`, `reducefunc`, `timeout`) and `explain`, all of them unreserved.
//!
//! Not here: the grammar (`parser/`), which names of types mean what (`types.rs`).

use model::types::Name;

/// Where a keyword may stand as a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Never a name.
    Reserved,
    /// Any name: column, table, keyspace, function, type.
    Plain,
    /// A scalar type; a name of anything but a type.
    Native,
    /// A name of a column or a table, but not of a function or a type.
    Special,
}

macro_rules! keywords {
    ($($name:ident $text:literal $class:ident,)*) => {
        /// A word with a meaning in CQL, reserved or not.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each is its own word")]
        pub enum Keyword { $($name,)* }

        /// Every keyword in alphabetic order.
        const TABLE: &[(&str, Keyword, Class)] =
            &[$(($text, Keyword::$name, Class::$class),)*];
    };
}

keywords! {
    Access "access" Plain,
    Add "add" Reserved,
    Aggregate "aggregate" Plain,
    Aggregates "aggregates" Plain,
    All "all" Plain,
    Allow "allow" Reserved,
    Alter "alter" Reserved,
    And "and" Reserved,
    Ann "ann" Plain,
    Apply "apply" Reserved,
    As "as" Plain,
    Asc "asc" Reserved,
    Ascii "ascii" Native,
    Authorize "authorize" Reserved,
    Batch "batch" Reserved,
    Begin "begin" Reserved,
    Between "between" Plain,
    Bigint "bigint" Native,
    Blob "blob" Native,
    Boolean "boolean" Native,
    By "by" Reserved,
    Bypass "bypass" Plain,
    Cache "cache" Plain,
    Called "called" Plain,
    Cast "cast" Special,
    Cidrs "cidrs" Plain,
    Cluster "cluster" Plain,
    Clustering "clustering" Plain,
    Columnfamilies "columnfamilies" Plain,
    Columnfamily "columnfamily" Reserved,
    Compact "compact" Plain,
    Contains "contains" Plain,
    Count "count" Special,
    Counter "counter" Native,
    Create "create" Reserved,
    Custom "custom" Plain,
    Datacenters "datacenters" Plain,
    Date "date" Native,
    Decimal "decimal" Native,
    Default "default" Plain,
    Delete "delete" Reserved,
    Desc "desc" Reserved,
    Describe "describe" Reserved,
    Distinct "distinct" Special,
    Double "double" Native,
    Drop "drop" Reserved,
    Duration "duration" Native,
    Entries "entries" Reserved,
    Execute "execute" Reserved,
    Exists "exists" Plain,
    Explain "explain" Plain,
    Filtering "filtering" Plain,
    Finalfunc "finalfunc" Plain,
    Float "float" Native,
    From "from" Reserved,
    Frozen "frozen" Plain,
    Full "full" Reserved,
    Function "function" Plain,
    Functions "functions" Plain,
    Generated "generated" Plain,
    Grant "grant" Reserved,
    Group "group" Plain,
    Hashed "hashed" Plain,
    Identity "identity" Plain,
    If "if" Reserved,
    In "in" Reserved,
    Index "index" Reserved,
    Inet "inet" Native,
    Infinity "infinity" Reserved,
    Initcond "initcond" Plain,
    Input "input" Plain,
    Insert "insert" Reserved,
    Int "int" Native,
    Internals "internals" Plain,
    Into "into" Reserved,
    Is "is" Reserved,
    Json "json" Special,
    Key "key" Special,
    Keys "keys" Plain,
    Keyspace "keyspace" Reserved,
    Keyspaces "keyspaces" Plain,
    Language "language" Plain,
    Like "like" Plain,
    Limit "limit" Reserved,
    List "list" Plain,
    Logged "logged" Plain,
    Login "login" Plain,
    Map "map" Plain,
    Masked "masked" Plain,
    Materialized "materialized" Reserved,
    Maxwritetime "maxwritetime" Special,
    Mbean "mbean" Plain,
    Mbeans "mbeans" Plain,
    Modify "modify" Reserved,
    Nan "nan" Reserved,
    Nologin "nologin" Plain,
    Norecursive "norecursive" Reserved,
    Nosuperuser "nosuperuser" Plain,
    Not "not" Reserved,
    Null "null" Reserved,
    Of "of" Reserved,
    On "on" Reserved,
    Only "only" Plain,
    Options "options" Plain,
    Or "or" Reserved,
    Order "order" Reserved,
    Partition "partition" Plain,
    Password "password" Plain,
    Per "per" Plain,
    Permission "permission" Plain,
    Permissions "permissions" Plain,
    Primary "primary" Reserved,
    Reducefunc "reducefunc" Plain,
    Rename "rename" Reserved,
    Replace "replace" Plain,
    Returns "returns" Plain,
    Revoke "revoke" Reserved,
    Role "role" Plain,
    Roles "roles" Plain,
    Schema "schema" Reserved,
    Select "select" Reserved,
    SelectMasked "select_masked" Plain,
    Set "set" Reserved,
    Sfunc "sfunc" Plain,
    Smallint "smallint" Native,
    Static "static" Plain,
    Storage "storage" Plain,
    Stype "stype" Plain,
    Superuser "superuser" Plain,
    Superusers "superusers" Plain,
    Table "table" Reserved,
    Tables "tables" Plain,
    Text "text" Native,
    Time "time" Native,
    Timeout "timeout" Plain,
    Timestamp "timestamp" Native,
    Timeuuid "timeuuid" Native,
    Tinyint "tinyint" Native,
    To "to" Reserved,
    Token "token" Reserved,
    Trigger "trigger" Plain,
    Truncate "truncate" Reserved,
    Ttl "ttl" Special,
    Tuple "tuple" Plain,
    Type "type" Plain,
    Types "types" Plain,
    Unlogged "unlogged" Reserved,
    Unmask "unmask" Plain,
    Unset "unset" Plain,
    Update "update" Reserved,
    Use "use" Reserved,
    User "user" Plain,
    Users "users" Plain,
    Using "using" Reserved,
    Uuid "uuid" Native,
    Values "values" Plain,
    Varchar "varchar" Native,
    Varint "varint" Native,
    Vector "vector" Plain,
    View "view" Reserved,
    Where "where" Reserved,
    With "with" Reserved,
    Writetime "writetime" Special,
}

/// The longest keyword, in bytes.
const LENGTH_MAX: usize = 14;

impl Keyword {
    /// The keyword `word` spells, in any case.
    pub fn of(word: &str) -> Option<Keyword> {
        let mut lower = [0u8; LENGTH_MAX];
        let lower = lower.get_mut(..word.len())?;
        lower.copy_from_slice(word.as_bytes());
        lower.make_ascii_lowercase();
        let index = TABLE.binary_search_by(|(text, ..)| text.as_bytes().cmp(lower)).ok()?;
        Some(TABLE[index].1)
    }

    /// The word in lower case.
    pub fn text(self) -> &'static str {
        TABLE[self as usize].0
    }

    /// The class, which says where the keyword may stand as a name.
    pub fn class(self) -> Class {
        TABLE[self as usize].2
    }

    /// The token name Cassandra's errors use: `K_FROM`.
    pub fn token_name(self) -> String {
        let word = match self {
            Keyword::Table => "columnfamily",
            Keyword::Schema => "keyspace",
            other => other.text(),
        };
        format!("K_{}", word.to_ascii_uppercase())
    }
}

/// `name` as CQL text: quoted where it must be.
pub fn quoted(name: &str) -> String {
    Name(name).to_string()
}

#[cfg(test)]
mod tests {
    use model::types::RESERVED_WORDS;

    use super::*;

    #[test]
    fn the_table_is_sorted_and_indexed_by_keyword() {
        for (index, (text, keyword, _)) in TABLE.iter().enumerate() {
            assert_eq!(*keyword as usize, index);
            assert!(text.len() <= LENGTH_MAX, "{text}");
            assert!(index == 0 || TABLE[index - 1].0 < *text, "{text}");
        }
    }

    #[test]
    fn the_reserved_words_are_those_that_are_quoted() {
        let reserved = TABLE.iter().filter(|(_, _, class)| *class == Class::Reserved);
        let words: Vec<&str> = reserved.map(|(text, ..)| *text).collect();
        assert_eq!(words, RESERVED_WORDS);
    }

    #[test]
    fn words_are_found_in_any_case() {
        assert_eq!(Keyword::of("SeLecT"), Some(Keyword::Select));
        assert_eq!(Keyword::of("selec"), None);
        assert_eq!(Keyword::of("a_very_long_name_indeed"), None);
        assert_eq!(Keyword::Table.token_name(), "K_COLUMNFAMILY");
    }

    #[test]
    fn names_are_quoted_only_when_needed() {
        assert_eq!(quoted("abc_1"), "abc_1");
        assert_eq!(quoted("key"), "key");
        assert_eq!(quoted("table"), "\"table\"");
        assert_eq!(quoted("Abc"), "\"Abc\"");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
        assert_eq!(quoted(""), "\"\"");
    }
}
