"""Drives a CQL server with an unmodified cqlsh: COPY both ways of every type, and its options.

    copy_types.py CQLSH HOST PORT

A file that COPY TO writes is compared field by field with what is told here, and the table that COPY FROM fills from
it byte by byte with the first one. Where cqlsh itself changes or refuses a value, with any server, a comment says so.
Prints `ok` last; any other end is a failure.
"""

import csv
import pathlib
import re
import sys
import tempfile

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.policies import WhiteListRoundRobinPolicy
from cassandra.protocol import ResultMessage, _ProtocolHandler, read_int
from shell import ESCAPE, Shell

KEYSPACE = "driver_cqlsh_types"
# Digits that tell any two floating-point numbers apart.
EXACT = "FLOATPRECISION = 17 AND DOUBLEPRECISION = 17"
NULL = "<null>"
A, Z = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
ID, TIME_ID = "12345678-1234-4234-8234-123456789abc", "50554d6e-29bb-11e5-b345-feff819cdc9f"
LAST_TIME_ID = "ffffffff-ffff-1fff-7f7f-7f7f7f7f7f7f"

# A type, and three times a literal and what COPY TO makes of it; one text where both are the same.
CELLS = [
    ("ascii", ("'plain'", "plain"), ("' ~!'", " ~!"), ("'a,b;c|d'", "a,b;c|d")),
    ("bigint", "7", "-9223372036854775808", "9223372036854775807"),
    ("blob", "0x00ff", "0x", "0x" + "ab" * 300),
    ("boolean", ("true", "True"), ("false", "False"), ("true", "True")),
    ("date", ("'2026-01-02'", "2026-01-02"), ("'0001-01-01'", "0001-01-01"), ("'9999-12-31'", "9999-12-31")),
    ("decimal", "1.50", "-1E-2147483647", "12345678901234567890.123456789012345678901234567890"),
    ("double", ("0.1", "0.10000000000000001"), ("4.9E-324", "4.9406564584124654e-324"),
     ("-1.7976931348623157E308", "-1.7976931348623157e+308")),
    ("float", ("0.1", "0.100000001490116119"), ("NaN", "NaN"), ("-Infinity", "-Infinity")),
    ("inet", ("'10.0.0.1'", "10.0.0.1"), ("'::'", "::"), ("'2001:DB8:0:0:0:0:FFFF:1'", "2001:db8::ffff:1")),
    ("int", "7", "-2147483648", "2147483647"),
    ("smallint", "7", "-32768", "32767"),
    ("text", ("'two  spaces '", "two  spaces "), ("''", ""), ("'ünï \" '' , ☃ 🚀 日本'", "ünï \" ' , ☃ 🚀 日本")),
    ("time", ("'01:02:03.004005006'", "01:02:03.004005006"), ("'00:00:00'", "00:00:00.000000000"),
     ("'23:59:59.999999999'", "23:59:59.999999999")),
    ("timestamp", ("'2026-01-02 03:04:05.006+0000'", "2026-01-02 03:04:05.006+0000"),
     ("'1900-01-01 00:00:00.000+0000'", "1900-01-01 00:00:00.000+0000"),
     ("253402300799000", "9999-12-31 23:59:59.000+0000")),
    ("timeuuid", TIME_ID, "00000000-0000-1000-8080-808080808080", LAST_TIME_ID),
    ("tinyint", "7", "-128", "127"),
    ("uuid", ID, A, Z),
    ("varchar", ("'v'", "v"), ("'null'", "null"), ("$$it's$$", "it's")),
    ("varint", "7", "-170141183460469231731687303715884105729", "1" + "0" * 60),
    ("list<text>", "['b', 'a', 'b']", "['']", "['it''s', 'a, b', '[x]', '{y: 1}']"),
    ("list<time>", ("['01:02:03.004']", "[01:02:03.004000000]"), ("[]", NULL),
     ("['23:59:59.999999999', '00:00:00']", "[23:59:59.999999999, 00:00:00.000000000]")),
    ("set<int>", ("{3, 1, 2}", "{1, 2, 3}"), "{-2147483648}", ("{2147483647, 0}", "{0, 2147483647}")),
    ("set<decimal>", ("{1.50, -2}", "{-2, 1.50}"), "{0}", ("{1E+40, 1.10}", "{1.10, 1E+40}")),
    ("map<text, bigint>", "{'a': 1}", "{'': -9223372036854775808}", "{'k: v, ': 1, 'ü': 9223372036854775807}"),
    ("map<timeuuid, timestamp>", f"{{{TIME_ID}: '2026-01-02 03:04:05.006+0000'}}", ("{}", NULL),
     f"{{{TIME_ID}: '1969-12-31 23:59:59.999+0000'}}"),
    ("map<date, varint>", ("{'2026-01-02': 1}", "{2026-01-02: 1}"), ("{'0001-01-01': -128}", "{0001-01-01: -128}"),
     ("{'9999-12-31': 128, '1969-12-31': 0}", "{1969-12-31: 0, 9999-12-31: 128}")),
    ("frozen<list<double>>", ("[1.5, -0.0]", "[1.5, -0]"), "[]",
     ("[1.7976931348623157E308, 4.9E-324]", "[1.7976931348623157e+308, 4.9406564584124654e-324]")),
    ("frozen<set<inet>>", "{'10.0.0.1'}", "{}", ("{'::1', '1.2.3.4'}", "{'1.2.3.4', '::1'}")),
    ("frozen<map<uuid, boolean>>", (f"{{{ID}: true}}", f"{{{ID}: True}}"), "{}",
     (f"{{{Z}: true, {A}: false}}", f"{{{A}: False, {Z}: True}}")),
    ("list<frozen<map<int, frozen<set<text>>>>>", "[{1: {'a', 'b'}}, {2: {}}]", "[{}]",
     ("[{1: {'x:y', 'a,b'}, -1: {''''}}]", "[{-1: {''''}, 1: {'a,b', 'x:y'}}]")),
    ("map<frozen<tuple<int, text>>, frozen<list<blob>>>", "{(1, 'a'): [0x00]}", "{(-1, ''): []}",
     "{(2, 'x,y'): [0x, 0xff]}"),
    ("list<frozen<point>>", "[{x: 1, y: 'a', z: [1.5]}]", "[{x: -1, y: '', z: []}]",
     "[{x: 2, y: 'b, c: d', z: [2, 3]}]"),
    ("map<text, frozen<pair>>", "{'n': {p: {x: 1, y: 'a', z: [1.5]}, m: {'k': {1, 2}}}}", ("{}", NULL),
     ("{'n': {p: {x: 1, y: 'a', z: [1.5]}}}", "{'n': {p: {x: 1, y: 'a', z: [1.5]}, m: <null>}}")),
    ("point", "{x: 1, y: 'a', z: [1.5, 2]}", ("{x: 2}", "{x: 2, y: <null>, z: <null>}"),
     ("{y: 'it''s', z: []}", "{x: <null>, y: 'it''s', z: []}")),
    ("frozen<pair>", "{p: {x: 1, y: 'a', z: [1.5]}, m: {'k': {1, 2}}}", ("{m: {}}", "{p: <null>, m: {}}"),
     ("{p: {x: null, y: 'z'}}", "{p: {x: <null>, y: 'z', z: <null>}, m: <null>}")),
    ("tuple<int, text, frozen<list<double>>>", "(1, 'a', [1.5])", "(-1, '', [])", "(2, 'x, y', [0.25])"),
    ("vector<float, 3>", "[1, 2.5, -3]", "[0, 0, 0]",
     ("[3.4028235E38, 1.4E-45, -0.5]", "[3.4028234663852886e+38, 1.4012984643248171e-45, -0.5]")),
    ("vector<bigint, 2>", "[1, 2]", "[-9223372036854775808, 0]", "[9223372036854775807, 1]"),
    ("vector<text, 2>", "['a', 'b']", "['', '']", "['x, y', 'it''s']"),
    ("frozen<list<vector<int, 2>>>", "[[1, 2], [3, 4]]", "[]", "[[0, 0]]"),
]
# What COPY FROM takes only without prepared statements: durations. It reads no `0s`, which COPY TO writes as nothing.
DURATIONS = [
    ("duration", ("1y2mo3w4d5h6m7s8ms9us10ns", "1y2mo25d5h6m7s8ms9us10ns"), "-1ns",
     ("-2147483647mo2147483647d9223372036854775807ns", "-178956970y7mo2147483647d2562047h47m16s854ms775us807ns")),
    ("list<duration>", "[1mo, 2d]", ("[]", NULL), "[-1mo2d3ns]"),
]
# What COPY FROM cannot take back from COPY TO: a backslash is doubled and a line feed becomes two letters; a time in a
# map is split at its colons; a null inside a tuple is no value; there are dates that Python does not have.
ONE_WAY = [
    ("text", (r"'back \ slash'", r"back \\ slash"), ("'two\nlines\ttab'", r"two\nlines\ttab"), ("'\u0001'", r"\x01")),
    ("map<date, time>", ("{'2026-01-02': '01:02:03'}", "{2026-01-02: 01:02:03.000000000}"), ("{}", NULL),
     ("null", NULL)),
    ("tuple<int, text>", ("(null, 'a')", "(None, 'a')"), ("(null, '')", "(None, '')"), ("null", NULL)),
    ("date", ("'-5877641-06-23'", "-2147483648"), ("'+5881580-07-11'", "2147483647"), ("'1970-01-01'", "1970-01-01")),
    ("timestamp", ("253402300800000", "253402300800000"), ("-62135596800001", "-62135596800001"),
     ("0", "1970-01-01 00:00:00.000+0000")),
    ("duration", ("0s", ""), ("1d", "1d"), ("null", NULL)),
]
ROWS = 3


