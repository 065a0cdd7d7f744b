"""Rows of HTTP/2 with clients: streams under load, over TLS and in the clear, and idle connections.

All proxies speak HTTP/1.1 with the same upstream as in the other rows.
"""

import functools
import re
import subprocess

import peers
import tls
from machine import Missing, Wrong, need
from measure import PROBES, Sample, fields_of_head
from peers import ANSWER
from rows import Row
from tls import NAME, TlsMeasuring

TLS_ROWS = ("tidegate-h2", "nginx-h2", "haproxy-h2")
CLEAR = "tidegate-h2c"
# Connections, and streams on each at a time.
LOADS = {"h2-wide": (8, 10), "h2-narrow": (32, 1)}
PARTS = {**dict.fromkeys(LOADS, (*TLS_ROWS, CLEAR)), "h2-idle": TLS_ROWS}
# A server may end a connection that has had many streams, as Tidegate does after 10,000, and h2load
# opens no other. So a second is measured in two runs, with connections of their own each.
RUNS_A_SECOND = 2
WARM_UP = "100ms"  # of each run, with its handshakes


def in_the_clear(program):
    def start(world):
        try:
            return peers.start_tidegate(world, program, tls.SETTINGS, face=", http: [h2, http1]")
        except Wrong as fault:
            raise Missing(f"it does not start with `http: [h2, http1]`: {fault}") from fault
    return start


def all_rows(program):
    return [Row("tidegate-h2", "Tidegate", tls.tidegate(program)),
            Row("nginx-h2", "nginx", functools.partial(tls.nginx, protocols=" http2")),
            Row("haproxy-h2", "HAProxy",
                functools.partial(tls.haproxy, protocols=" alpn h2,http/1.1")),
            Row(CLEAR, "Tidegate, in the clear", in_the_clear(program))]


class Http2Measuring(TlsMeasuring):
    """As Measuring, for these parts."""

    def verify(self, setup, row):
        for _ in range(PROBES):
            verify(setup, row.name == CLEAR)

    def measure(self, world, setup, part, row):
        if part == "h2-idle":
            return self.idle(world, setup, ("--http2",))
        self.run(world, setup, part, row)  # what is there only once is there before
        runs = [self.run(world, setup, part, row) for _ in range(self.seconds * RUNS_A_SECOND)]
        requests = sum(run["requests"] for run in runs)
        return {"requests": requests, "rps": requests / self.seconds,
                "rss_kib": runs[-1]["rss_kib"],
                **{name: sum(run[name] * run["requests"] for run in runs) / requests
                   for name in ("proxy_us", "upstream_us")}}

    def load_of(self, part):
        """Connections, and streams on each at a time."""
        return LOADS[part]

    def request_of(self, world, row):
        """What h2load asks for: its options, and the URL."""
        fields = [f"--header={name}: {value}" for name, value in fields_of_head(0).items()]
        return [*fields, f"{'http' if row.name == CLEAR else 'https'}://{NAME}/"]

    def run(self, world, setup, part, row):
        """h2load for a part of a second, between its handshakes and its end."""
        connections, streams = self.load_of(part)
        command = world.on_cpus("load", [
            need("h2load"), "--threads=1", f"--clients={connections}",
            f"--max-concurrent-streams={streams}", f"--warm-up-time={WARM_UP}",
            f"--duration={1000 // RUNS_A_SECOND}ms", f"--connect-to=127.0.0.1:{setup.port}",
            *self.request_of(world, row)])
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True) as load:
            try:
                said = _until(load, "Main benchmark duration is started")
                before = Sample(setup)
                said += _until(load, "Main benchmark duration is over")
                after = Sample(setup)
                said += load.stdout.read()
                if load.wait(timeout=30) != 0:
                    raise Wrong(f"h2load ended with {load.returncode}: {said[-500:]}")
            finally:
                load.kill()
        requests = _answered(said)
        return {"requests": requests, **after.since(before, requests)}


def _until(load, words):
    """What h2load says up to a line with these words, as soon as it says them."""
    said = ""
    for line in load.stdout:
        said += line
        if words in line:
            return said
    raise Wrong(f"h2load: {said[-500:]}")


def _answered(said):
    """How many requests were answered while it was measured, all of them 2xx."""
    if re.search(r"^Application protocol: (?!h2)", said, re.MULTILINE):
        raise Wrong("h2load did not speak HTTP/2")
    counts = re.search(r"(\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout",
                       said)
    statuses = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", said)
    if not counts or not statuses:
        raise Wrong(f"h2load: {said[-500:]}")
    done, succeeded, *faults = map(int, counts.groups())
    # One of an answer's head and its end may be counted as of the measurement, and not the other.
    others = map(int, statuses.groups()[1:])
    if not done or done != succeeded or any(faults) or any(others):
        raise Wrong(f"h2load: {counts[0]}; {statuses[0]}")
    return done


def verify(setup, is_clear):
    """HTTP/2 and the upstream's answer."""
    how = ["--http2-prior-knowledge"] if is_clear else ["--http2", "--insecure"]
    done = subprocess.run(
        [need("curl"), "--silent", "--show-error", "--max-time", "5", *how,
         "--connect-to", f"::127.0.0.1:{setup.port}",
         "--write-out", "\n%{http_version} %{http_code}",
         f"{'http' if is_clear else 'https'}://{NAME}/"],
        capture_output=True, text=True, timeout=20)
    body, _, answered = done.stdout.rpartition("\n")
    version, _, status = answered.partition(" ")
    if version not in ("0", "2"):
        raise Missing(f"it does not speak HTTP/2: it answers in HTTP/{version}")
    if done.returncode != 0 and is_clear:
        raise Missing(f"it does not speak HTTP/2 in the clear: {done.stderr.strip()}")
    if (done.returncode, status, body) != (0, "200", ANSWER):
        raise Wrong(f"answered {status} {body[:80]!r} {done.stderr.strip()}")
