"""What grows, one thing at a time: figures of Tidegate from the least to the most of it."""

import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import peers
from load import head, transfer
from machine import Missing, World, Wrong
from measure import Sample, check_answers, hold_idle
from rows import Row

IDENTIFIERS = (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000)
IDLE = (1, 10, 100, 1_000, 3_000, 9_900)
ROUTES = (1, 10, 100, 1_000)
LIMITS = (1, 2, 3, 5, 8, 12, 20)
BODIES = (0, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000)
THREADS = (1, 2, 4, 8, 16, 32)
LEASED_THREADS = (1, 4, 16, 32)

FILL_SECONDS = 120  # at most, to make a million names known
MEASURED_REQUESTS = 60_000
LARGE, LARGE_TOTAL = 1_000_000, 200_000_000

# Where a policy counts the user only: one name a request.
ONE_NAME = """
identity:
  client_ip: {trusted_proxies: [127.0.0.1]}
  user: [{header: {name: x-user-id, from: trusted_proxies}}]
upstreams: {api: {servers: [UPSTREAM], idle_connections: 256}}
"""
EVERYTHING = "routes: [{name: all, match: {path: '/**'}, upstream: api, policies: [%s]}]\n"
NUMBERED = head(0).replace("user-00000000", "user-@number@")


class Growth:
    def __init__(self, program, loads, folder, seconds):
        self.program, self.loads, self.seconds = program, loads, seconds
        self.one_head, self.numbered = folder / "one.heads", folder / "numbered.heads"
        self.one_head.write_text(head(0))
        self.numbered.write_text(NUMBERED)

    # ---- each series: (name, x, figures) for each point

    def identifiers(self, world, store, count):
        """A million names, each with three windows; the cost of one more request."""
        setup = self.tidegate(world, ONE_NAME + f"policies: {{all: {{key: [user], limits: "
                              f"{peers.rates(peers.PLENTY)}}}}}\n" + EVERYTHING % "all", store)
        empty = self.used_kib(setup)
        fill = max(count, 20_000)
        filled = self.loads.steady(world, setup.port, self.numbered, FILL_SECONDS, requests=fill,
                                   numbers=count)
        if filled["requests"] < fill or filled["refused"]:
            raise Wrong(f"only {filled} of {fill}")
        full = self.used_kib(setup)
        before = Sample(setup)
        result = self.loads.steady(world, setup.port, self.numbered, 30,
                                   requests=MEASURED_REQUESTS, numbers=count)
        figures = Sample(setup).since(before, result["requests"])
        # What Redis does not answer in time is decided without it; one key is the proxies' own.
        if setup.redis and not 0.99 * count <= figures["keys"] <= count + 1:
            raise Wrong(f"{figures['keys']} keys for {count} names")
        return {**figures, "grown_kib": full - empty}

    def idle(self, world, start, count):
        setup = start(world)
        before, after = hold_idle(setup, count)
        return {"grown_kib": after - before}

    def routes(self, world, _, count):
        """Each request takes the last of so many routes."""
        text = ONE_NAME + "policies: {}\nroutes:\n" + "".join(
            f"  - {{name: r{i}, match: {{path: /r{i}/**}}, upstream: api, policies: []}}\n"
            for i in range(count))
        return self.full_speed(world, self.tidegate(world, text), path=f"/r{count - 1}/x")

    def limits(self, world, store, count):
        """So many windows of one name, of one minute, two minutes and so on."""
        limits = ", ".join(f"1000000000/{minutes + 1}min" for minutes in range(count))
        setup = self.tidegate(world, ONE_NAME + f"policies: {{all: {{key: [user], limits: "
                              f"[{limits}]}}}}\n" + EVERYTHING % "all", store)
        return self.full_speed(world, setup, heads=self.numbered_copy(world))

    def numbered_copy(self, world):
        """Ten thousand users for wrk, which fills in no numbers."""
        return world.file("users.heads", "".join(map(head, range(10_000))))

    def downloads(self, world, start, size):
        setup = start(world)
        folder = world.folder / "bodies"
        with open(folder / "body", "wb") as body:
            body.truncate(size)
        heads = world.file("get.heads", head(0).replace("GET /", "GET /bodies/body"))
        return self.transfers(world, setup, heads, size, 0)

    def uploads(self, world, start, size):
        # nginx would answer before the body's end.
        world.upstream = lambda port: [self.program, "echo", "--listen", f"127.0.0.1:{port}"]
        setup = start(world)
        heads = world.file("post.heads", head(0, f"Content-Length: {size}\r\n")
                           .replace("GET /", "POST /"))
        return self.transfers(world, setup, heads, size, size)

    def threads(self, world, store, count):
        """A policy counts the user: one name a request."""
        setup = self.tidegate(world, ONE_NAME + f"threads: {count}\npolicies: {{all: {{key: "
                              f"[user], limits: {peers.rates(peers.PLENTY)}}}}}\n"
                              + EVERYTHING % "all", store)
        return self.full_speed(world, setup, heads=self.numbered_copy(world))

    def threads_two_names(self, world, store, count):
        """A policy counts the address and the user, as in the rows with Redis."""
        start = peers.tidegate(self.program, peers.PLENTY, store, more=f"threads: {count}\n")
        return self.full_speed(world, start(world), heads=self.numbered_copy(world))

    def leases(self, world, how, count):
        """One key that all requests share: a million a second, with leases and without."""
        store, lease = how
        setup = self.tidegate(world, ONE_NAME + f"threads: {count}\npolicies: {{all: {{key: "
                              f"['constant:all'], limits: [1000000/s]{lease}}}}}\n"
                              + EVERYTHING % "all", store)
        return self.full_speed(world, setup)

    # ---- what they share

    def tidegate(self, world, settings, store="memory"):
        redis = peers.start_redis(world) if store == "redis" else None
        if store == "memory":
            settings = "store: {memory: {max_keys: 2000000}}\n" + settings
        return peers.start_tidegate(world, self.program, settings, redis)

    def used_kib(self, setup):
        time.sleep(0.2)
        return (setup.redis or setup.proxy).rss_kib()

    def full_speed(self, world, setup, heads=None, path="/"):
        if path != "/":
            heads = world.file("path.heads", head(0).replace("GET /", f"GET {path}"))
        heads = heads or self.one_head
        self.loads.steady(world, setup.port, heads, 5, requests=12_000)
        before = Sample(setup)
        result = self.loads.wrk(world, setup.port, heads, self.seconds)
        figures = Sample(setup).since(before, result["requests"])
        check_answers(ANSWERED, result)
        return {**figures, "rps": result["requests"] / result["seconds"],
                "p50_us": result["p50_us"], "p99_us": result["p99_us"]}

    def transfers(self, world, setup, heads, size, sent):
        """Small bodies by many clients; large ones by one, as wrk counts only what it has whole."""
        before = Sample(setup)
        if size < LARGE:
            result = self.loads.wrk(world, setup.port, heads, self.seconds, 16, body_bytes=sent)
            check_answers(ANSWERED, result)
            requests, p50_us = result["requests"], result["p50_us"]
        else:
            requests = max(3, LARGE_TOTAL // size)
            took = transfer(setup.port, heads.read_bytes(), sent, size - sent, requests)
            p50_us = statistics.median(took) * 1e6
        figures = Sample(setup).since(before, requests)
        return {**figures, "p50_us": p50_us,
                "us_per_mb": figures["proxy_us"] / size * 1e6 if size else None}


ANSWERED = Row("growth", "", None)


def series(growth):
    """name -> (the points' function, its subject, the values of x, whether rounds repeat it)."""
    no_limits = peers.tidegate(growth.program)
    found = {}
    for store in ("memory", "redis"):
        found[f"identifiers-{store}"] = (growth.identifiers, store, IDENTIFIERS, False)
        found[f"limits-{store}"] = (growth.limits, store, LIMITS, True)
        found[f"threads-{store}"] = (growth.threads, store, THREADS, True)
    found["threads-redis-two-names"] = (growth.threads_two_names, "redis", THREADS, True)
    for name, how in (("without", ("redis", "")), ("with", ("redis", ", lease: auto")),
                      ("memory", ("memory", ""))):
        found[f"leases-{name}"] = (growth.leases, how, LEASED_THREADS, True)
    for name, start in (("tidegate", no_limits), ("nginx", peers.nginx_plain),
                        ("haproxy", peers.haproxy_plain)):
        found[f"idle-{name}"] = (growth.idle, start, IDLE, False)
    for name, start in (("tidegate", no_limits), ("haproxy", peers.haproxy_plain),
                        ("haproxy-splice", peers.haproxy_splice)):
        found[f"downloads-{name}"] = (growth.downloads, start, BODIES, False)
        found[f"uploads-{name}"] = (growth.uploads, start, BODIES, False)
    found["routes"] = (growth.routes, None, ROUTES, True)
    return found


def fault_in(wanted):
    """Names that begin no series' name; empty: there are none."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        known = series(Growth("", None, pathlib.Path(folder), 0))
    unknown = [prefix for prefix in wanted if not any(name.startswith(prefix) for name in known)]
    return (f"no growth of {', '.join(unknown)}; there are {', '.join(known)}" if unknown else "")


def run(growth, wanted, rounds, report, save):
    """Adds the points of the series in `wanted` (or all) to the report, in place of older ones;
    `save` is called after each series."""
    chosen = {name: how for name, how in series(growth).items()
              if not wanted or any(name.startswith(prefix) for prefix in wanted)}
    report["growth"] = [point for point in report.get("growth", [])
                        if point["series"] not in chosen]
    for name in chosen:
        report["left_out"].pop(f"growth/{name}", None)
    for turn in range(rounds):
        for name, (measure, of, values, repeated) in chosen.items():
            if turn and not repeated:
                continue
            for x in values:
                point(name, x, measure, of, report)
            save()


def point(name, x, measure, of, report):
    place = f"growth/{name}"
    if place in report["left_out"]:
        return
    try:
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, \
                World(pathlib.Path(folder)) as world:
            report["growth"].append({"series": name, "x": x, **measure(world, of, x)})
    except (Missing, Wrong, subprocess.TimeoutExpired) as fault:
        report["left_out"][place] = f"from {x:,} on: {fault}"
        print(f"left out: {place}: {fault}", file=sys.stderr, flush=True)