def literal(cell):
    """The CQL of a value."""
    return cell if isinstance(cell, str) else cell[0]


def exported(cell):
    """What COPY TO writes for a value."""
    return cell if isinstance(cell, str) else cell[1]


def names(cells):
    """Names of columns; the third has to be quoted."""
    return [f"c{i}" if i != 2 else '"Mixed, Case"' for i in range(len(cells))]


class RawResult(ResultMessage):
    """A result whose values stay as the bytes that came."""

    def recv_results_rows(self, f, protocol_version, user_type_map, result_metadata, column_encryption_policy):
        self.recv_results_metadata(f, user_type_map)
        columns = self.column_metadata or result_metadata
        self.column_names = [column[2] for column in columns]
        self.column_types = [column[3] for column in columns]
        self.parsed_rows = [tuple(self.recv_row(f, len(columns))) for _ in range(read_int(f))]


class RawProtocol(_ProtocolHandler):
    """The driver's protocol with raw results."""

    message_types_by_opcode = {**_ProtocolHandler.message_types_by_opcode, ResultMessage.opcode: RawResult}


class Copier(Shell):
    """A cqlsh that copies, and beside it the driver for the bytes of a table."""

    def __init__(self, program, host, port, folder):
        super().__init__(program, host, port, folder)
        profile = ExecutionProfile(request_timeout=60, load_balancing_policy=WhiteListRoundRobinPolicy([host]))
        self.cluster = Cluster([host], port=int(port), execution_profiles={EXEC_PROFILE_DEFAULT: profile})
        self.session = self.cluster.connect()
        self.session.client_protocol_handler = RawProtocol

    def source(self, statements):
        """Runs the statements of a file."""
        file = self.folder / "statements.cql"
        file.write_text(statements)
        self.run(f"USE {KEYSPACE}; SOURCE '{file}';")

    def copy_to(self, table, columns, settings):
        """COPY TO; gives the file, and how many rows cqlsh tells of."""
        file = self.folder / f"{table}.csv"
        said = self.run(f"COPY {KEYSPACE}.{table} ({', '.join(columns)}) TO '{file}' WITH {settings};")
        return file, int(re.search(r"(\d+) rows exported", said)[1])

    def copy_from(self, file, table, columns, settings):
        """COPY FROM; gives how many rows cqlsh tells of. One that is not taken fails."""
        said = self.run(f"COPY {KEYSPACE}.{table} ({', '.join(columns)}) FROM '{file}' WITH {settings};")
        assert "(0 skipped)" in said, said
        return int(re.search(r"(\d+) rows imported", said)[1])

    def rows(self, table, columns):
        """All rows of a table in bytes, by their keys."""
        found = self.session.execute(f"SELECT {', '.join(columns)} FROM {KEYSPACE}.{table}", timeout=60)
        return {row[:2]: row for row in found}


