"""One row of one round: start it, see that it does what it says, load it, see that again."""

import http.client
import os
import pathlib
import socket
import subprocess
import tempfile
import time

from load import IDLE_CLIENTS, STEADY_RATE, USERS, head, token
from machine import Missing, World, Wrong, interrupt, need, say
from peers import CHECKED_EVERY, checked_servers, probe_fields

WARM_REQUESTS = USERS + 2_000  # each user at least once
WARM_SECONDS = 6
PROBES = 3
UNASKED_SECONDS = 60  # in which the proxy only checks its servers


class Measuring:
    def __init__(self, loads, heads, seconds):
        self.loads, self.heads, self.seconds = loads, heads, seconds

    def round(self, part, row):
        """The figures of one row, of a proxy that was started for it and ended again."""
        cpus = two_cpus() if part == "pinned" else {}
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, \
                World(pathlib.Path(folder), cpus) as world:
            setup = row.start(world)
            if part == "idle":
                before, after = hold_idle(setup, IDLE_CLIENTS)
                return {"before_kib": before, "after_kib": after}
            self.warm_up(world, setup, row)
            verify(setup, row, "before")
            measure = {"calls": self.calls, "checks": self.checks}.get(part, self.load)
            figures = measure(world, setup, row, part)
            verify(setup, row, "after")
            return figures

    def warm_up(self, world, setup, row):
        self.loads.steady(world, setup.port, self.heads[row.heads], WARM_SECONDS,
                          requests=-(-WARM_REQUESTS // row.checks))

    def load(self, world, setup, row, part):
        before = Sample(setup)
        heads = self.heads[row.heads]
        if part == "steady":
            result = self.loads.steady(world, setup.port, heads, self.seconds, rate=STEADY_RATE)
        elif part == "single":
            result = self.loads.steady(world, setup.port, heads, self.seconds, connections=1)
        else:
            result = self.loads.wrk(world, setup.port, heads, self.seconds)
        after = Sample(setup)
        check_answers(row, result)
        figures = {
            "requests": result["requests"],
            "rps": result["requests"] / result["seconds"],
            **{name: result[name] for name in ("p50_us", "p99_us", "p999_us")},
            **after.since(before, result["requests"]),
        }
        check_decisions(row, setup, figures)
        return figures

    def checks(self, world, setup, row, part):
        """CPU without requests, in hundredths of one CPU; and of a request beside the checks."""
        time.sleep(CHECKED_EVERY + 1)
        if setup.checked and checked_servers(setup) != setup.checked:
            raise Wrong(f"{checked_servers(setup)} of {setup.checked} servers are well")
        before, began = setup.proxy.cpu_ns(), time.monotonic_ns()
        time.sleep(UNASKED_SECONDS)
        took = time.monotonic_ns() - began
        unasked = 100 * (setup.proxy.cpu_ns() - before) / took
        return {**self.load(world, setup, row, part), "unasked_percent": unasked}

    def calls(self, world, setup, row, _):
        """System calls a request, counted by strace, under which all is slower."""
        strace, counts = need("strace"), world.folder / "strace"
        command = [strace, "-f", "-c", "-U", "name,calls", "-o", counts]
        for pid in setup.proxy.pids():
            command += ["-p", pid]
        tracer = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE)
        try:
            tracer.stderr.readline()  # `attached`
            time.sleep(0.1)
            result = self.loads.wrk(world, setup.port, self.heads[row.heads], 1)
        finally:
            interrupt(tracer)
        calls = {}
        for line in counts.read_text().splitlines():
            name, _, count = line.strip().partition(" ")
            if count.strip().isdigit() and name != "total":
                calls[name] = int(count) / result["requests"]
        if not calls:
            raise Wrong("strace counted nothing")
        return {"requests": result["requests"], "calls": sum(calls.values()),
                "by_name": {name: round(count, 3) for name, count in calls.items()
                            if count >= 0.005}}


def two_cpus():
    """The CPU of each process when proxy and upstream share one."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise Missing("there is one CPU only")
    first, second = map(str, allowed[:2])
    return {"proxy": first, "upstream": first, "redis": second, "load": second}


def hold_idle(setup, count):
    """Memory of the proxy without and with `count` clients that asked once and then sit there."""
    held = []
    try:
        for _ in range(50):  # what is there only once is there before
            connect_and_ask(setup.port).close()
        time.sleep(0.3)
        before = setup.proxy.rss_kib()
        while len(held) < count:
            held.append(connect_and_ask(setup.port))
        time.sleep(0.3)
        return before, setup.proxy.rss_kib()
    finally:
        for connection in held:
            connection.close()


def connect_and_ask(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sendall(head(0).encode())
    if not connection.recv(4096).startswith(b"HTTP/1.1 200"):
        raise Wrong("an idle client was not answered")
    return connection


class Sample:
    """What was used until now."""

    def __init__(self, setup):
        self.proxy_ns = setup.proxy.cpu_ns() if setup.proxy else 0
        self.rss_kib = setup.proxy.rss_kib() if setup.proxy else None
        self.upstream_ns = setup.upstream.cpu_ns()
        self.redis = setup.redis
        self.redis_ns = setup.redis.cpu_ns() if setup.redis else 0
        counts = [redis_counts(one) for one in servers_of(setup.redis)]
        self.scripts, self.writes, self.redis_reads, self.redis_bytes = map(
            sum, zip((0, 0, 0, 0), *counts))

    def since(self, before, requests):
        figures = {"upstream_us": (self.upstream_ns - before.upstream_ns) / 1e3 / requests}
        if self.rss_kib:
            figures["proxy_us"] = (self.proxy_ns - before.proxy_ns) / 1e3 / requests
            figures["rss_kib"] = self.rss_kib
        if self.redis:
            figures["redis_us"] = (self.redis_ns - before.redis_ns) / 1e3 / requests
            figures["scripts"] = (self.scripts - before.scripts) / requests
            figures["writes"] = (self.writes - before.writes) / requests
            figures["redis_reads"] = (self.redis_reads - before.redis_reads) / requests
            figures["redis_bytes"] = (self.redis_bytes - before.redis_bytes) / requests
            figures["keys"] = sum(say(one.port, "DBSIZE") for one in servers_of(self.redis))
        return figures


def servers_of(redis):
    """The servers of one Redis, or of a cluster; none without one."""
    return () if redis is None else getattr(redis, "servers", (redis,))


def redis_counts(redis):
    """Scripts run, values of Tidegate's written, reads from clients, and bytes from and to them:
    under load several commands come with one read, and a script of Tidegate's decides several
    requests."""
    lines = [line for section in ("commandstats", "stats")
             for line in say(redis.port, "INFO", section).splitlines()]

    def calls(*commands):
        return sum(int(line.split("calls=")[1].split(",")[0]) for line in lines
                   if line.startswith(tuple(f"cmdstat_{command}:" for command in commands)))

    def number(name):
        return next(int(line.split(":")[1]) for line in lines if line.startswith(f"{name}:"))

    return (calls("evalsha", "eval"), calls("set", "setrange"), number("total_reads_processed"),
            number("total_net_input_bytes") + number("total_net_output_bytes"))


# ---- that it does what it says

def check_answers(row, result):
    others = result["requests"] - result["refused"] if row.denied else result["refused"]
    if others > row.stray * result["requests"]:
        raise Wrong(f"{others} of {result['requests']} answers were not what they must be")


def check_decisions(row, setup, figures):
    """Redis has counted: all names, and each request that was admitted."""
    if not setup.redis:
        return
    names = 2 * (1 if row.heads == "hot" else USERS)
    if figures["keys"] < names:
        raise Wrong(f"{figures['keys']} keys for {names} names")
    counted = max(figures["scripts"], figures["writes"] / 2)
    if not row.denied and not row.joined and counted < 0.99:
        raise Wrong(f"{counted:.2f} of the requests were counted")


def verify(setup, row, when):
    if row.denied:
        # A new name has one request; a name that was used up has none.
        fields = {"X-Forwarded-For": f"10.254.0.{len(when)}", "X-User-Id": f"new-{when}"}
        expected = [(fields, 200), (fields, 200 if "table" in row.name else 429), (fields, 429),
                    (fields_of_head(0), 429)]
        if "table" in row.name:
            del expected[1]
    else:
        fields = probe_fields("probe")
        if row.heads == "tokens":
            fields["Authorization"] = f"Bearer {token('probe')}"
        expected = [(fields, 200)] * PROBES
    counted = setup.count_of("probe") if setup.count_of and not row.denied else None
    for fields, status in expected:
        got, body = ask(setup.port, *row.request_of(fields))
        if got != status or (status == 200 and row.answer not in (None, body)):
            raise Wrong(f"answered {got} {body[:80]!r}, not {status}, {when} the load")
    if counted is not None:
        # To ask Tidegate what is left takes one more.
        rise = setup.count_of("probe") - counted - (1 if counted < 0 else 0)
        if rise != PROBES:
            raise Wrong(f"{PROBES} requests were counted as {rise}")


def fields_of_head(user):
    lines = head(user).split("\r\n")
    return dict(line.split(": ", 1) for line in lines[1:] if line and not line.startswith("Host"))


def ask(port, method, path, fields, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request(method, path, body, fields)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    finally:
        connection.close()
