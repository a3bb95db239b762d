"""Drives a CQL server with cqlengine, the models of Apache's Python driver.

    models.py HOST PORT PROTOCOL

Every column type; tables and types that are made, and made wider, from classes; what changes parts of collections;
static columns, times to live, timestamps, batches; filters, orders, limits, pages; conditional writes, which a server
either does or refuses by name. Prints `ok` last; any other end is a failure.
"""

import datetime
import decimal
import math
import os
import sys
import time
import uuid

os.environ["CQLENG_ALLOW_SCHEMA_MANAGEMENT"] = "1"

from cassandra import InvalidRequest  # noqa: E402
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile  # noqa: E402
from cassandra.cqlengine import columns, connection, functions, management  # noqa: E402
from cassandra.cqlengine.models import Model  # noqa: E402
from cassandra.cqlengine.query import BatchQuery, LWTException  # noqa: E402
from cassandra.cqlengine.usertype import UserType  # noqa: E402
from cassandra.policies import WhiteListRoundRobinPolicy  # noqa: E402
from cassandra.query import dict_factory  # noqa: E402
from cassandra.util import Date, Duration, Time  # noqa: E402

KEYSPACE = "driver_cqlengine"
LEAST_ID, MOST_ID = uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)
TIME_ID = uuid.UUID("50554d6e-29bb-11e5-b345-feff819cdc9f")


class Point(UserType):
    """A user type in a user type."""

    __keyspace__ = KEYSPACE
    x = columns.Integer()
    y = columns.Text()


class Shape(UserType):
    """A user type with collections of another."""

    __keyspace__ = KEYSPACE
    name = columns.Text()
    points = columns.List(columns.UserDefinedType(Point))
    sizes = columns.Map(columns.Text, columns.Double)


class Every(Model):
    """A column of every type that cqlengine knows."""

    __keyspace__ = KEYSPACE
    __table_name__ = "every"
    id = columns.Integer(primary_key=True)
    a_ascii = columns.Ascii()
    a_bigint = columns.BigInt()
    a_blob = columns.Blob()
    a_boolean = columns.Boolean()
    a_date = columns.Date()
    a_decimal = columns.Decimal()
    a_double = columns.Double()
    a_duration = columns.Duration()
    a_float = columns.Float()
    a_inet = columns.Inet()
    a_int = columns.Integer()
    a_smallint = columns.SmallInt()
    a_text = columns.Text()
    a_time = columns.Time()
    a_timestamp = columns.DateTime()
    a_timeuuid = columns.TimeUUID()
    a_tinyint = columns.TinyInt()
    a_uuid = columns.UUID()
    a_varint = columns.VarInt()
    a_list = columns.List(columns.Text)
    a_set = columns.Set(columns.Inet)
    a_map = columns.Map(columns.Date, columns.Decimal)
    a_nest = columns.Map(columns.Text, columns.List(columns.Set(columns.Integer)))
    a_tuple = columns.Tuple(columns.Integer, columns.Text, columns.List(columns.UUID))
    a_type = columns.UserDefinedType(Shape)
    a_types = columns.List(columns.UserDefinedType(Point))


