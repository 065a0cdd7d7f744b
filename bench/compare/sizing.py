#!/usr/bin/env python3
"""What `tidegate size` multiplies: CPU of Tidegate and of Redis, and memory, one thing at a time.

By itself it makes src/cli/size_costs.cpp of measured figures: sizing.py [--check] FILE
"""

import argparse
import dataclasses
import json
import pathlib
import socket
import statistics
import sys
import tempfile
import time

import peers
from load import STEADY_RATE, head
from machine import ROOT, Wrong, World
from measure import Sample, check_answers, connect_and_ask, hold_idle
from rows import Row

CLEAR_IDLE = 5_000
HELD = 1_000  # requests that wait for the upstream
HELD_PATH = "/?delay=4s"
WARM_REQUESTS = 12_000
CLOSING = head(0, "Connection: close\r\n")

# One name is the user; two are the user and the address.
KEYS = {1: "[user]", 2: "[user, ip]"}
LIMITS = {1: "1000000000/h", 3: "1000000/s, 60000000/min, 3600000000/h"}
# Whose decisions have a command to Redis each.
OWN = {"gcra": "{quota: 1000000000, per: 1h, algorithm: gcra}",
       "concurrency": "{quota: 1000, algorithm: concurrency}",
       "log": "{quota: 1000, per: 1s, algorithm: sliding_log}"}

# Requests a second, timed by the clock.
RATES = (1_000, 5_000, 10_000)
STEADY = ("plain", "memory-1x1", "redis-1x1", "redis-2x3", "cluster-1x1", "cluster-2x3")
STEADY_SECONDS = 2


def settings_of(limits="", key="[user]", shadow=False, policies="", names=""):
    if limits:
        mode = ", mode: shadow" if shadow else ""
        policies, names = f"policies: {{all: {{key: {key}, limits: [{limits}]{mode}}}}}\n", "all"
    return (f"upstreams: {{api: {{servers: [UPSTREAM], idle_connections: 256}}}}\n"
            f"{peers.IDENTITY}{policies}routes: [{{name: all, match: {{path: '/**'}}, "
            f"upstream: api, policies: [{names}]}}]\n")


def start_of(program, store, **settings):
    def start(world):
        made = {"redis": peers.start_redis, "cluster": peers.start_cluster}.get(store)
        return peers.start_tidegate(world, program, settings_of(**settings),
                                    made(world) if made else None)
    return start


def decision_rows(program):
    for store in ("memory", "redis", "cluster"):
        for names, key in KEYS.items():
            for windows, limits in LIMITS.items():
                yield Row(f"{store}-{names}x{windows}",
                          f"{store}, {names} names x {windows} windows",
                          start_of(program, store, limits=limits, key=key))
    for name, limit in OWN.items():
        yield Row(f"redis-{name}", f"redis, 1 name, {name}",
                  start_of(program, "redis", limits=limit))
    yield Row("redis-shadow", "redis, 1 name x 1 window, in shadow",
              start_of(program, "redis", limits=LIMITS[1], shadow=True))


def all_rows(program):
    plain = start_of(program, "")
    return [Row("plain", "no limits", plain), *decision_rows(program),
            Row("auth", "forward_auth, no limits", auth(program), heads="questions"),
            Row("closing", "no limits, a connection a request", plain, heads="closing"),
            *check_rows(program),
            Row("held", "no limits, requests in flight", held(program))]


# Not among the figures that are fitted: what these cost is estimated, and compared.
CHECK = ("policies:\n"
         "  address: {key: [ip], limits: [1000000000/h]}\n"
         "  user: {key: [user], limits: [1000000/s, 60000000/min, 3600000000/h]}\n")


def check_rows(program):
    for store in ("redis", "cluster"):
        yield Row(f"{store}-check", f"{store}, two policies of 1 and 3 windows",
                  start_of(program, store, policies=CHECK, names="address, user"))


def held(program):
    """Its upstream answers when the request says."""
    def start(world):
        world.upstream = lambda port: [program, "echo", "--listen", f"127.0.0.1:{port}"]
        settings = settings_of().replace("idle_connections: 256", f"max_connections: {2 * HELD}")
        return peers.start_tidegate(world, program, settings)
    return start


def auth(program):
    def start(world):
        settings = peers.IDENTITY + "routes: [{name: all, policies: []}]\n"
        return peers.start_tidegate(world, program, settings,
                                    face=", face: forward_auth, dialect: forwarded")
    return start


def hold_requests(setup):
    """KiB that a request in flight takes, with its connections."""
    open_ones = []
    try:
        connect_and_ask(setup.port).close()
        before = setup.proxy.rss_kib()
        for _ in range(HELD):
            one = socket.create_connection(("127.0.0.1", setup.port), timeout=10)
            one.sendall(head(0).replace("GET /", f"GET {HELD_PATH}").encode())
            open_ones.append(one)
        time.sleep(1)
        return (setup.proxy.rss_kib() - before) / HELD
    finally:
        for one in open_ones:
            one.close()