def create(shell, table, cells):
    """A table with a column of each type, and a row for each value besides one of nulls."""
    columns = ", ".join(f"{name} {cell[0]}" for name, cell in zip(names(cells), cells))
    statements = [
        f"CREATE TABLE {table}{suffix} (k int, r timestamp, s text static, {columns}, PRIMARY KEY (k, r)) "
        "WITH CLUSTERING ORDER BY (r DESC);" for suffix in ("", "_again")]
    for row in range(ROWS):
        values = ", ".join(literal(cell[row + 1]) for cell in cells)
        statements.append(
            f"INSERT INTO {table} (k, r, s, {', '.join(names(cells))}) VALUES ({row}, {row}, 's{row}', {values});")
    statements.append(f"INSERT INTO {table} (k, r) VALUES ({ROWS}, {ROWS});")
    shell.source("\n".join(statements))


def expected(cells):
    """The fields of all rows as COPY TO writes them."""
    rows = [[f"{row}", f"1970-01-01 00:00:00.00{row}+0000", f"s{row}", *(exported(cell[row + 1]) for cell in cells)]
            for row in range(ROWS)]
    rows.append([f"{ROWS}", f"1970-01-01 00:00:00.00{ROWS}+0000", *([NULL] * (len(cells) + 1))])
    return rows


