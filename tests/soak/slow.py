#!/usr/bin/env python3
"""The four attacks of slowhttptest, 1,000 connections each, while good requests are made every
100 ms from another address: all of them must be answered, and soon.

slow.py PROGRAM [--seconds N] [--per-ip N]: with --per-ip, connections.per_ip stands in their way.
"""

import argparse
import http.client
import resource
import signal
import subprocess
import sys
import tempfile
import time

from metrics import Metrics
from world import Failed, Tidegate, Upstream, World, until

CONNECTIONS = 1000
GOOD_EVERY_SECONDS = 0.1
# The time within which half of the good ones, and all of them, are answered. The machine has other
# things to do.
HALF_SECONDS_MAX, ALL_SECONDS_MAX = 0.05, 1.0
GOOD_ADDRESS = "127.0.0.2"

# Each: its name, the arguments of slowhttptest, the path it attacks.
ATTACKS = (
    ("slow headers", ["-H", "-i", "2", "-x", "24"], "/fast/ok/x"),
    ("slow body", ["-B", "-i", "2", "-s", "8192", "-x", "10"], "/bulk/ok/x"),
    ("range", ["-R", "-a", "10", "-b", "3000"], "/fast/ok/x"),
    ("slow read", ["-X", "-w", "512", "-y", "1024", "-n", "2", "-z", "32", "-k", "3"],
     "/bulk/huge/x"),
)

# A slow upload holds an upstream connection from its first byte on, so there have to be more of
# those than the attack has connections; or fewer of these for one address.
SETTINGS = """
threads: 2
connections: {{max: 5000{per_ip}}}
timeouts: {{request_head: 5s, request_body: 5s, client_write: 5s, client_idle: 5s, drain: 5s}}
upstreams:
  attacked: {{servers: ["http://127.0.0.1:{attacked}"], max_connections: 2500}}
  good: {{servers: ["http://127.0.0.1:{good}"]}}
policies:
  per-client: {{key: [ip], limits: [1000000/s]}}
routes:
  - {{name: good, match: {{path: /fast/ok/good}}, upstream: good, policies: [per-client]}}
  - {{name: attacked, upstream: attacked, policies: [per-client]}}
"""


def good_request(port):
    """(status or fault, seconds), on a connection of its own."""
    begin = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10,
                                            source_address=(GOOD_ADDRESS, 0))
    try:
        connection.request("GET", "/fast/ok/good")
        answer = connection.getresponse()
        answer.read()
        return answer.status, time.monotonic() - begin
    except (OSError, http.client.HTTPException) as error:
        return repr(error), time.monotonic() - begin
    finally:
        connection.close()


def attack(world, tidegate, options, path, seconds):
    """Runs one attack. (statuses of good requests, their times, most connections at once)"""
    process = world.start(["slowhttptest", *options, "-c", CONNECTIONS, "-r", 500, "-l", seconds,
                           "-p", 3, "-v", 0, "-u", f"http://127.0.0.1:{tidegate.port}{path}"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + seconds + 15
    statuses, times, most = {}, [], 0
    due = time.monotonic()
    while process.poll() is None and time.monotonic() < deadline:
        status, took = good_request(tidegate.port)
        statuses[status] = statuses.get(status, 0) + 1
        times.append(took)
        if len(times) % 10 == 0:
            figures = Metrics(tidegate.admin_port)
            most = max(most, figures.total("tidegate_client_connections"))
        due = max(due + GOOD_EVERY_SECONDS, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    if process.poll() is None:
        world.end(process)
    return statuses, sorted(times), most


def answers_to_others(before, after):
    """The answers to the attack itself, by code and outcome."""
    codes = {}
    for (route, code, outcome), count in after.requests().items():
        more = count - before.requests()[route, code, outcome]
        if more and route != "good":
            name = f"{code} {outcome}"
            codes[name] = codes.get(name, 0) + more
    return codes


def run_one(program, options, path, seconds, per_ip):
    """One attack on a Tidegate of its own: (line of the table, violations)."""
    with tempfile.TemporaryDirectory(prefix="tidegate-slow-") as folder, World(folder) as world:
        attacked, good = Upstream(world, "attacked"), Upstream(world, "good")
        attacked.wait()
        good.wait()
        tidegate = Tidegate(world, program, SETTINGS.format(
            attacked=attacked.port, good=good.port,
            per_ip=f", per_ip: {per_ip}" if per_ip else ""))
        before = Metrics(tidegate.admin_port)
        statuses, times, most = attack(world, tidegate, options, path, seconds)
        told = answers_to_others(before, Metrics(tidegate.admin_port))
        until(lambda: Metrics(tidegate.admin_port).total("tidegate_client_connections") == 0,
              40, "the end of all connections of the attack")
        code = tidegate.stop()
        errors = tidegate.errors()
    bad = {status: count for status, count in statuses.items() if status != 200}
    violations = []
    if bad:
        violations.append(f"good requests were answered {bad}")
    if times[len(times) // 2] > HALF_SECONDS_MAX or times[-1] > ALL_SECONDS_MAX:
        violations.append("good requests were slow")
    if code != 0:
        violations.append(f"exit code {code}:\n{errors}")
    milliseconds = [times[len(times) * percent // 100] * 1000 for percent in (50, 99)]
    return (f"{most:>12}{len(times):>8}{sum(bad.values()):>9}{milliseconds[0]:>8.1f}"
            f"{milliseconds[1]:>8.1f}{times[-1] * 1000:>8.1f}  {told}", violations)


def run(program, seconds, per_ip):
    failed = False
    print(f"{'attack':<14}{'connections':>12}{'good':>8}{'not 200':>9}{'p50 ms':>8}{'p99 ms':>8}"
          f"{'max ms':>8}  what the attack got", flush=True)
    for name, options, path in ATTACKS:
        line, violations = run_one(program, options, path, seconds, per_ip)
        print(f"{name:<14}{line}", flush=True)
        for violation in violations:
            print(f"VIOLATED: {violation}", flush=True)
        failed = failed or bool(violations)
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--per-ip", type=int, default=0)
    arguments = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return run(arguments.program, arguments.seconds, arguments.per_ip)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except Failed as failed:
        sys.exit(f"slow: {failed}")
