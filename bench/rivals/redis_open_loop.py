#!/usr/bin/env python3
"""What Redis costs at a given rate: the open loop of docs/benchmarks.md, which redis-benchmark has not.

Starts a redis-server that is as durable as Messina (appendfsync always), loads records of ten fields of 100 bytes,
sends HGETALL and HSET of one field over 64 connections at random moments of the given rate, and prints the
processor time of the server per operation, from /proc.
"""

import argparse
import os
import random
import select
import socket
import subprocess
import tempfile
import time

CONNECTIONS = 64
RECORDS = 20_000
FIELDS = [b"field%d" % number for number in range(10)]
VALUE = b"v" * 100
WARM_UP_S = 1.5


def command(*words):
    """The words as one command in the protocol of Redis."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def key(number):
    return b"record:%d" % number


def connect(port):
    """A connection to a server that may still be starting."""
    for _ in range(100):
        try:
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise SystemExit("redis-server does not listen")


def load(connection):
    fields = [word for field in FIELDS for word in (field, VALUE)]
    for number in range(RECORDS):
        connection.sendall(command(b"HSET", key(number), *fields))
        check(connection.recv(4096))


def check(answers):
    """Ends the measurement at an error: an answer that begins so is cheap, and is no work."""
    if answers.startswith(b"-") or b"\r\n-" in answers:
        raise SystemExit(f"redis-server: {answers[:200]!r}")
    if not answers:
        raise SystemExit("redis-server has closed a connection")


def cpu_s(pid):
    """User and system time of a process so far, in seconds."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return sum(int(ticks) for ticks in fields[11:13]) / os.sysconf("SC_CLK_TCK")


def measure(connections, pid, flags):
    """Sends on schedule whatever is answered; CPU per operation in microseconds, and operations a second."""
    poll = select.epoll()
    by_number = {connection.fileno(): connection for connection in connections}
    for number, connection in by_number.items():
        connection.setblocking(False)
        poll.register(number, select.EPOLLIN)
    begun = due = time.perf_counter()
    sent, start = 0, None
    while (now := time.perf_counter()) < begun + WARM_UP_S + flags.seconds:
        if start is None and now > begun + WARM_UP_S:
            start = (now, sent, cpu_s(pid))
        if now < due:
            for number, _ in poll.poll(due - now):
                check(by_number[number].recv(65536))
            continue
        record = key(random.randrange(RECORDS))
        if random.random() < flags.updates:
            request = command(b"HSET", record, random.choice(FIELDS), VALUE)
        else:
            request = command(b"HGETALL", record)
        connection = random.choice(connections)
        if connection.send(request) != len(request):
            raise SystemExit("redis-server does not keep up: a socket is full")
        sent += 1
        due += random.expovariate(flags.rate)
    operations, seconds = sent - start[1], time.perf_counter() - start[0]
    return (cpu_s(pid) - start[2]) / operations * 1e6, operations / seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rate", type=float, default=1000, help="operations a second")
    parser.add_argument("--updates", type=float, default=0.5, help="share of updates, from 0 to 1")
    parser.add_argument("--seconds", type=float, default=10, help="time that counts")
    parser.add_argument("--port", type=int, default=6399)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        redis = ["redis-server", "--port", str(flags.port), "--save", "", "--appendonly", "yes"]
        redis += ["--appendfsync", "always", "--dir", folder]
        server = subprocess.Popen(redis, stdout=subprocess.DEVNULL)
        try:
            connections = [connect(flags.port) for _ in range(CONNECTIONS)]
            load(connections[0])
            if server.poll() is not None:
                raise SystemExit(f"port {flags.port} is taken: the server that was started has ended")
            each_us, rate = measure(connections, server.pid, flags)
        finally:
            server.kill()
            server.wait()
    print(f"{rate:.0f}/s: {each_us:.1f} µs, {each_us * rate / 1e4:.1f} % of a core")


if __name__ == "__main__":
    main()
