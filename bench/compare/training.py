#!/usr/bin/env python3
"""The training of profile-guided optimisation: training.py TIDEGATE

Starts TIDEGATE once with its limits in process and once in Redis, and sends both the same traffic:
HTTP/1.1 and HTTP/2 in the clear and over TLS, gRPC, bodies, WebSockets, each face, requests over a
limit, paths without a route, a server that is gone. Fails where fewer than nine of ten answers have
the status that they should. `scripts/build profiled` runs it between its two builds.

It is not the load of scripts/bench: a program trained for that would do better there than in use.
"""

import base64
import concurrent.futures
import hashlib
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading

import peers
import tls
from grpc_calls import FIELDS, SERVICE, question
from machine import Missing, World, Wrong, accepts, free_ports, need, until

CLIENTS = 4  # programs that ask at the same time, each as a user of its own
REQUESTS = 4_000  # of each of them
TUNNELS = 16
MESSAGES = 1_500  # in each
PAYLOAD = b"x" * 100  # of each message
FRAME = bytes([0x82, 0x80 | len(PAYLOAD), *bytes(4)]) + PAYLOAD  # of a client; its mask is zeros
KEY = base64.b64encode(bytes(16)).decode()
OPENING = (f"GET /sockets HTTP/1.1\r\nHost: {tls.NAME}\r\n"
           "Upgrade: websocket\r\nConnection: upgrade\r\n"
           f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n")
OPENED = ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n"
          "Sec-WebSocket-Accept: ")
BODY_BYTES = (1_000, 100_000)
BODY_BYTES_SENT = 2_000_000  # by each client, in bodies of each of these sizes

LISTENERS = ("clear", "tls", "auth", "check", "envoy", "admin")
SETTINGS = """
listen:
  - {address: "127.0.0.1:{clear}", http: [h2, http1]}
  - {address: "127.0.0.1:{tls}", tls: {certificates: [{certificate: bench.pem, key: bench.key}]}}
  - {address: "127.0.0.1:{auth}", face: forward_auth, dialect: forwarded}
  - {address: "127.0.0.1:{check}", face: check}
  - {address: "127.0.0.1:{envoy}", face: envoy_grpc}
admin: "127.0.0.1:{admin}"
threads: 1
timeouts: {shutdown_delay: 0s}
log: {access: {path: access.log}}
rls: {files: [limits.yaml]}
identity:
  client_ip: {trusted_proxies: [127.0.0.1]}
  user: [{header: {name: x-user-id, from: trusted_proxies}}]
upstreams:
  http1: {servers: ["http://127.0.0.1:{http1}", "http://127.0.0.1:{other}"]}
  h2: {servers: ["h2c://127.0.0.1:{h2}"]}
  sockets: {servers: ["http://127.0.0.1:{sockets}"]}
  gone: {servers: ["http://127.0.0.1:{gone}"]}
policies:
  plenty: {key: [ip, user], limits: [1000000/s, 60000000/min, 3600000000/h]}
  bucket: {key: user, limits: [{quota: 100000, per: 1s, algorithm: gcra, burst: 100000}]}
  few: {key: user, limits: [100/h]}
routes:
  - {name: open, match: {path: "/open/**"}, upstream: http1, policies: []}
  - {name: limited, match: {path: "/limited/{id}", methods: [GET, POST]}, upstream: http1,
     policies: [plenty]}
  - {name: bucket, match: {path: "/bucket/**"}, upstream: http1, policies: [bucket]}
  - {name: few, match: {path: "/few/**"}, upstream: http1, policies: [few]}
  - {name: h2, match: {path: "/h2/**"}, upstream: h2, policies: [plenty]}
  - {name: gone, match: {path: "/gone/**"}, upstream: gone, policies: []}
  - {name: sockets, match: {path: "/sockets"}, upgrade: [websocket], upstream: sockets,
     policies: [plenty]}
"""
# A second Tidegate, the server of the first that speaks HTTP/2.
HTTP2_UPSTREAM = """
listen: {address: "127.0.0.1:{h2}", http: [h2]}
admin: off
threads: 1
timeouts: {shutdown_delay: 0s}
upstreams: {http1: {servers: ["http://127.0.0.1:{http1}"]}}
routes: [{name: all, match: {path: "/**"}, upstream: http1, policies: []}]
"""
DESCRIPTORS = """
domain: bench
descriptors:
  - key: limited
    rate_limit: {unit: hour, requests_per_unit: 3600000000}
"""


