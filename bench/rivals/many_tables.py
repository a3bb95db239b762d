#!/usr/bin/env python3
"""Makes many tables in a running node, and says what that costs it.

python3 bench/rivals/many_tables.py --tables 10000

For some counts of tables: the time of CREATE TABLE (of the last 500), the server's processor time for each, and its
resident memory; then the time of what a driver reads after a change, and of an idle node.
"""

import argparse
import os
import pathlib
import socket
import struct
import sys
import time

SHOWN = (10, 100, 1000, 3000, 10000)
READS = (
    "SELECT * FROM system_schema.tables WHERE keyspace_name = 'many' AND table_name = 't1'",
    "SELECT * FROM system_schema.columns WHERE keyspace_name = 'many' AND table_name = 't1'",
    "SELECT * FROM system_schema.keyspaces",
    "SELECT * FROM system.local",
)


class Node:
    """A connection of protocol version 4, one request at a time."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port))
        self.call(1, struct.pack(">HH11sH5s", 1, 11, b"CQL_VERSION", 5, b"3.0.0"))

    def receive(self, count):
        out = b""
        while len(out) < count:
            got = self.socket.recv(count - len(out))
            if not got:
                raise SystemExit("the server has closed the connection")
            out += got
        return out

    def call(self, opcode, body):
        self.socket.sendall(struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body)
        opcode, length = struct.unpack(">4xBi", self.receive(9))
        body = self.receive(length)
        if opcode == 0:
            raise SystemExit(body)

    def query(self, text):
        """Runs a statement; milliseconds."""
        begun = time.perf_counter()
        text = text.encode()
        self.call(7, struct.pack(">i", len(text)) + text + struct.pack(">HB", 1, 0))
        return (time.perf_counter() - begun) * 1000


def the_server():
    """The process called messina."""
    found = [at for at in pathlib.Path("/proc").glob("[0-9]*") if (at / "comm").read_text() == "messina\n"]
    if len(found) != 1:
        sys.exit(f"{len(found)} processes are called messina: say which with --pid")
    return int(found[0].name)


class Server:
    """What the kernel says of the server's process."""

    def __init__(self, pid):
        self.pid = pid

    def processor_ms(self):
        fields = open(f"/proc/{self.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")

    def memory(self):
        lines = [line.split() for line in open(f"/proc/{self.pid}/status")]
        found = {line[0]: int(line[1]) // 1024 for line in lines if line[0] in ("VmRSS:", "VmHWM:")}
        return f"resident {found['VmRSS:']} MiB, at most {found['VmHWM:']} MiB"


def main():
    flags = argparse.ArgumentParser()
    flags.add_argument("--pid", type=int, help="of the server; the process called messina, if there is one")
    flags.add_argument("--host", default="127.0.0.1")
    flags.add_argument("--port", type=int, default=9042)
    flags.add_argument("--tables", type=int, default=10000)
    flags = flags.parse_args()
    node, server = Node(flags.host, flags.port), Server(flags.pid or the_server())
    replication = "{'class': 'SimpleStrategy', 'replication_factor': 1}"
    node.query(f"CREATE KEYSPACE many WITH replication = {replication}")
    print(f"no table: {server.memory()}")
    times, spent, since = [], server.processor_ms(), 0
    for number in range(flags.tables):
        columns = "k bigint, c int, v1 text, v2 text, v3 map<text, int>, PRIMARY KEY (k, c)"
        times.append(node.query(f"CREATE TABLE many.t{number} ({columns})"))
        made = number + 1
        if made in SHOWN or made == flags.tables:
            last = sorted(times[-500:])
            each = (server.processor_ms() - spent) / (made - since)
            spent, since = server.processor_ms(), made
            print(
                f"{made} tables: CREATE TABLE p50 {last[len(last) // 2]:.2f} ms, longest {last[-1]:.2f} ms, "
                f"processor {each:.2f} ms each; {server.memory()}",
                flush=True,
            )
    for text in READS:
        print(f"{min(node.query(text) for _ in range(5)):.2f} ms: {text}")
    spent = server.processor_ms()
    time.sleep(10)
    print(f"idle: {(server.processor_ms() - spent) / 100:.2f} % of a core; {server.memory()}")


main()