DAY = datetime.datetime(2026, 1, 2, 3, 4, 5, 6000)
PLAIN = {
    "a_ascii": "plain ~", "a_bigint": 2**62, "a_blob": b"\0\xff", "a_boolean": True, "a_date": Date(20455),
    "a_decimal": decimal.Decimal("1.5"), "a_double": 0.1, "a_duration": Duration(1, 2, 3), "a_float": 0.5,
    "a_inet": "10.0.0.1", "a_int": 7, "a_smallint": -7, "a_text": "tèxt ' \" ☃ 🚀", "a_time": Time(3723004005006),
    "a_timestamp": DAY, "a_timeuuid": TIME_ID, "a_tinyint": 7, "a_uuid": uuid.UUID(int=5 << 96), "a_varint": 10**40,
    "a_list": ["b", "", "b"], "a_set": {"10.0.0.1", "2001:db8::1"},
    "a_map": {Date(0): decimal.Decimal("-1E+10"), Date(-719162): decimal.Decimal("0")},
    "a_nest": {"k": [{1, 2}, set()], "": []}, "a_tuple": (1, "x", [LEAST_ID, MOST_ID]),
    "a_type": Shape(name="s", points=[Point(x=1, y="a"), Point(x=None, y="")], sizes={"w": -0.0}),
    "a_types": [Point(x=-1, y=None)],
}
LEAST = {
    "a_ascii": "", "a_bigint": -2**63, "a_blob": b"", "a_boolean": False, "a_date": Date(-2**31),
    "a_decimal": decimal.Decimal("-1.25"), "a_double": -math.inf, "a_duration": Duration(-2**31 + 1, -1, -2**62),
    "a_float": -3.4028234663852886e38, "a_inet": "::", "a_int": -2**31, "a_smallint": -2**15, "a_text": "",
    "a_time": Time(0), "a_timestamp": datetime.datetime(1, 1, 1),
    "a_timeuuid": uuid.UUID("00000000-0000-1000-8080-808080808080"), "a_tinyint": -2**7, "a_uuid": LEAST_ID,
    "a_varint": -2**127 - 1, "a_tuple": (None, None, []), "a_type": Shape(name=None, points=[], sizes={}),
}
MOST = {
    "a_ascii": "z" * 1000, "a_bigint": 2**63 - 1, "a_blob": b"\xff" * 70_000, "a_boolean": True,
    "a_date": Date(2**31 - 1), "a_decimal": decimal.Decimal("1E+60"), "a_double": 1.7976931348623157e308,
    "a_duration": Duration(2**31 - 1, 1, 2**63 - 1),
    "a_float": 3.4028234663852886e38, "a_inet": "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "a_int": 2**31 - 1,
    "a_smallint": 2**15 - 1, "a_text": "日" * 1000, "a_time": Time(86_399_999_999_999),
    "a_timestamp": datetime.datetime(9999, 12, 31),
    "a_timeuuid": uuid.UUID("ffffffff-ffff-1fff-bf7f-7f7f7f7f7f7f"), "a_tinyint": 2**7 - 1,
    "a_uuid": MOST_ID, "a_varint": 2**200, "a_list": ["x"] * 1000, "a_set": {f"10.0.{n // 256}.{n % 256}" for n in range(300)},
    "a_types": [Point(x=n, y=str(n)) for n in range(100)],
}


class Log(Model):
    """Partitions of rows with a static column and parts that change."""

    __keyspace__ = KEYSPACE
    __table_name__ = "log"
    __options__ = {"compaction": {"class": "LeveledCompactionStrategy", "sstable_size_in_mb": "64"},
                   "default_time_to_live": 86400, "gc_grace_seconds": 3600, "comment": "it's a log"}
    day = columns.Text(partition_key=True)
    part = columns.Integer(partition_key=True)
    at = columns.Integer(primary_key=True, clustering_order="DESC")
    seq = columns.Integer(primary_key=True)
    owner = columns.Text(static=True)
    text = columns.Text(db_field="the text")
    level = columns.Integer(default=lambda: 3)
    steps = columns.List(columns.Integer)
    tags = columns.Set(columns.Text)
    marks = columns.Map(columns.Text, columns.Integer)


class Narrow(Model):
    """A table before it grew."""

    __keyspace__ = KEYSPACE
    __table_name__ = "grows"
    id = columns.Integer(primary_key=True)
    old = columns.Text()


class Wide(Model):
    """The same table after it grew."""

    __keyspace__ = KEYSPACE
    __table_name__ = "grows"
    __options__ = {"gc_grace_seconds": 4711}
    id = columns.Integer(primary_key=True)
    old = columns.Text()
    new = columns.Map(columns.Integer, columns.Text)
    newer = columns.Duration()


class SmallType(UserType):
    """A type before it grew."""

    __keyspace__ = KEYSPACE
    __type_name__ = "growing"
    a = columns.Integer()


