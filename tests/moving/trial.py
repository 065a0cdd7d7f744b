#!/usr/bin/env python3
"""Another rate limiter, and the Tidegate that is to replace it: do they admit the same requests?

    tests/moving/trial.py [--tidegate build/dev/tidegate]

Both run with the blocks of docs/moving.md that are marked `moving NAME`, and get the same requests at
the same times. Of Traefik, Kong and Envoy's ratelimit, which are no packages, a model of what they
document says what they would admit. All pairs run at once. The exit code is 1 when one part does not
hold. Everything listens on loopback only, and ends with this program.
"""

import argparse
import http.client
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "soak"))
sys.dont_write_bytecode = True

from world import Failed, Tidegate, World, accepts, free_port, until  # noqa: E402

PAGE = ROOT / "docs/moving.md"
MODULES = ROOT / "build/moving/node"
TIMEOUT_S = 30.0
ATTEMPTS = 5  # of a pair, when the machine was too slow for its times
ALICE, BOB = "127.0.0.11", "127.0.0.12"
NGINX = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log notice;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
{snippet}
}}
"""
HAPROXY = """
global
    maxconn 512
defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
{snippet}
backend app
    server app 127.0.0.1:{app}
"""


class Step:
    """At `at` seconds, clients send so many requests each, at once."""

    def __init__(self, at, **counts):
        self.at, self.counts = at, counts


ADDRESSES = {"alice": ALICE, "bob": BOB}
# A burst that is too large, one while little has come back, and one when all is there again.
BUCKET = [Step(0, alice=8, bob=3), Step(5, alice=4), Step(17, alice=8)]
WINDOW = [Step(0, alice=26, bob=5), Step(5, alice=3), Step(22, alice=26)]
SECONDS = [Step(0, alice=8, bob=3), Step(1, alice=8), Step(2, alice=2)]


class TokenBucket:
    """Traefik's: a request that lacks less than a part of a token waits for it, and goes on."""

    def __init__(self, average, period_s, burst):
        self.rate, self.burst = average / period_s, burst
        self.wait_s = 0.5 if self.rate < 1 else 0.5 / self.rate
        self.buckets = {}

    def admits(self, client, now):
        tokens, then = self.buckets.get(client, (self.burst, now))
        tokens = min(self.burst, tokens + (now - then) * self.rate) - 1
        if tokens < -self.wait_s * self.rate:
            return False
        self.buckets[client] = tokens, now
        return True


class FixedWindow:
    """Kong's and Envoy's ratelimit: windows of the clock, which begin at whole seconds."""

    def __init__(self, quota, window_s):
        self.quota, self.window_s, self.counts = quota, window_s, {}

    def admits(self, client, now):
        window = client, now // self.window_s
        self.counts[window] = self.counts.get(window, 0) + 1
        return self.counts[window] <= self.quota


class Pair:
    """`start(world, block, app)` gives the peer's port; a model has `make` instead. Requests of a step
    have to be sent within `slack_s`. `at_second`: the steps are for a time of the clock."""

    def __init__(self, name, language, steps, start=None, make=None, slack_s=0.7, at_second=False,
                 waits=False):
        self.name, self.language, self.steps, self.start, self.make = name, language, steps, start, make
        self.slack_s, self.at_second, self.waits = slack_s, at_second, waits


def blocks():
    """{(NAME, language): text} of docs/moving.md."""
    found = re.findall(r"^```(\w+) moving (\S+)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"),
                       re.MULTILINE | re.DOTALL)
    return {(name, language): text for language, name, text in found}


def replaced(name, text, changes):
    for before, after in changes:
        if before not in text:
            raise Failed(f"{PAGE}: a block of {name} lacks `{before}`")
        text = text.replace(before, after)
    return text


def number(block, key):
    return int(re.search(rf"\b{key}: (\d+)", block)[1])