DECISIONS = tuple(row.name for row in decision_rows(""))
PARTS = {
    "size-full": ("plain", *DECISIONS, "redis-check", "cluster-check", "auth", "closing"),
    **{f"size-{rate}": STEADY for rate in RATES},
    "size-held": ("held",),
    "size-idle": ("plain",),
}
ONCE = ("size-held", "size-idle")


@dataclasses.dataclass
class SizeMeasuring:
    """As Measuring, for these parts."""

    client: str  # bench_tls, which these parts do not need
    loads: object
    heads: dict
    seconds: int

    def round(self, part, row):
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, \
                World(pathlib.Path(folder)) as world:
            setup = row.start(world)
            if part == "size-held":
                return {"idle_kib": hold_requests(setup)}
            if part == "size-idle":
                before, after = hold_idle(setup, CLEAR_IDLE)
                return {"idle_kib": (after - before) / CLEAR_IDLE, "before_kib": before}
            return self.load(world, setup, row, part)

    def load(self, world, setup, row, part):
        heads = (world.file("closing.heads", CLOSING) if row.heads == "closing"
                 else self.heads[row.heads])
        rate = part.removeprefix("size-")
        # A client has few ports for connections that end.
        if row.heads != "closing":
            self.loads.steady(world, setup.port, heads, 10, requests=WARM_REQUESTS)
        before = Sample(setup)
        result = (self.loads.wrk(world, setup.port, heads, self.seconds) if rate == "full" else
                  self.loads.steady(world, setup.port, heads, STEADY_SECONDS, rate=int(rate)))
        figures = Sample(setup).since(before, result["requests"])
        check_answers(row, result)
        if setup.redis and max(figures["scripts"], figures["writes"]) < 0.99:
            raise Wrong(f"of a request, Redis ran {figures['scripts']:.2f} scripts and wrote "
                        f"{figures['writes']:.2f} values")
        return {"requests": result["requests"], "rps": result["requests"] / result["seconds"],
                **{name: result[name] for name in ("p50_us", "p99_us", "p999_us")}, **figures}


TITLES = {
    "size-full": "64 connections, as fast as answers come",
    **{f"size-{rate}": f"{rate:,} requests a second, timed from when each was due"
       for rate in RATES},
    "size-held": "Requests that wait for the upstream, memory of each",
    "size-idle": "Idle connections in the clear, memory of each",
}


# ---- what they make

SOURCE = ROOT / "src" / "cli" / "size_costs.cpp"
MEASURED = ROOT / "docs" / "performance" / "measured.json"
TRANSPORT = ROOT / "docs" / "performance" / "transport.json"


def fitted(points):
    """The (command, state, limit) of at least 0 that fit [((commands, states, limits), figure)]
    best, by least squares of what they are off by in parts of the figure: one after the other,
    until none moves."""
    found = [0.0, 0.0, 0.0]
    for _ in range(5_000):
        for i in range(3):
            above = sum(x[i] * (y - sum(found[j] * x[j] for j in range(3) if j != i)) / y ** 2
                        for x, y in points if y)
            below = sum((x[i] / y) ** 2 for x, y in points if y)
            found[i] = max(0.0, above / below) if below else 0.0
    return found


def published(file, part, row, column="proxy_us"):
    """The median of a row of docs/performance.md or docs/performance-transport.md."""
    return statistics.median(found[column] for found in json.loads(file.read_text())["rounds"]
                             if found["part"] == part and found["row"] == row)


def earlier(series, column, x):
    points = json.loads(MEASURED.read_text())["growth"]
    return statistics.median(point[column] for point in points
                             if point["series"] == series and point["x"] == x)


class Ratios:
    """Figures of rows in parts of another's in the same round, times the published figure of that
    row: what slows the machine for a round slows both."""

    def __init__(self, report, row, column, figure):
        self.rounds = [found for found in report["rounds"] if found["part"] == "size-full"]
        self.column, self.figure = column, figure
        self.base = {found["round"]: found[column] for found in self.rounds
                     if found["row"] == row}

    def __call__(self, row):
        ratios = [found[self.column] / self.base[found["round"]] for found in self.rounds
                  if found["row"] == row and found["round"] in self.base]
        if not ratios:
            raise Wrong(f"there is no round of {row}")
        return statistics.median(ratios) * self.figure


def of_all(figure, store, less=0.0):
    """(command, state, limit) of the rows of a store."""
    return fitted([((1, names, names * windows), figure(f"{store}-{names}x{windows}") - less)
                   for names in KEYS for windows in LIMITS])


def of_cluster(figure, like, less=0.0):
    """A node is asked about each name; what a second state there costs, one Redis shows."""
    both = fitted([((names, 0, names * windows), figure(f"cluster-{names}x{windows}") - less)
                   for names in KEYS for windows in LIMITS])
    state = min(like[1], both[0] / 2)
    return [both[0] - state, state, both[2]]


