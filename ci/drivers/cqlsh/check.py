"""Drives a CQL server with an unmodified cqlsh: DESCRIBE, paging, COPY both ways, TRACING.

    check.py CQLSH HOST PORT

Prints `ok` last; any other end is a failure.
"""

import csv
import pathlib
import re
import subprocess
import sys
import tempfile

# How cqlsh writes a quote inside quotes.
ESCAPE = {"doublequote": False, "escapechar": "\\"}
KEYSPACE = "driver_cqlsh"
ROWS = 10_000
COLUMNS = ["id", "a_text", "b_double", "c_boolean", "d_timestamp", "e_blob", "f_uuid", "g_decimal"]
TABLE = f"""CREATE TABLE {KEYSPACE}.ships (
    id int PRIMARY KEY, a_text text, b_double double, c_boolean boolean, d_timestamp timestamp,
    e_blob blob, f_uuid uuid, g_decimal decimal)"""


class Shell:
    """A cqlsh against one server."""

    def __init__(self, program, host, port):
        self.command = [program, host, port, "--request-timeout=60", "--no-color"]

    def run(self, statements, *flags):
        """What one cqlsh prints for some statements; it must not fail or print an error."""
        result = subprocess.run(
            [*self.command, *flags], input=statements, text=True, capture_output=True, timeout=300)
        assert result.returncode == 0, f"{statements}\n{result.stdout}{result.stderr}"
        # cqlsh warns on its output of a server that is not exactly the version it was built for.
        return re.sub(r"^WARNING: cqlsh was built against.*\n", "", result.stdout)

    def refuses(self, statements):
        """What cqlsh prints for statements that must fail."""
        result = subprocess.run(
            self.command, input=statements, text=True, capture_output=True, timeout=300)
        assert result.returncode != 0, f"{statements} was accepted"
        return result.stdout + result.stderr


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
    with tempfile.TemporaryDirectory() as folder:
        copy_both_ways(shell, pathlib.Path(folder))
    page(shell)
    trace(shell)
    refuse(shell)
    shell.run(f"DROP KEYSPACE {KEYSPACE};")
    print(shell.run("SHOW VERSION;").strip())
    print("ok")


if __name__ == "__main__":
    main()