def start(world, name, command, port, **options):
    log = world.folder / f"{name}.out"
    process = world.start(command, stdout=open(log, "wb"), stderr=subprocess.STDOUT, **options)

    def ready():
        if process.poll() is not None:
            raise Failed(f"{name} ended:\n{log.read_text(errors='replace')}")
        return accepts(port)

    until(ready, 30, name)
    return port


def start_nginx(world, pair, block, app):
    port, folder = free_port(), world.folder / pair.name
    folder.mkdir()
    snippet = replaced(pair.name, block, [("listen 8080;", f"listen 127.0.0.1:{port};"),
                                          ("127.0.0.1:3000", f"127.0.0.1:{app}")])
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, snippet=snippet))
    return start(world, pair.name, ["nginx", "-p", folder, "-e", folder / "nginx.log", "-c", config],
                 port)


def start_haproxy(world, pair, block, app):
    port = free_port()
    config = world.folder / f"{pair.name}.cfg"
    config.write_text(HAPROXY.format(app=app, snippet=replaced(
        pair.name, block, [("bind :8080", f"bind 127.0.0.1:{port}")])))
    return start(world, pair.name, ["haproxy", "-db", "-f", config], port)


def start_express(world, pair, block, _app):
    port = free_port()
    program = world.folder / "express.cjs"
    program.write_text(replaced(pair.name, block, [("app.listen(8080)",
                                                    f"app.listen({port}, '127.0.0.1')")]))
    return start(world, pair.name, ["node", program], port,
                 env=dict(os.environ, NODE_PATH=str(MODULES / "node_modules")))


PAIRS = [
    Pair("nginx-nodelay", "nginx", BUCKET, start=start_nginx),
    Pair("nginx-delay", "nginx", [Step(0, alice=7, bob=2), Step(6, alice=2)], start=start_nginx,
         slack_s=0.4, waits=True),
    Pair("nginx-strict", "nginx", [Step(0, alice=3, bob=1), Step(3, alice=2)], start=start_nginx),
    # Bob is in the allowlist.
    Pair("ingress-nginx", "nginx", [Step(0, alice=8, bob=8), Step(5, alice=2), Step(17, alice=4)],
         start=start_nginx),
    Pair("haproxy", "haproxy", WINDOW, start=start_haproxy),
    Pair("express-rate-limit", "js", WINDOW, start=start_express),
    Pair("traefik", "yaml", BUCKET,
         make=lambda block: TokenBucket(number(block, "average"), 60, number(block, "burst"))),
    Pair("kong", "yaml", SECONDS, make=lambda block: FixedWindow(number(block, "second"), 1),
         at_second=True, slack_s=0.5),
    Pair("ratelimit", "yaml", SECONDS,
         make=lambda block: FixedWindow(number(block, "requests_per_unit"), 1), at_second=True,
         slack_s=0.5),
]


class Asked:
    """One request: when it was sent, its result, and how long that took."""

    def __init__(self, step, client):
        self.step, self.client = step, client
        self.sent = self.status = self.took = None

    def send(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, TIMEOUT_S,
                                                source_address=(ADDRESSES[self.client], 0))
        connection.connect()
        self.sent = time.time()
        connection.request("GET", "/")
        response = connection.getresponse()
        response.read()
        self.status, self.took = response.status, time.time() - self.sent
        connection.close()


def send_steps(pair, ports):
    """The requests to each port."""
    asked = [[] for _ in ports]
    begin = time.time() + 0.2
    if pair.at_second:
        begin = int(begin) + 1.2
    threads, late = [], False
    for number, step in enumerate(pair.steps):
        time.sleep(max(0.0, begin + step.at - time.time()))
        of_step = []
        for client, count in step.counts.items():
            for _ in range(count):
                for place, port in enumerate(ports):
                    one = Asked(number, client)
                    asked[place].append(one)
                    of_step.append(one)
                    threads.append(threading.Thread(target=one.send, args=(port,), daemon=True))
                    threads[-1].start()
        time.sleep(pair.slack_s)
        late = late or any(one.sent is None or one.sent > begin + step.at + pair.slack_s
                           for one in of_step)
        if not pair.waits:
            late = late or any(one.status is None for one in of_step)
    for thread in threads:
        thread.join(TIMEOUT_S)
    return None if late else asked


