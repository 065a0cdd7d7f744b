#!/usr/bin/env python3
"""A soak: full speed beside clients that misbehave, upstreams that die and a Redis that goes away.

Half of the time counts in process, half in Redis. Afterwards nothing may be left over, and every
request must be accounted for by clients, upstreams, metrics and access log alike.
"""

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time

import audit
from ledger import KINDS
from metrics import Metrics
from world import HERE, Failed, Redis, Tidegate, Upstream, World, until

IDLE_SECONDS = 3  # upstream connections are kept so long

SETTINGS = """
threads: 2
store: {store}
replicas: 1
identity:
  client_ip: {{trusted_proxies: [127.0.0.1]}}
  user: [{{header: {{name: x-user-id, from: trusted_proxies}}}}]
upstreams:
  steady:
    servers: ["http://127.0.0.1:{steady}"]
    timeouts: {{idle: {idle}s}}
  flaky:
    servers: ["http://127.0.0.1:{dying}", "http://127.0.0.1:{lasting}"]
    timeouts: {{connect: 1s, response: 1s, stream_idle: 1s, idle: {idle}s}}
policies:
  soak: {{key: [ip, user], limits: [30/s, 120/10s]}}
timeouts: {{request_head: 2s, request_body: 2s, client_write: 2s, client_idle: 5s, drain: 10s}}
routes:
"""


def settings(store, steady, dying, lasting):
    text = SETTINGS.format(store=store, steady=steady.port, dying=dying.port,
                           lasting=lasting.port, idle=IDLE_SECONDS)
    for kind in KINDS:
        upstream = "flaky" if kind == "flaky" else "steady"
        text += (f"  - {{name: {kind}, match: {{path: /{kind}/**}}, upstream: {upstream}, "
                 "policies: [soak]}\n")
    return text


class Trouble:
    """The faults on purpose and their times: (when, action), again and again."""

    def __init__(self, seconds, dying, redis, log_counter):
        self.began = time.monotonic()
        self.until = self.began + seconds
        self.dying, self.redis, self.log_counter = dying, redis, log_counter
        self.upstream_deaths = self.redis_deaths = self.redis_pauses = 0
        # So that a short run has each of it, and a long one each of it often.
        self.redis_every = max(4.0, min(30.0, seconds / 5))
        self.plan = [(1.0, self.kill_upstream)]
        if redis:
            self.plan += [(self.redis_every * 0.5, self.kill_redis),
                          (self.redis_every * 1.2, self.pause_redis)]
        # The reader of the access log stops for a while: lines are dropped, and counted.
        self.plan.append((seconds * 0.4, self.pause_log))

    def look(self):
        """Runs the actions that are due."""
        passed = time.monotonic() - self.began
        due = [what for when, what in self.plan if when <= passed]
        self.plan = [step for step in self.plan if step[0] > passed]
        for what in due:
            what(passed)

    def mend(self):
        """Everything is up again and stays so."""
        pending, self.plan = self.plan, []
        for _, what in pending:
            if what in (self.start_upstream, self.start_redis, self.go_on_redis, self.go_on_log):
                what(0.0)
        self.plan = []
        self.dying.wait()

    def kill_upstream(self, passed):
        self.dying.kill()
        self.upstream_deaths += 1
        self.plan.append((passed + random.uniform(0.2, 1.5), self.start_upstream))

    def start_upstream(self, passed):
        self.dying.start()
        self.plan.append((passed + random.uniform(1.5, 5.0), self.kill_upstream))

    def kill_redis(self, passed):
        self.redis.kill()
        self.redis_deaths += 1
        self.plan.append((passed + random.uniform(0.3, 2.0), self.start_redis))

    def start_redis(self, passed):
        self.redis.start()
        self.plan.append((passed + self.redis_every, self.kill_redis))

    def pause_redis(self, passed):
        if self.redis.process is None:
            return self.plan.append((passed + 1.0, self.pause_redis))
        self.paused = self.redis.process
        self.paused.send_signal(signal.SIGSTOP)
        self.redis_pauses += 1
        self.plan.append((passed + random.uniform(0.2, 1.0), self.go_on_redis))

    def go_on_redis(self, passed):
        if self.paused.poll() is None:
            self.paused.send_signal(signal.SIGCONT)
        self.plan.append((passed + self.redis_every * 1.3, self.pause_redis))

    def pause_log(self, passed):
        self.log_counter.send_signal(signal.SIGSTOP)
        self.plan.append((passed + 3.0, self.go_on_log))

    def go_on_log(self, _):
        self.log_counter.send_signal(signal.SIGCONT)