def of_alone(figure, like, less=0.0):
    whole = statistics.mean(figure(f"redis-{name}") - less for name in ("gcra", "shadow", "log"))
    return [max(0.0, whole - like[1] - like[2]), like[1], like[2]]


def wake(row, column="proxy_us"):
    """What a request takes more on a thread that sleeps: used = rate x (us + wake x (1 - used))."""
    us, full = (published(MEASURED, part, row, column) for part in ("steady", "saturated"))
    return max(0.0, (us - full) / (1 - STEADY_RATE * us / 1e6))


def costs(report):
    """What `tidegate size` holds: name -> number, or (command, state, limit)."""
    plain = published(MEASURED, "saturated", "tidegate")
    proxy = Ratios(report, "plain", "proxy_us", plain)
    redis = Ratios(report, "redis-2x3", "redis_us",
                   published(MEASURED, "saturated", "tidegate-redis", "redis_us"))
    sent = Ratios(report, "redis-2x3", "redis_bytes", statistics.median(
        found["redis_bytes"] for found in report["rounds"] if found["row"] == "redis-2x3"))
    asks, shared = of_all(proxy, "redis", plain), of_all(redis, "redis")
    alone = of_alone(redis, shared)
    connection = max(0.0, proxy("closing") - plain)
    tls_kept = published(TRANSPORT, "tls-kept", "tidegate-tls")
    kib, states = 1024, 1_000_000
    in_redis = earlier("identifiers-redis", "grown_kib", states) * kib / states
    in_process = earlier("identifiers-memory", "grown_kib", states) * kib / states
    body = statistics.mean(earlier(series, "proxy_us", 100_000) - earlier(series, "proxy_us", 1_000)
                           for series in ("downloads-tidegate", "uploads-tidegate"))

    def once(part, row, column):
        return kib * statistics.median(found[column] for found in report["rounds"]
                                       if found["part"] == part and found["row"] == row)

    return {
        "proxied": plain,
        "asked": proxy("auth"),
        "log_line": published(MEASURED, "saturated", "tidegate-logged") - plain,
        "tls_request": tls_kept - plain,
        "body_kib": body / 99_000 * kib,
        "connection": connection,
        "handshake": published(TRANSPORT, "tls-new", "tidegate-tls") - tls_kept - connection,
        "resumption": published(TRANSPORT, "tls-resumed", "tidegate-tls") - tls_kept - connection,
        "in_process": of_all(proxy, "memory", plain),
        "asks": asks,
        "asks_alone": of_alone(proxy, asks, plain),
        "asks_cluster": of_cluster(proxy, asks, plain),
        "wake": statistics.mean(map(wake, ("tidegate", "tidegate-memory"))),
        "wake_redis": wake("tidegate-redis"),
        "shared": shared,
        "alone": alone,
        "cluster": of_cluster(redis, shared),
        "redis_wake": wake("tidegate-redis", "redis_us"),
        "second_command": max(0.0, redis("redis-concurrency") - sum(alone)),
        "redis_bytes": of_cluster(sent, of_all(sent, "redis")),
        "process_bytes": once("size-idle", "plain", "before_kib"),
        "thread_bytes": (earlier("threads-redis", "rss_kib", 32)
                         - earlier("threads-redis", "rss_kib", 1)) * kib / 31,
        "connection_bytes": once("size-idle", "plain", "idle_kib"),
        "tls_connection_bytes": kib * published(TRANSPORT, "tls-idle", "tidegate-tls", "idle_kib"),
        "http2_connection_bytes": kib * published(TRANSPORT, "h2-idle", "tidegate-h2", "idle_kib"),
        "request_bytes": once("size-held", "held", "idle_kib")
                         - once("size-idle", "plain", "idle_kib"),
        # Of three windows a state, with one unit each (docs/limits.md).
        "redis_key_bytes": in_redis - (16 + 3 * 33),
        "memory_state_bytes": in_process - 3 * (48 + 8),
    }


def source_text(found):
    """src/cli/size_costs.cpp."""
    def shown(value):
        if isinstance(value, (list, tuple)):
            return "{" + ", ".join(map(shown, value)) + "}"
        return f"{value:.0f}" if value >= 1_000 else f"{value:.2f}"
    lines = [f"    .{name} = {shown(value)}," for name, value in found.items()]
    return ("// Made by `scripts/bench --costs docs/performance/sizing.json`, which has the rounds.\n"
            '#include "cli/size.hpp"\n\nnamespace tidegate::cli {\n\n'
            "const SizeCosts kSizeCosts{\n" + "\n".join(lines) + "\n};\n\n"
            "}  // namespace tidegate::cli\n")


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench --costs")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    text = source_text(costs(json.loads(chosen.file.read_text())))
    if not chosen.check:
        SOURCE.write_text(text)
    elif SOURCE.read_text() != text:
        sys.exit(f"{SOURCE.relative_to(ROOT)} is not what scripts/bench --costs makes")


if __name__ == "__main__":
    main()