def fields(file, **dialect):
    """The fields of a file, without and with its header."""
    with file.open(newline="") as lines:
        header, *rows = csv.reader(lines, **ESCAPE, **dialect)
    return header, sorted(rows)


def same(table, columns, came, told):
    """Asserts that rows are those told, and names the first column that differs."""
    assert len(came) == len(told), f"{table}: {len(came)} rows, not {len(told)}"
    for got, want in zip(came, told):
        for name, value, wanted in zip(columns, got, want, strict=True):
            assert value == wanted, f"{table}, row {want[0]!r}, {name}: {value!r}, not {wanted!r}"


def both_ways(shell, table, cells, prepared):
    """COPY TO writes what is told, and COPY FROM makes the same bytes of it."""
    create(shell, table, cells)
    columns = ["k", "r", "s", *names(cells)]
    settings = f"HEADER = TRUE AND NULL = '{NULL}'"
    file, count = shell.copy_to(table, columns, f"{settings} AND {EXACT}")
    assert count == ROWS + 1, count
    header, rows = fields(file)
    assert header == [name.strip('"') for name in columns], header
    same(table, columns, rows, expected(cells))
    if prepared is None:
        return
    if not prepared:
        settings += " AND PREPAREDSTATEMENTS = FALSE"
    count = shell.copy_from(file, f"{table}_again", columns, f"{settings} AND CHUNKSIZE = 1")
    assert count == ROWS + 1, count
    first, again = shell.rows(table, columns), shell.rows(f"{table}_again", columns)
    same(f"{table}_again", columns, *[[rows[key] for key in sorted(first)] for rows in (again, first)])