def run_load(world, tidegate, seconds, trouble):
    """Samples of (RSS, descriptors); the counts of wrk; the counts of the other clients."""
    wrk = world.start(["wrk", "-t2", f"-c{audit.FAST_AT_ONCE}", f"-d{seconds:.0f}s",
                       "--timeout", "10s", "-s", HERE / "load.lua",
                       f"http://127.0.0.1:{tidegate.port}/"],
                      stdout=subprocess.PIPE, text=True)
    clients = world.start_script("clients.py", tidegate.port, seconds, stdout=subprocess.PIPE,
                                 text=True)
    samples = []
    next_sample = time.monotonic()
    while time.monotonic() < trouble.until:
        trouble.look()
        if time.monotonic() >= next_sample:
            if tidegate.process.poll() is not None:
                raise Failed("tidegate died:\n" + tidegate.errors())
            samples.append((tidegate.rss_kib(), tidegate.descriptors()))
            next_sample += 0.5
        time.sleep(0.02)
    trouble.mend()
    wrk_said, _ = wrk.communicate(timeout=60)
    counted = next(line for line in wrk_said.splitlines() if line.startswith("counted "))
    clients_said, _ = clients.communicate(timeout=120)
    return samples, json.loads(counted.removeprefix("counted ")), json.loads(clients_said)


def wait_for_quiet(tidegate, descriptors_before):
    """The last scrape, once every connection is gone or it is plain that some never go."""
    def quiet():
        figures = Metrics(tidegate.admin_port)
        time.sleep(0.2)  # our own connection to it ends
        return (figures.total("tidegate_client_connections") == 0
                and figures.total("tidegate_upstream_connections") == 0
                and tidegate.descriptors() == descriptors_before)
    try:
        until(quiet, 30, "quiet")
    except Failed:
        pass  # the audit says what is left
    figures = Metrics(tidegate.admin_port)
    time.sleep(0.5)  # as above
    return figures


def half(program, kind, seconds, sanitized):
    """One run over one store. The lines of its table and the violations."""
    with tempfile.TemporaryDirectory(prefix="tidegate-soak-") as folder, World(folder) as world:
        steady, dying, lasting = (Upstream(world, name) for name in ("steady", "dying", "lasting"))
        for upstream in (steady, dying, lasting):
            upstream.wait()
        redis = Redis(world) if kind == "redis" else None
        store = f"{{redis: {{url: 'redis://127.0.0.1:{redis.port}'}}}}" if redis else "memory"
        tidegate = Tidegate(world, program, settings(store, steady, dying, lasting),
                            access="{path: '-'}", stdout=subprocess.PIPE)
        log_counter = world.start_script("log_counter.py", stdin=tidegate.process.stdout,
                                         stdout=subprocess.PIPE, text=True)
        tidegate.process.stdout.close()
        time.sleep(1.0)
        result = audit.Result(kind, seconds, sanitized)
        result.descriptors_before = tidegate.descriptors()
        trouble = Trouble(seconds, dying, redis, log_counter)
        result.samples, result.wrk, result.clients = run_load(world, tidegate, seconds, trouble)
        result.metrics = wait_for_quiet(tidegate, result.descriptors_before)
        result.descriptors_after = tidegate.descriptors()
        result.open_files_after = tidegate.open_files()
        result.rss_after = tidegate.rss_kib()
        result.seen = audit.sum_by_kind(steady, dying, lasting)
        result.trouble = trouble
        result.exit_code = tidegate.stop()
        result.log = json.loads(log_counter.communicate(timeout=30)[0])
        result.errors = tidegate.errors()
        return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("minutes", type=float, nargs="?", default=10.0)
    parser.add_argument("--sanitized", action="store_true")
    arguments = parser.parse_args()
    seconds = max(20.0, arguments.minutes * 30)
    violations = []
    for kind in ("memory", "redis"):
        result = half(arguments.program, kind, seconds, arguments.sanitized)
        found = audit.violations(result)
        print(audit.table(result), flush=True)
        for violation in found:
            print(f"VIOLATED ({kind}): {violation}", flush=True)
        violations += found
    print("soak: " + ("nothing violated" if not violations else f"{len(violations)} violated"))
    return 1 if violations else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main())
    except Failed as failed:
        sys.exit(f"soak: {failed}")
