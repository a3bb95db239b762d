"""Drives a CQL server with an unmodified cqlsh: its commands, DESCRIBE, paging, COPY of many rows, TRACING.

    check.py CQLSH HOST PORT

Prints `ok` last; any other end is a failure.
"""

import csv
import pathlib
import re
import sys
import tempfile

from shell import ESCAPE, Shell

KEYSPACE = "driver_cqlsh"
ROWS = 10_000
COLUMNS = ["id", "a_text", "b_double", "c_boolean", "d_timestamp", "e_blob", "f_uuid", "g_decimal"]
TABLE = f"""CREATE TABLE {KEYSPACE}.ships (
    id int PRIMARY KEY, a_text text, b_double double, c_boolean boolean, d_timestamp timestamp,
    e_blob blob, f_uuid uuid, g_decimal decimal)"""


def lines_of(i):
    """Row i as COPY writes it."""
    return [
        str(i), f"ship, \"{i}\" ☃", f"{i / 4:g}", str(i % 2 == 0),
        f"2026-01-{i % 28 + 1:02} 00:00:{i % 60:02}.{i % 1000:03}+0000", f"0x{i:08x}",
        f"00000000-0000-4000-8000-{i:012x}", f"{i}.25",
    ]


def describe(shell):
    """Every form of DESCRIBE, and that its statements make the same table again."""
    assert "system_schema" in shell.run("DESCRIBE KEYSPACES;")
    cluster = shell.run("DESCRIBE CLUSTER;")
    assert "Murmur3Partitioner" in cluster and "Cluster:" in cluster, cluster
    assert "ships" in shell.run(f"USE {KEYSPACE}; DESCRIBE TABLES;")
    table = shell.run(f"DESCRIBE TABLE {KEYSPACE}.ships;")
    for column in COLUMNS:
        assert f" {column} {column.split('_')[-1]}" in table or column == "id", table
    schema = shell.run("DESCRIBE SCHEMA;")
    assert f"CREATE TABLE {KEYSPACE}.ships" in schema, schema
    keyspace = shell.run(f"DESCRIBE KEYSPACE {KEYSPACE};")
    assert f"CREATE KEYSPACE {KEYSPACE} WITH replication" in keyspace, keyspace
    shell.run(f"DROP TABLE {KEYSPACE}.ships; {table}")
    again = shell.run(f"DESCRIBE TABLE {KEYSPACE}.ships;")
    assert again == table, f"{table}\n{again}"


def copy_both_ways(shell, folder):
    """COPY FROM a file, COPY TO another: the same rows."""
    there, back = folder / "there.csv", folder / "back.csv"
    with there.open("w", newline="") as file:
        csv.writer(file, **ESCAPE).writerows(lines_of(i) for i in range(ROWS))
    columns = ", ".join(COLUMNS)
    settings = "DATETIMEFORMAT = '%Y-%m-%d %H:%M:%S.%f%z'"
    said = shell.run(f"COPY {KEYSPACE}.ships ({columns}) FROM '{there}' WITH {settings};")
    assert f"{ROWS} rows imported" in said, said
    said = shell.run(f"COPY {KEYSPACE}.ships ({columns}) TO '{back}' WITH {settings};")
    assert f"{ROWS} rows exported" in said, said
    with back.open(newline="") as file:
        rows = sorted(csv.reader(file, **ESCAPE), key=lambda row: int(row[0]))
    assert len(rows) == ROWS, f"{len(rows)} rows came back"
    for i, row in enumerate(rows):
        assert row == lines_of(i), (row, lines_of(i))


def page(shell):
    """All rows over many pages, and a page cut by hand."""
    said = shell.run(f"PAGING 100; SELECT id, a_text FROM {KEYSPACE}.ships;")
    assert f"({ROWS} rows)" in said, said[-500:]
    ids = {int(number) for number in re.findall(r"^ +(\d+) \|", said, re.MULTILINE)}
    assert ids == set(range(ROWS)), f"{len(ids)} different rows"
    said = shell.run(f"PAGING OFF; SELECT count(*) FROM {KEYSPACE}.ships;")
    assert re.search(rf"^ +{ROWS}$", said, re.MULTILINE), said
    said = shell.run(f"EXPAND ON; SELECT * FROM {KEYSPACE}.ships WHERE id = 7;")
    assert "@ Row 1" in said and 'ship, "7" ☃' in said, said


def trace(shell):
    """A traced statement shows where its time went."""
    said = shell.run(f"TRACING ON; SELECT id FROM {KEYSPACE}.ships WHERE id = 7;")
    assert "Tracing session:" in said and "Request complete" in said, said