def options(shell):
    """What COPY's options change, in both ways."""
    columns = ["a", "b", "n", "d", "y", "t"]
    table = "(a text, b text, n bigint, d double, y boolean, t timestamp, PRIMARY KEY ((a, b)));"
    insert = "INSERT INTO o (a, b, n, d, y, t) VALUES "
    values = [f"('a{i:03}', 'x;|{i}', {i * 1000}, {i}.5, {i % 2 == 0}, {i * 1000});" for i in range(200)]
    values.append("('empty', '', null, null, null, null);")
    shell.source(f"CREATE TABLE o {table} CREATE TABLE o_again {table}" + "".join(insert + value for value in values))
    settings = ("HEADER = TRUE AND DELIMITER = ';' AND QUOTE = '|' AND NULL = 'nichts' AND BOOLSTYLE = 'ja,nein' "
                "AND DECIMALSEP = ',' AND THOUSANDSSEP = '.' AND DATETIMEFORMAT = '%d/%m/%Y %H:%M:%S %z'")
    file, count = shell.copy_to("o", columns, f"{settings} AND PAGESIZE = 7 AND PAGETIMEOUT = 30 AND NUMPROCESSES = 2")
    assert count == 201, count
    _, rows = fields(file, delimiter=";", quotechar="|")
    told = [[f"a{i:03}", f"x;|{i}", f"{i * 1000:,}".replace(",", "."), f"{i},5", "ja" if i % 2 == 0 else "nein",
             f"01/01/1970 00:{i // 60:02}:{i % 60:02} +0000"] for i in range(200)]
    same("o", columns, rows, [*told, ["empty", "", *["nichts"] * 4]])
    pace = "CHUNKSIZE = 50 AND MAXBATCHSIZE = 3 AND INGESTRATE = 5000"
    count = shell.copy_from(file, "o_again", columns, f"{settings} AND {pace}")
    assert count == 201, count
    first, again = shell.rows("o", columns), shell.rows("o_again", columns)
    same("o_again", columns, *[[rows[key] for key in sorted(first)] for rows in (again, first)])
    # Some rows and some columns, with a time to live.
    shell.run(f"TRUNCATE {KEYSPACE}.o_again;")
    part = "MAXROWS = 20 AND SKIPCOLS = 'd,y' AND TTL = 5000"
    count = shell.copy_from(file, "o_again", columns, f"{settings} AND {part}")
    assert count == 20, count
    rows = shell.rows("o_again", ["a", "b", "d", "y", "ttl(t)"]).values()
    assert all(row[2:4] == (None, None) for row in rows), rows
    lives = [int.from_bytes(row[4]) for row in rows if row[4]]
    assert len(rows) == 20 and len(lives) >= 19 and all(4900 < life <= 5000 for life in lives), lives


def standard_output(shell):
    """COPY TO and FROM the standard streams, and an empty text that is a null by default."""
    shell.source("CREATE TABLE p (k int PRIMARY KEY, v text);")
    shell.run(f"COPY {KEYSPACE}.p (k, v) FROM STDIN;\n1,one\n2,\n3,\"a,b\"\n.\n")
    said = shell.run(f"COPY {KEYSPACE}.p (k, v) TO STDOUT;")
    lines = [line for line in said.splitlines() if re.match(r"\d,", line)]
    assert sorted(lines) == ["1,one", "2,", '3,"a,b"'], said
    assert shell.rows("p", ["k", "v"])[(b"\0\0\0\2", None)] == (b"\0\0\0\2", None), "an empty field is no null"


def counters(shell):
    """COPY FROM adds to counters."""
    shell.run(f"CREATE TABLE {KEYSPACE}.n (k int PRIMARY KEY, hits counter);")
    shell.source(
        "CREATE TABLE n_again (k int PRIMARY KEY, hits counter);"
        "UPDATE n SET hits = hits + 9223372036854775807 WHERE k = 1; UPDATE n SET hits = hits - 5 WHERE k = 2;")
    file, count = shell.copy_to("n", ["k", "hits"], "HEADER = FALSE")
    assert count == 2 and sorted(file.read_text().split()) == ["1,9223372036854775807", "2,-5"], file.read_text()
    for times in (1, 2):
        count = shell.copy_from(file, "n_again", ["k", "hits"], "HEADER = FALSE AND MAXATTEMPTS = 1")
        assert count == 2, count
        hits = set(shell.rows("n_again", ["k", "hits"]))
        assert (b"\0\0\0\2", (-5 * times).to_bytes(8, signed=True)) in hits, hits


def main():
    with tempfile.TemporaryDirectory() as folder:
        shell = Copier(*sys.argv[1:4], pathlib.Path(folder))
        shell.run(f"DROP KEYSPACE IF EXISTS {KEYSPACE}; CREATE KEYSPACE {KEYSPACE} WITH replication = "
                  "{'class': 'SimpleStrategy', 'replication_factor': 1};")
        shell.source("CREATE TYPE point (x int, y text, z frozen<list<double>>);"
                     "CREATE TYPE pair (p frozen<point>, m frozen<map<text, frozen<set<int>>>>);")
        both_ways(shell, "every", CELLS, True)
        both_ways(shell, "durations", DURATIONS, False)
        both_ways(shell, "one_way", ONE_WAY, None)
        options(shell)
        standard_output(shell)
        counters(shell)
        shell.run(f"DROP KEYSPACE {KEYSPACE};")
        shell.cluster.shutdown()
    print(f"{len(CELLS) + len(DURATIONS) + len(ONE_WAY)} columns, counters")
    print("ok")


if __name__ == "__main__":
    main()