class LargeType(UserType):
    """The same type after it grew."""

    __keyspace__ = KEYSPACE
    __type_name__ = "growing"
    a = columns.Integer()
    b = columns.Set(columns.Text)


class Vehicle(Model):
    """Two models in one table, told apart by a column."""

    __keyspace__ = KEYSPACE
    __table_name__ = "vehicles"
    id = columns.Integer(primary_key=True)
    kind = columns.Text(discriminator_column=True)


class Ship(Vehicle):
    """One of them."""

    __discriminator_value__ = "ship"
    masts = columns.Integer()


class Cart(Vehicle):
    """The other one."""

    __discriminator_value__ = "cart"
    wheels = columns.SmallInt()


def equal(came, told, what):
    """Asserts that a value is the one told, with its type: 1 is not True."""
    assert came == told and repr(came) == repr(told), f"{what}: {came!r}, not {told!r}"


def plain(value):
    """A value of cqlengine as Python's own, to be compared. Decimals lose their scale: the driver writes doubles."""
    if isinstance(value, decimal.Decimal):
        return decimal.Context(prec=2000).normalize(value)
    if isinstance(value, UserType):
        return {name: plain(field) for name, field in value.items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, list):
        return list(map(plain, value))
    if isinstance(value, (set, frozenset)) or type(value).__name__ == "SortedSet":
        return sorted(map(plain, value))
    if hasattr(value, "items"):
        return dict(sorted((key, plain(part)) for key, part in value.items()))
    return value


def connect(host, port, protocol):
    """cqlengine's default connection to this one server."""
    profile = ExecutionProfile(
        request_timeout=60, load_balancing_policy=WhiteListRoundRobinPolicy([host]), row_factory=dict_factory)
    cluster = Cluster([host], port=port, protocol_version=protocol, execution_profiles={EXEC_PROFILE_DEFAULT: profile})
    session = cluster.connect()
    connection.register_connection("default", session=session, default=True)
    return cluster, session


def every_type(cluster):
    """Values of every type come back as they were."""
    management.sync_table(Every)
    table = cluster.metadata.keyspaces[KEYSPACE].tables["every"]
    seen = {name: column.cql_type for name, column in table.columns.items()}
    for name in ["ascii", "bigint", "blob", "boolean", "date", "decimal", "double", "duration", "float", "inet", "int",
                 "smallint", "text", "time", "timestamp", "timeuuid", "tinyint", "uuid", "varint"]:
        equal(seen[f"a_{name}"], name, name)
    equal(seen["a_nest"], "map<text, frozen<list<frozen<set<int>>>>>", "a_nest")
    equal(seen["a_type"], "frozen<shape>", "a_type")
    for id, values in enumerate([PLAIN, LEAST, MOST, {}]):
        Every.create(id=id, **values)
        row = Every.get(id=id)
        for name in (name for name in Every._columns if name != "id"):
            collection = {"a_list": [], "a_set": set(), "a_map": {}, "a_nest": {}, "a_types": []}
            equal(plain(getattr(row, name)), plain(values.get(name, collection.get(name))), f"row {id}, {name}")
    Every.objects(id=0).update(a_text=None, a_list=None, a_varint=-1)
    row = Every.get(id=0)
    equal((row.a_text, row.a_list, row.a_varint, row.a_int), (None, [], -1, 7), "row 0 after an update")
    row.a_type, row.a_uuid = Shape(name="other"), None
    row.save()
    again = Every.get(id=0)
    equal((plain(again.a_type)["name"], again.a_uuid, again.a_bigint), ("other", None, 2**62), "row 0 after save")
    equal(sorted(row.id for row in Every.objects.only(["id"])), [0, 1, 2, 3], "ids")
    equal(Every.objects(id__in=[1, 3, 9]).count(), 2, "count of an IN")
    # The keys' own tokens, in their order, as pages of tokens are read.
    tokens = [row.id for row in Every.objects.all()]
    behind = Every.objects(pk__token__gt=functions.Token(tokens[1])).all()
    equal([row.id for row in behind], tokens[2:], "behind a token")
    Every.objects(id=3).delete()
    equal(Every.objects.count(), 3, "count after a deletion")