class Traffic:
    """Sends one Tidegate each kind of request."""

    def __init__(self, folder, ports):
        self.folder, self.ports = folder, ports

    def run_clients(self, listener, path, *options, answers="2xx", requests=REQUESTS,
                    connections=16):
        """CLIENTS of h2load at once, each as another user. Nine of ten answers must be `answers`."""
        scheme = "https" if listener == "tls" else "http"

        def run_h2load(user):
            command = [need("h2load"), "--threads=1", f"--requests={requests}",
                       f"--clients={connections}", f"--header=x-user-id: user-{user}",
                       f"--header=x-forwarded-for: 10.0.0.{user}", *options,
                       f"--connect-to=127.0.0.1:{self.ports[listener]}",
                       f"{scheme}://{tls.NAME}{path}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            found = re.search(rf"(\d+) {answers}", done.stdout)
            if done.returncode != 0 or not found or int(found[1]) < 0.9 * requests:
                raise Wrong(f"h2load {path}: {done.stdout[-1500:]}{done.stderr[-500:]}")
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(run_h2load, range(CLIENTS)))

    def data_option(self, content):
        """The option of h2load that sends `content` as the body."""
        file = self.folder / f"{hashlib.sha256(content).hexdigest()[:16]}.body"
        file.write_bytes(content)
        return f"--data={file}"

    def protocols(self):
        """Each with requests that have no body, those that have, and large answers."""
        for listener, how in (("clear", ["--h1"]), ("tls", ["--h1"]), ("clear", ["-m8"]),
                              ("tls", ["-m8"])):
            for path in ("/open/a?b=c", "/limited/7", "/h2/a"):
                self.run_clients(listener, path, *how)
            for size in BODY_BYTES:
                self.run_clients(listener, "/limited/7", *how, self.data_option(b"x" * size),
                                 requests=BODY_BYTES_SENT // size)
                self.run_clients(listener, f"/open/a?bytes={size}", *how, requests=200)
            self.run_clients(listener, "/open/a", *how, requests=100, connections=100)
        self.run_clients("clear", "/h2/Service/Method", *FIELDS, self.data_option(question("any")),
                         "-m8")

    def limits(self):
        for path, answers in (("/limited/7", "2xx"), ("/bucket/a", "2xx"), ("/few/a", "4xx"),
                              ("/nowhere", "4xx")):
            self.run_clients("clear", path, "--h1", answers=answers)
        self.run_clients("clear", "/gone/a", "--h1", answers="5xx", requests=200)

    def faces(self):
        self.run_clients("auth", "/", "--h1", "--header=x-forwarded-method: GET",
                         "--header=x-forwarded-uri: /limited/7",
                         f"--header=x-forwarded-host: {tls.NAME}")
        call = {"policy": "plenty", "identifiers": {"ip": "10.0.0.1", "user": "someone"}, "cost": 1}
        for content, requests in ((call, REQUESTS), ({"each": [call] * 50}, REQUESTS // 50)):
            self.run_clients("check", "/v1/check", "--h1",
                             "--header=content-type: application/json",
                             self.data_option(json.dumps(content).encode()), requests=requests)
        self.run_clients("envoy", SERVICE, *FIELDS, self.data_option(question("limited")), "-m8")

    def tunnels(self):
        def run_tunnel(_):
            with socket.create_connection(("127.0.0.1", self.ports["clear"]), timeout=30) as tunnel:
                tunnel.sendall(OPENING.encode())
                if b" 101 " not in until_blank_line(tunnel):
                    raise Wrong("a WebSocket was not opened")
                for _ in range(MESSAGES):
                    tunnel.sendall(FRAME)
                    if exactly(tunnel, 2 + len(PAYLOAD))[2:] != PAYLOAD:
                        raise Wrong("a WebSocket did not answer")
        with concurrent.futures.ThreadPoolExecutor(TUNNELS) as clients:
            list(clients.map(run_tunnel, range(TUNNELS)))


def exactly(peer, count):
    content = b""
    while len(content) < count:
        more = peer.recv(count - len(content))
        if not more:
            raise EOFError
        content += more
    return content


def until_blank_line(peer):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += exactly(peer, 1)
    return head


def echo_messages(client):
    """As an upstream of WebSockets for the clients here: their keys and masks are zeros."""
    until_blank_line(client)
    accepted = hashlib.sha1(KEY.encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest()
    client.sendall((OPENED + base64.b64encode(accepted).decode() + "\r\n\r\n").encode())
    try:
        while True:
            message = exactly(client, len(FRAME))
            client.sendall(bytes([0x82, len(PAYLOAD)]) + message[-len(PAYLOAD):])
    except (EOFError, OSError):
        client.close()


def accept_sockets(listener):
    while True:
        client, _ = listener.accept()
        threading.Thread(target=echo_messages, args=(client,), daemon=True).start()


def filled(text, ports):
    for name, port in ports.items():
        text = text.replace(f"{{{name}}}", str(port))
    return text


class Training:
    def __init__(self, world, program):
        self.world, self.program = world, program
        self.started = []
        self.sockets = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=accept_sockets, args=(self.sockets,), daemon=True).start()
        # Bound, so that no other program gets it, and not listening.
        self.gone = socket.socket()
        self.gone.bind(("127.0.0.1", 0))
        self.ports = {"sockets": self.sockets.getsockname()[1],
                      "gone": self.gone.getsockname()[1], **free_ports(("http1", "other", "h2"))}

    def start(self, name, port, *words):
        self.started.append(self.world.start(name, [self.program, *words], port))

    def start_upstreams(self):
        for name in ("http1", "other"):
            self.start(name, self.ports[name], "echo", "--listen", f"127.0.0.1:{self.ports[name]}")
        config = self.world.file("h2.yaml", filled(HTTP2_UPSTREAM, self.ports))
        self.start("h2", self.ports["h2"], "run", "-c", config)

    def start_tidegate(self, store):
        """Starts one with these settings of its store, and returns what sends it requests."""
        ports = {**self.ports, **free_ports(LISTENERS)}
        config = self.world.file(f"tidegate-{ports['clear']}.yaml", filled(SETTINGS, ports) + store)
        self.start("tidegate", ports["clear"], "run", "-c", config)
        until(lambda: all(accepts(ports[name]) for name in LISTENERS), 10, "its listeners")
        return Traffic(self.world.folder, ports)

    def end(self):
        """A program that does not end by itself has written no counts."""
        for server in self.started:
            server.process.terminate()
        for server in self.started:
            code = server.process.wait(timeout=60)
            if code != 0:
                raise Wrong(f"{server.process.args} ended with {code}: {server.errors()}")


def train(program):
    with tempfile.TemporaryDirectory(prefix="tidegate-training-") as folder, \
            World(pathlib.Path(folder)) as world:
        _, key = tls.make_certificate(world)
        key.chmod(0o600)  # Tidegate takes no key that others can read
        world.file("limits.yaml", DESCRIPTORS)
        redis = peers.start_redis(world)
        training = Training(world, program)
        training.start_upstreams()
        in_redis = f"store: {{redis: {{url: 'redis://127.0.0.1:{redis.port}'}}}}\nreplicas: 1\n"
        for store in ("", in_redis):
            traffic = training.start_tidegate(store)
            traffic.protocols()
            traffic.limits()
            traffic.faces()
            traffic.tunnels()
        training.end()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: training.py TIDEGATE")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        train(str(pathlib.Path(sys.argv[1]).resolve()))
    except Missing as fault:
        sys.exit(f"training: {fault}: `scripts/deps --profile` installs it")
    except (Wrong, EOFError, OSError, subprocess.TimeoutExpired) as fault:
        sys.exit(f"training: {fault or type(fault).__name__}")
