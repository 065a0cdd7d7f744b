"""Rows over TLS: new connections, resumed ones, requests on a connection that stays, idle ones."""

import dataclasses
import http.client
import json
import pathlib
import ssl
import subprocess
import tempfile
import time

import peers
from load import IDLE_CLIENTS
from machine import Wrong, World, need
from measure import PROBES, Sample
from peers import ANSWER
from rows import Row

NAME = "bench.test"  # as in the heads of load.py
THREADS = 8  # of the client that makes connections
# What each part is, and which option makes bench_tls do it.
NEW = {"tls-new": (), "tls-resumed": ("--resume",)}
ROWS = ("tidegate-tls", "nginx-tls", "haproxy-tls")
PARTS = dict.fromkeys((*NEW, "tls-kept", "tls-idle"), ROWS)

SETTINGS = ("timeouts: {client_idle: 1h}\n"
            "upstreams: {api: {servers: [UPSTREAM], idle_connections: 256}}\n"
            "routes: [{name: all, match: {path: '/**'}, upstream: api, policies: []}]\n")


def make_certificate(world):
    """A self-signed one with an ECDSA key; as two files, and as the one that HAProxy reads."""
    pem, key = world.folder / "bench.pem", world.folder / "bench.key"
    command = [need("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
               "ec_paramgen_curve:P-256", "-nodes", "-days", "30", "-subj", f"/CN={NAME}",
               "-addext", f"subjectAltName=DNS:{NAME}", "-keyout", key, "-out", pem]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    if done.returncode != 0:
        raise Wrong(f"openssl: {done.stderr}")
    world.file("both.pem", pem.read_text() + key.read_text())
    return pem, key


def tidegate(program, settings=SETTINGS):
    def start(world):
        pem, key = make_certificate(world)
        key.chmod(0o600)
        return peers.start_tidegate(
            world, program, settings,
            face=f", tls: {{certificates: [{{certificate: {pem}, key: {key}}}]}}")
    return start


def nginx(world, protocols="", **settings):
    """`protocols`: beside HTTP/1.1."""
    pem, key = make_certificate(world)
    return peers.nginx(world, listen=f" ssl{protocols}", more=f"""
        ssl_certificate {pem}; ssl_certificate_key {key};
        ssl_protocols TLSv1.2 TLSv1.3;""", **settings)


def haproxy(world, protocols=""):
    make_certificate(world)
    return peers.haproxy(
        world, bind=f"ssl crt {world.folder}/both.pem ssl-min-ver TLSv1.2{protocols}")


def all_rows(program):
    return [Row("tidegate-tls", "Tidegate", tidegate(program)),
            Row("nginx-tls", "nginx", nginx), Row("haproxy-tls", "HAProxy", haproxy)]


@dataclasses.dataclass
class TlsMeasuring:
    """As Measuring, for these parts."""

    client: str  # bench_tls
    loads: object
    heads: dict
    seconds: int

    def round(self, part, row):
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, \
                World(pathlib.Path(folder)) as world:
            setup = row.start(world)
            self.verify(setup, row)
            figures = self.measure(world, setup, part, row)
            self.verify(setup, row)
            return figures

    def verify(self, setup, _):
        verify(setup)

    def measure(self, world, setup, part, _):
        if part == "tls-idle":
            return self.idle(world, setup)
        if part == "tls-kept":
            return self.kept(world, setup)
        self.visit(world, setup, NEW[part], 1)  # what is there only once is there before
        before = Sample(setup)
        result = self.visit(world, setup, NEW[part], self.seconds)
        figures = Sample(setup).since(before, result["connections"])
        if "--resume" in NEW[part] and result["resumed"] < 0.99 * result["connections"] - THREADS:
            raise Wrong(f"only {result['resumed']} of {result['connections']} were resumed")
        if not NEW[part] and result["resumed"]:
            raise Wrong("a connection that must be new was resumed")
        return {"requests": result["connections"],
                "rps": result["connections"] / result["seconds"],
                **{name: result[name] for name in ("p50_us", "p99_us", "p999_us")}, **figures}

    def visit(self, world, setup, options, seconds):
        command = self.command(world, setup, ["--seconds", seconds, "--threads", THREADS, *options])
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30)
        if done.returncode != 0:
            raise Wrong(done.stderr)
        result = json.loads(done.stdout)
        if result["failed"] or not result["connections"]:
            raise Wrong(f"bench_tls: {result}")
        return result

    def command(self, world, setup, options):
        return list(map(str, world.on_cpus("load", [self.client, "--port", setup.port,
                                                    "--name", NAME, *options])))

    def kept(self, world, setup):
        """Requests on connections that stay, as fast as answers come."""
        heads = self.heads["users"]
        self.loads.wrk(world, setup.port, heads, 1, scheme="https")
        before = Sample(setup)
        result = self.loads.wrk(world, setup.port, heads, self.seconds, scheme="https")
        figures = Sample(setup).since(before, result["requests"])
        if result["refused"]:
            raise Wrong(f"{result['refused']} answers were not 200")
        return {"requests": result["requests"], "rps": result["requests"] / result["seconds"],
                **{name: result[name] for name in ("p50_us", "p99_us", "p999_us")}, **figures}

    def idle(self, world, setup, options=()):
        """Private memory without and with clients that asked once and then sit there."""
        self.visit(world, setup, options, 1)
        before = setup.proxy.private_kib()
        holding = subprocess.Popen(
            self.command(world, setup, ["--hold", IDLE_CLIENTS, *options]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            if holding.stdout.readline() != "held\n":
                raise Wrong(f"idle clients: {holding.stderr.read()}")
            time.sleep(0.5)  # what the last ones needed is given back by then
            after = setup.proxy.private_kib()
            result = json.loads(holding.communicate(timeout=60)[0])
            if result["ended"]:
                raise Wrong(f"{result['ended']} idle connections were ended")
        finally:
            holding.kill()
            holding.communicate()
        return {"before_kib": before, "after_kib": after,
                "idle_kib": (after - before) / IDLE_CLIENTS}


def verify(setup):
    """TLS 1.3 with the certificate made for it, and the upstream's answer."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for _ in range(PROBES):
        connection = http.client.HTTPSConnection("127.0.0.1", setup.port, timeout=5,
                                                 context=context)
        try:
            connection.request("GET", "/", headers={"Host": NAME})
            version = connection.sock.version()
            answer = connection.getresponse()
            status, body = answer.status, answer.read().decode(errors="replace")
        finally:
            connection.close()
        if (version, status, body) != ("TLSv1.3", 200, ANSWER):
            raise Wrong(f"answered {status} {body[:80]!r} over {version}")