def schema_grows(cluster, session):
    """Models that have changed change their tables and types."""
    management.sync_table(Narrow)
    Narrow.create(id=1, old="kept")
    management.sync_table(Wide)
    table = cluster.metadata.keyspaces[KEYSPACE].tables["grows"]
    seen = [column.cql_type for column in table.columns.values()]
    equal(seen, ["int", "map<int, text>", "duration", "text"], "grows")
    equal(int(table.options["gc_grace_seconds"]), 4711, "gc_grace_seconds")
    Wide.objects(id=1).update(new={1: "one"}, newer=Duration(0, 0, 5))
    row = Wide.get(id=1)
    equal((row.old, dict(row.new), row.newer), ("kept", {1: "one"}, Duration(0, 0, 5)), "a row of a table that grew")
    management.sync_table(Wide)
    management.sync_type(KEYSPACE, SmallType)
    management.sync_type(KEYSPACE, LargeType)
    grown = cluster.metadata.keyspaces[KEYSPACE].user_types["growing"]
    equal((grown.field_names, grown.field_types), (["a", "b"], ["int", "set<text>"]), "a type that grew")
    management.drop_table(Wide)
    assert "grows" not in cluster.metadata.keyspaces[KEYSPACE].tables, "the table is still there"
    session.execute(f"DROP TYPE {KEYSPACE}.growing")


def collections():
    """Parts of lists, sets and maps change without a read."""
    key = {"day": "d", "part": 0, "at": 1, "seq": 1}
    Log.create(**key, steps=[3], tags={"a"}, marks={"x": 1})
    rows = Log.objects(**key)
    rows.update(steps__append=[4, 5])
    rows.update(steps__prepend=[1, 2])
    rows.update(tags__add={"b", "ü"})
    rows.update(tags__remove={"a"})
    rows.update(marks__update={"y": 2, "x": -1, "": 0})
    rows.update(marks__remove={"y"})
    row = rows.get()
    told = ([1, 2, 3, 4, 5], ["b", "ü"], {"": 0, "x": -1})
    equal((plain(row.steps), plain(row.tags), plain(row.marks)), told, "parts")
    # What save() finds changed it sends as parts. It cannot take keys out of maps where there are clustering columns.
    row.steps, row.tags, row.marks = [0, *row.steps, 6], row.tags - {"b"}, {"": 0, "x": 5, "z": 6}
    row.save()
    row = rows.get()
    told = ([0, 1, 2, 3, 4, 5, 6], ["ü"], {"": 0, "x": 5, "z": 6})
    equal((plain(row.steps), plain(row.tags), plain(row.marks)), told, "parts after save")
    row.update(steps=[], tags=set(), marks={})
    row = rows.get()
    equal((plain(row.steps), plain(row.tags), plain(row.marks)), ([], [], {}), "empty collections")
    equal(row.level, 3, "a default")
    rows.delete()