def describe_types(shell):
    """User types come before the types and tables that need them, and make themselves again."""
    shell.run(
        f"USE {KEYSPACE}; CREATE TYPE deck (n int);"
        "CREATE TYPE hull (decks list<frozen<deck>>, t tuple<int, text>);"
        "CREATE TABLE yards (y int, d int, s text static, h frozen<hull>, v vector<float, 3>, PRIMARY KEY (y, d))"
        " WITH CLUSTERING ORDER BY (d DESC) AND comment = 'it''s';")
    assert shell.run(f"USE {KEYSPACE}; DESCRIBE TYPES;").split() == ["deck", "hull"]
    hull = shell.run(f"DESCRIBE TYPE {KEYSPACE}.hull;")
    fields = "    decks list<frozen<deck>>,\n    t frozen<tuple<int, text>>\n"
    assert hull == f"\nCREATE TYPE {KEYSPACE}.hull (\n{fields});\n", hull
    keyspace = shell.run(f"DESCRIBE {KEYSPACE};")
    places = [keyspace.index(f"{KEYSPACE}.{name} (") for name in ("deck", "hull", "yards")]
    assert places == sorted(places), keyspace
    yards = shell.run(f"DESCRIBE {KEYSPACE}.yards;")
    for part in ["    s text static,", "    h frozen<hull>,", "    v vector<float, 3>,", "    PRIMARY KEY (y, d)",
                 ") WITH CLUSTERING ORDER BY (d DESC)", "    AND comment = 'it''s'"]:
        assert f"\n{part}\n" in yards, (part, yards)
    said = shell.refuses(f"USE {KEYSPACE}; DESCRIBE TYPE nothing;")
    assert f"User defined type 'nothing' not found in '{KEYSPACE}'" in said, said
    said = shell.refuses(f"DESCRIBE TABLE {KEYSPACE}.nothing;")
    assert f"Table 'nothing' not found in keyspace '{KEYSPACE}'" in said, said
    shell.run(f"DROP TABLE {KEYSPACE}.yards; DROP TYPE {KEYSPACE}.hull; {hull} {yards}")
    assert shell.run(f"DESCRIBE KEYSPACE {KEYSPACE};") == keyspace


def commands(shell, folder):
    """Files of statements, captured output, consistency levels, page sizes."""
    source, capture = folder / "source.cql", folder / "capture.txt"
    source.write_text(
        f"-- a file\nUSE {KEYSPACE};\nCREATE TABLE notes (k int PRIMARY KEY, v text);\n"
        "INSERT INTO notes (k, v) VALUES (1, 'one; -- ☃\n/* two */');\n/* INSERT */\n"
        "BEGIN BATCH INSERT INTO notes (k, v) VALUES (2, 'b'); DELETE FROM notes WHERE k = 3; APPLY BATCH;\n")
    notes = f"SELECT * FROM {KEYSPACE}.notes"
    shell.run(f"SOURCE '{source}'; CAPTURE '{capture}'; {notes}; {notes.replace('*', 'JSON k')};")
    assert capture.read_text().split("\n") == [
        "", " k | v", "---+----------------------", " 1 | one; -- ☃\\n/* two */", " 2 |                    b", "",
        "(2 rows)", "", " [json]", "----------", ' {"k": 1}', ' {"k": 2}', "", "(2 rows)", ""], capture.read_text()
    levels = shell.run(
        "CONSISTENCY QUORUM; CONSISTENCY; SERIAL CONSISTENCY LOCAL_SERIAL; SERIAL CONSISTENCY; PAGING 3; PAGING;"
        f"EXPAND ON; EXPAND; {notes} WHERE k = 2;")
    for part in ["Current consistency level is QUORUM.", "Current serial consistency level is LOCAL_SERIAL.",
                 "Page size: 3", "EXPAND is ON", "@ Row 1\n---+---\n k | 2\n v | b\n"]:
        assert part in levels, (part, levels)
    said = shell.refuses(f"CONSISTENCY THREE; {notes};")
    assert "Cannot achieve consistency level THREE" in said and "'required_replicas\\': 3" in said, said
    said = shell.refuses("SHOW SESSION 00000000-0000-1000-8080-808080808080;")
    assert "Session 00000000-0000-1000-8080-808080808080 wasn't found." in said, said


def refuse(shell):
    """Mistakes are told in the words that people and tools know."""
    assert "SyntaxException" in shell.refuses("SELEC * FROM system.local;")
    said = shell.refuses(f"SELECT * FROM {KEYSPACE}.nowhere;")
    assert "InvalidRequest" in said and "nowhere" in said, said


def main():
    shell = Shell(*sys.argv[1:4])
    shell.run(f"DROP KEYSPACE IF EXISTS {KEYSPACE};")
    shell.run(
        f"CREATE KEYSPACE {KEYSPACE} WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}; " + TABLE + ";")
    describe(shell)
    describe_types(shell)
    with tempfile.TemporaryDirectory() as folder:
        copy_both_ways(shell, pathlib.Path(folder))
        commands(shell, pathlib.Path(folder))
    page(shell)
    trace(shell)
    refuse(shell)
    shell.run(f"DROP KEYSPACE {KEYSPACE};")
    print(shell.run("SHOW VERSION;").strip())
    print("ok")


if __name__ == "__main__":
    main()