def admitted(asked):
    """{(step, client): how many}."""
    counts = {}
    for one in asked:
        key = one.step, one.client
        counts[key] = counts.get(key, 0) + (one.status == 200)
    return counts


def modelled(pair, block, asked):
    model, counts = pair.make(block), {}
    for one in sorted(asked, key=lambda each: each.sent):
        key = one.step, one.client
        counts[key] = counts.get(key, 0) + model.admits(one.client, one.sent)
    return counts


def waits_text(asked):
    """How long those of the first client took that went through, in tenths of a second."""
    return sorted(round(one.took, 1) for one in asked if one.status == 200 and one.client == "alice")


def try_pair(world, program, pair, found, app):
    """The expectations that failed."""
    if (pair.name, "yaml") not in found or (pair.name, pair.language) not in found:
        return [f"{PAGE} has no blocks `moving {pair.name}`"]
    mine = (pair.name, "yaml") if pair.start else (f"{pair.name}-tidegate", "yaml")
    settings = replaced(pair.name, found[mine], [("127.0.0.1:3000", f"127.0.0.1:{app}")])
    for attempt in range(ATTEMPTS):
        run = types.SimpleNamespace(folder=world.folder / f"{pair.name}-{attempt}", start=world.start)
        run.folder.mkdir()
        tidegate = Tidegate(world, program, settings, name=f"tidegate-{pair.name}-{attempt}")
        ports = [tidegate.port]
        if pair.start:
            ports.append(pair.start(run, pair, found[pair.name, pair.language], app))
        asked = send_steps(pair, ports)
        if asked is None:
            continue
        ours = admitted(asked[0])
        theirs = admitted(asked[1]) if pair.start else modelled(
            pair, found[pair.name, pair.language], asked[0])
        wrong = [] if ours == theirs else [f"Tidegate admits {ours}, {pair.name} {theirs}"]
        if pair.waits and waits_text(asked[0]) != waits_text(asked[1]):
            wrong.append(f"Tidegate holds them for {waits_text(asked[0])} s, {pair.name} for "
                         f"{waits_text(asked[1])} s")
        statuses = {one.status for one in asked[0]} - {200, 429}
        if statuses or not any(one.status == 429 for one in asked[0]):
            wrong.append(f"Tidegate answers {statuses or 'all with 200'}")
        print(f"{'FAIL' if wrong else 'ok  '} {pair.name}: {sum(ours.values())} of "
              f"{len(asked[0])} requests admitted", flush=True)
        return wrong
    return [f"{pair.name}: the machine was too slow {ATTEMPTS} times"]


def install_express():
    if (MODULES / "node_modules/express-rate-limit").exists():
        return
    MODULES.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "package.json", MODULES)
    subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=MODULES, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidegate", default="build/release/tidegate")
    parser.add_argument("--only", help="one pair")
    arguments = parser.parse_args()
    program = os.path.abspath(arguments.tidegate)
    pairs = [pair for pair in PAIRS if arguments.only in (None, pair.name)]
    if any(pair.start is start_express for pair in pairs):
        install_express()
    found, wrong = blocks(), []
    with tempfile.TemporaryDirectory() as folder, World(pathlib.Path(folder)) as world:
        app = free_port()
        world.start([program, "echo", "--listen", f"127.0.0.1:{app}"], stderr=subprocess.DEVNULL)
        until(lambda: accepts(app), 20, "the upstream")

        def run(pair):
            try:
                wrong.extend(try_pair(world, program, pair, found, app))
            except (Failed, OSError, http.client.HTTPException) as fault:
                wrong.append(f"{pair.name}: {fault}")

        threads = [threading.Thread(target=run, args=(pair,)) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for one in wrong:
        print(f"wrong: {one}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