def writes(session):
    """Static columns, times to live, timestamps, batches."""
    for seq in range(3):
        Log.create(day="s", part=1, at=seq // 2, seq=seq, text=f"t{seq}")
    Log.objects(day="s", part=1).update(owner="all")
    equal([row.owner for row in Log.objects(day="s", part=1)], ["all"] * 3, "a static column")
    Log.ttl(5000).create(day="ttl", part=0, at=0, seq=0, text="lives", level=None)
    Log.objects(day="ttl", part=0, at=0, seq=0).ttl(7000).update(level=1)
    select = f'SELECT ttl("the text") AS a, ttl(level) AS b FROM {KEYSPACE}.log WHERE day = %s AND part = %s'
    row = session.execute(select, ["ttl", 0]).one()
    assert 4900 < row["a"] <= 5000 and 6900 < row["b"] <= 7000, row
    row = session.execute(select, ["s", 1]).one()
    assert 86300 < row["a"] <= 86400, row
    early = datetime.datetime(2020, 1, 1)
    Log.objects(day="s", part=1, at=0, seq=0).timestamp(early).update(text="too late")
    equal(Log.get(day="s", part=1, at=0, seq=0).text, "t0", "an older write")
    Log.timestamp(datetime.timedelta(seconds=30)).create(day="s", part=1, at=0, seq=0, text="future")
    Log.objects(day="s", part=1, at=0, seq=0).update(text="now")
    equal(Log.get(day="s", part=1, at=0, seq=0).text, "future", "a newer write")
    Log.objects(day="s", part=1, at=0, seq=1).timestamp(early).delete()
    equal(Log.objects(day="s", part=1).count(), 3, "count after an older deletion")
    with BatchQuery(timestamp=datetime.timedelta(seconds=60)) as batch:
        Log.batch(batch).create(day="b", part=0, at=1, seq=1, text="one", steps=[1])
        Log.objects(day="b", part=0, at=1, seq=1).batch(batch).update(steps__append=[2])
        Log.objects(day="s", part=1, at=0, seq=0).batch(batch).delete()
    row = Log.get(day="b", part=0)
    equal((row.text, plain(row.steps)), ("one", [1, 2]), "a batch")
    equal(Log.objects(day="s", part=1).count(), 2, "count after a batch")
    done = []
    with BatchQuery(batch_type="UNLOGGED") as batch:
        batch.add_callback(done.append, "done")
        for seq in range(100):
            Log.batch(batch).create(day="many", part=0, at=seq % 10, seq=seq, text=str(seq), tags={str(seq % 3)})
    equal((Log.objects(day="many", part=0).count(), done), (100, ["done"]), "an unlogged batch")


def reads():
    """Filters, orders, limits, pages and parts of rows, of the hundred rows of one partition."""
    rows = Log.objects(day="many", part=0)
    told = sorted(((at, seq) for seq in range(100) for at in [seq % 10]), key=lambda row: (-row[0], row[1]))

    def keys(found):
        return [(row.at, row.seq) for row in found]

    equal(keys(rows), told, "in the table's order")
    equal(keys(rows.order_by("at", "-seq")), told[::-1], "in reverse")
    equal(keys(rows.limit(7)), told[:7], "limited")
    equal(keys(rows.order_by("at").limit(3)), told[::-1][:3], "the last ones")
    equal(keys(rows.fetch_size(7).limit(None)), told, "in pages")
    equal(keys(rows.limit(None)[10:13]), told[10:13], "a slice")
    equal((rows.first().seq, rows.all()[99].seq), (told[0][1], told[99][1]), "the first and the last")
    equal(keys(rows.filter(at__gt=7)), [key for key in told if key[0] > 7], "greater")
    equal(keys(rows.filter(at__gte=3).filter(at__lt=5)), [key for key in told if 3 <= key[0] < 5], "between")
    found = rows.filter(Log.at == 4, Log.seq <= 34)
    equal(keys(found), [key for key in told if key[0] == 4 and key[1] <= 34], "equal")
    equal(keys(rows.filter(at__in=[1, 9])), [key for key in told if key[0] in (1, 9)], "one of")
    found = rows.filter(tags__contains="2").allow_filtering()
    equal(keys(found), [key for key in told if key[1] % 3 == 2], "that contain")
    found = rows.filter(text="42").allow_filtering()
    equal(keys(found), [(2, 42)], "filtered by a column that must be quoted")
    # A query that was iterated keeps its count, and gives it to those made of it.
    equal(Log.objects(day="many", part=0, at=1).count(), 10, "counted")
    equal(list(rows.filter(at=1, seq=11).values_list("text", flat=True)), ["11"], "a list of values")
    equal(list(rows.filter(at=1, seq=11).values_list("seq", "level")), [[11, 3]], "lists of values")
    row = rows.filter(at=1, seq=11).defer(["text", "tags"]).first()
    equal((row.level, row.text), (3, None), "without some columns")
    parts = sorted((row.day, row.part) for row in Log.objects.distinct())
    equal(parts, [("b", 0), ("many", 0), ("s", 1), ("ttl", 0)], "distinct partitions")
    for query, error in [(rows.filter(level=3), "ALLOW FILTERING"), (Log.objects(day="many"), "ALLOW FILTERING")]:
        try:
            list(query)
        except InvalidRequest as refusal:
            assert error in str(refusal), refusal
        else:
            raise AssertionError("a read that needs ALLOW FILTERING was done without")
    try:
        rows.get()
    except Log.MultipleObjectsReturned:
        pass
    try:
        rows.get(at=1, seq=2)
        raise AssertionError("a row that is not there was found")
    except Log.DoesNotExist:
        pass
    rows.filter(at=1).delete()
    rows.filter(at=2, seq=2).delete()
    equal(keys(Log.objects(day="many", part=0)), [key for key in told if key[0] != 1 and key != (2, 2)], "after deletions")


def discriminators():
    """Models that share a table."""
    management.sync_table(Ship)
    management.sync_table(Cart)
    Ship.create(id=1, masts=3)
    Cart.create(id=2, wheels=4)
    equal([(type(row).__name__, row.kind) for row in sorted(Vehicle.all(), key=lambda row: row.id)],
          [("Ship", "ship"), ("Cart", "cart")], "models")
    equal(Ship.get(id=1).masts, 3, "masts")


def conditional():
    """Writes with a condition: done as they should be, or refused by name."""
    try:
        Log.if_not_exists().create(day="lwt", part=0, at=0, seq=0, text="first", level=1)
    except InvalidRequest as refusal:
        told = [refusal]
        for write in [lambda: Log.objects(day="lwt", part=0, at=0, seq=0).iff(level=1).update(text="x"),
                      lambda: Log.objects(day="lwt", part=0, at=0, seq=0).if_exists().update(text="x"),
                      lambda: Log.objects(day="lwt", part=0, at=0, seq=0).if_exists().delete()]:
            try:
                write()
                raise AssertionError("some conditional writes are done and others are refused")
            except InvalidRequest as other:
                told.append(other)
        for other in told:
            assert "IF" in str(other) and "not supported" in str(other), other
        equal(Log.objects(day="lwt", part=0).count(), 0, "what was refused")
        return "conditional writes refused"
    return conditional_done()


def conditional_done():
    """What conditional writes do."""
    def rows():
        return Log.objects(day="lwt", part=0, at=0, seq=0)

    failures = 0
    for write in [lambda: Log.if_not_exists().create(day="lwt", part=0, at=0, seq=0, text="second"),
                  lambda: rows().iff(level=2).update(text="second"),
                  lambda: Log.objects(day="lwt", part=0, at=0, seq=9).if_exists().update(text="second"),
                  lambda: Log.objects(day="lwt", part=0, at=0, seq=9).if_exists().delete()]:
        try:
            write()
        except LWTException as refusal:
            failures += 1
            assert refusal.existing["[applied]"] is False, refusal.existing
    equal((failures, rows().get().text), (4, "first"), "conditions that do not hold")
    rows().iff(level=1, text="first").update(text="third")
    equal(rows().get().text, "third", "a condition that holds")
    rows().if_exists().delete()
    equal(rows().count(), 0, "a deletion whose condition holds")
    return "conditional writes"


def main():
    host, port, protocol = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    cluster, session = connect(host, port, protocol)
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    management.create_keyspace_simple(KEYSPACE, 1)
    every_type(cluster)
    schema_grows(cluster, session)
    management.sync_table(Log)
    options = cluster.metadata.keyspaces[KEYSPACE].tables["log"].options
    equal((options["comment"], int(options["gc_grace_seconds"])), ("it's a log", 3600), "options")
    assert "LeveledCompactionStrategy" in str(options["compaction"]), options
    collections()
    writes(session)
    reads()
    discriminators()
    done = conditional()
    management.drop_keyspace(KEYSPACE)
    assert KEYSPACE not in cluster.metadata.keyspaces, "the driver did not see the drop"
    cluster.shutdown()
    print(f"cqlengine, protocol {protocol}, {done}")
    print("ok")


if __name__ == "__main__":
    main()
