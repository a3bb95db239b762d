"""Drives a CQL server with the Python driver, Apache's or ScyllaDB's: schema, 10,000 rows, paging.

    check.py HOST PORT PROTOCOL [lz4]

With ScyllaDB's driver and a server that advertises shards it also asserts one connection a shard.
Prints `ok` last; any other end is a failure.
"""

import datetime
import decimal
import importlib.metadata
import ipaddress
import logging
import re
import struct
import sys
import time
import uuid

from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.policies import WhiteListRoundRobinPolicy
from cassandra.util import Date, Duration, Time

ROWS = 10_000
PAGE_ROWS = 500
BUCKETS = 100
TYPES = [
    "ascii", "bigint", "blob", "boolean", "date", "decimal", "double", "duration", "float", "inet",
    "int", "smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid", "varchar",
    "varint",
]
KEYSPACE = "driver_python"


def row(i):
    """The values of row i, one for each of TYPES."""
    middle = i - ROWS // 2
    address = ipaddress.ip_address(f"10.0.{i // 256}.{i % 256}" if i % 2 else f"2001:db8::{i:x}")
    return [
        f"ascii-{i}",
        {0: -(2**63), 1: 2**63 - 1}.get(i, middle * 1_000_003),
        bytes((i + k) % 256 for k in range(i % 50)),
        i % 2 == 0,
        Date(middle),
        decimal.Decimal(middle * 10**10 + 7).scaleb(-(i % 10)),
        {0: float("-inf"), 1: -0.0}.get(i, i / 7),
        Duration(i % 13, i % 31, i * 1_000_000),
        i / 4,
        str(address),
        middle * 400_000,
        middle,
        f"tèxt ☃ {i}",
        Time(i * 7_919_000_001 % 86_400_000_000_000),
        datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=middle * 86_400_123),
        uuid.UUID(fields=(i, 0xABCD, 0x11EE, 0x80, 1, 0x123456789ABC)),
        i % 256 - 128,
        uuid.UUID(int=i << 90 | 0x4000 << 64 | 0x8000 << 48),
        None if i % 10 == 9 else "x" * (i % 300),
        middle * 10**25,
    ]


def exact(value):
    """A value so that == tells minus zero from zero, and 1.50 from 1.5."""
    if isinstance(value, float):
        return struct.pack("d", value)
    return value.as_tuple() if isinstance(value, decimal.Decimal) else value


def connect(host, port, protocol, compression):
    """A session that talks to this one server."""
    profile = ExecutionProfile(
        request_timeout=60, load_balancing_policy=WhiteListRoundRobinPolicy([host]))
    cluster = Cluster(
        [host], port=port, protocol_version=protocol, compression=compression,
        execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    return cluster, cluster.connect()


def create(cluster, session):
    """Creates the keyspace and the table, and sees them in the driver's metadata."""
    assert "local" in cluster.metadata.keyspaces["system"].tables, "the driver sees no schema"
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    session.execute(
        f"CREATE KEYSPACE {KEYSPACE} WITH replication = "
        "{'class': 'SimpleStrategy', 'replication_factor': 1}")
    columns = ", ".join(f"c_{name} {name}" for name in TYPES)
    session.execute(
        f"CREATE TABLE {KEYSPACE}.everything (bucket int, id bigint, {columns}, "
        "PRIMARY KEY (bucket, id)) WITH CLUSTERING ORDER BY (id DESC)")
    table = cluster.metadata.keyspaces[KEYSPACE].tables["everything"]
    seen = {name: column.cql_type for name, column in table.columns.items()}
    told = {f"c_{name}": "text" if name == "varchar" else name for name in TYPES}
    assert seen == {"bucket": "int", "id": "bigint", **told}, seen
    assert [c.name for c in table.clustering_key] == ["id"] and table.columns["id"].is_reversed


def write(session):
    """Writes all rows by one prepared statement."""
    names = ", ".join(f"c_{name}" for name in TYPES)
    marks = ", ".join("?" * (len(TYPES) + 2))
    insert = session.prepare(
        f"INSERT INTO {KEYSPACE}.everything (bucket, id, {names}) VALUES ({marks})")
    rows = ([i % BUCKETS, i, *row(i)] for i in range(ROWS))
    for success, error in execute_concurrent_with_args(session, insert, rows, concurrency=100):
        assert success, error


def read(session):
    """Pages all rows back and checks every value."""
    names = ", ".join(f"c_{name}" for name in TYPES)
    select = session.prepare(f"SELECT bucket, id, {names} FROM {KEYSPACE}.everything")
    select.fetch_size = PAGE_ROWS
    found, last = set(), {}
    result = session.execute(select)
    pages = 1
    while True:
        for bucket, i, *values in result.current_rows:
            assert bucket == i % BUCKETS and i not in found, (bucket, i)
            assert i < last.get(bucket, ROWS), "rows of a partition are out of order"
            assert [*map(exact, values)] == [*map(exact, row(i))], (i, values, row(i))
            found.add(i)
            last[bucket] = i
        if not result.has_more_pages:
            break
        result.fetch_next_page()
        pages += 1
    assert len(found) == ROWS, f"{len(found)} rows came back"
    assert pages >= ROWS // PAGE_ROWS, f"{pages} pages"


def check_shards(cluster, log):
    """Asserts one connection a shard, if the server advertises shards and the driver knows them."""
    stats = getattr(cluster, "shard_aware_stats", lambda: None)()
    if not stats:
        return "no shards advertised"
    shards = next(iter(stats.values()))["shards_count"]
    expected = sorted(range(shards))
    deadline = time.time() + 20
    while sorted(shards_in(log)) != expected and time.time() < deadline:
        time.sleep(0.1)
    assert sorted(shards_in(log)) == expected, f"connections to shards {sorted(shards_in(log))}"
    wrong = [line for line in log if "excess pool" in line or "disabling advanced" in line]
    assert not wrong, f"a source port did not lead to its shard: {wrong}"
    return f"one connection to each of {shards} shards"


def shards_in(log):
    """The shards of the connections that the driver's log tells of."""
    told = re.compile(r"(?:First|New) connection .*created to .*shard_id=(\d+)")
    return [int(match[1]) for match in map(told.search, log) if match]


class Lines(logging.Handler):
    """Keeps the driver's log."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def main():
    host, port, protocol = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    compression = sys.argv[4] if len(sys.argv) > 4 else False
    log = Lines()
    logging.getLogger("cassandra").addHandler(log)
    logging.getLogger("cassandra").setLevel(logging.DEBUG)
    cluster, session = connect(host, port, protocol, compression)
    used = next(iter(session.get_pools())).get_connections()[0]
    assert cluster.protocol_version == protocol, cluster.protocol_version
    assert not compression or used.compressor, "the server does not offer the compression"
    create(cluster, session)
    write(session)
    read(session)
    shards = check_shards(cluster, log.lines)
    session.execute(f"DROP KEYSPACE {KEYSPACE}")
    assert KEYSPACE not in cluster.metadata.keyspaces, "the driver did not see the drop"
    cluster.shutdown()
    driver = [name for name in ("scylla-driver", "cassandra-driver") if installed(name)][0]
    print(f"{driver} {importlib.metadata.version(driver)}, protocol {protocol}, {shards}")
    print("ok")


def installed(name):
    """True if a package is there."""
    try:
        return bool(importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return False


if __name__ == "__main__":
    main()
