"""Rows of WebSockets: idle ones, and messages that come back, in the clear and over TLS."""

import dataclasses
import functools
import json
import pathlib
import subprocess
import tempfile
import time

import peers
import tls
from machine import Missing, Wrong, World
from measure import Sample
from rows import Row

OPEN = 64  # under load
IDLE = 4_000
CLEAR_ROWS = ("tidegate-tunnel", "nginx-tunnel", "haproxy-tunnel")
TLS_ROWS = tuple(f"{row}-tls" for row in CLEAR_ROWS)
PARTS = dict.fromkeys(("tunnel-echo", "tunnel-idle"), (*CLEAR_ROWS, *TLS_ROWS))

SETTINGS = (f"upstreams: {{api: {{servers: [UPSTREAM], max_connections: {2 * IDLE}}}}}\n"
            "routes: [{name: all, match: {path: '/**'}, upgrade: [websocket], upstream: api, "
            "policies: []}]\n")
NGINX = {"location": "proxy_set_header Upgrade $http_upgrade; proxy_read_timeout 1h;",
         "connection": "upgrade"}


def needs_upgrade(start):
    """A program without `upgrade` is not for these rows."""
    def start_it(world):
        try:
            return start(world)
        except Wrong as fault:
            raise Missing(f"it does not start with `upgrade: [websocket]`: {fault}") from fault
    return start_it


def all_rows(program):
    def clear(world):
        return peers.start_tidegate(world, program, SETTINGS)

    starts = (
        ("Tidegate", needs_upgrade(clear)),
        ("nginx", functools.partial(peers.nginx, **NGINX)),
        ("HAProxy", peers.haproxy),
        ("Tidegate, TLS", needs_upgrade(tls.tidegate(program, SETTINGS))),
        ("nginx, TLS", functools.partial(tls.nginx, **NGINX)),
        ("HAProxy, TLS", tls.haproxy),
    )
    return [Row(name, label, start)
            for name, (label, start) in zip((*CLEAR_ROWS, *TLS_ROWS), starts)]


@dataclasses.dataclass
class TunnelMeasuring:
    """As Measuring, for these parts. Every message is compared with the one that was sent."""

    client: str  # bench_tunnel
    upstream: str  # bench_tunnel_echo
    seconds: int

    def round(self, part, row):
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, \
                World(pathlib.Path(folder)) as world:
            world.upstream = lambda port: [self.upstream, "--port", port]
            setup = row.start(world)
            with self.tunnels(world, setup, row, OPEN) as few:
                few.messages()  # what is there only once is there before
            return (self.idle if part == "tunnel-idle" else self.echo)(world, setup, row)

    def echo(self, world, setup, row):
        with self.tunnels(world, setup, row, OPEN) as tunnels:
            before = Sample(setup)
            result = tunnels.messages()
            figures = Sample(setup).since(before, result["echoes"])
        return {"requests": result["echoes"], "rps": result["echoes"] / result["seconds"],
                **{name: result[name] for name in ("p50_us", "p99_us", "p999_us")}, **figures}

    def idle(self, world, setup, row):
        """Private memory without tunnels and with those that have carried one message each."""
        before = setup.proxy.private_kib()
        with self.tunnels(world, setup, row, IDLE) as tunnels:
            time.sleep(0.5)  # what the last ones needed is given back by then
            after = setup.proxy.private_kib()
            tunnels.messages()  # they are all still open
        return {"before_kib": before, "after_kib": after, "idle_kib": (after - before) / IDLE}

    def tunnels(self, world, setup, row, count):
        return Tunnels(world.on_cpus("load", [
            self.client, "--port", setup.port, "--name", tls.NAME, "--tunnels", count,
            "--seconds", self.seconds, *(["--tls"] if row.kind in TLS_ROWS else [])]))


class Tunnels:
    """bench_tunnel with its tunnels open."""

    def __init__(self, command):
        self.client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)

    def __enter__(self):
        self._line("open\n")
        return self

    def __exit__(self, *_):
        self.client.kill()
        self.client.communicate()

    def messages(self):
        self.client.stdin.write("go\n")
        self.client.stdin.flush()
        return json.loads(self._line())

    def _line(self, wanted=None):
        line = self.client.stdout.readline()
        if not line or wanted not in (None, line):
            self.client.kill()
            raise Wrong(self.client.communicate()[1].strip() or f"bench_tunnel: {line!r}")
        return line
