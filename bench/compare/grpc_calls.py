"""Rows of gRPC: calls that are forwarded over HTTP/2, and Envoy's rate limit service; in the clear.

The upstream is nghttpd, which answers each call with a message of 100 bytes and its status.
"""

import subprocess
import tempfile

from http2 import Http2Measuring
from machine import Wrong, free_port, need
from measure import PROBES
from peers import ANSWER, IDLE_CONNECTIONS, Setup
from rows import Row
from tls import NAME

ROWS = ("tidegate-grpc", "nginx-grpc", "haproxy-grpc")
LIMITED, UNLIMITED = "tidegate-rls", "tidegate-rls-unlimited"
# Connections, and streams on each at a time.
FORWARDED = {"grpc-wide": (8, 10), "grpc-narrow": (32, 1)}
LOADS = {**FORWARDED, "rls": (8, 8)}
PARTS = {**dict.fromkeys(FORWARDED, ROWS), "rls": (LIMITED, UNLIMITED)}
SERVICE = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
METHOD = "/bench.Echo/Say.answer"
ADMITTED = b"\x08\x01"  # overall_code: OK, the first field
FIELDS = ["--header=content-type: application/grpc", "--header=te: trailers"]


def framed(message):
    """As gRPC frames a message that is not compressed."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def field(number, content):
    """Of protobuf: a string, or a message, of less than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


def question(key):
    """A RateLimitRequest of one descriptor with one entry."""
    entry = field(1, key.encode()) + field(2, b"203.0.113.7")
    return framed(field(1, b"bench") + field(2, field(1, entry)))


def start_upstream(world):
    port = free_port()
    answers = world.folder / "answers"
    (answers / METHOD[1:]).parent.mkdir(parents=True)
    (answers / METHOD[1:]).write_bytes(framed(ANSWER.encode()))
    types = world.file("mime.types", "application/grpc answer\n")
    return world.start("upstream", [
        need("nghttpd"), "--no-tls", "--address=127.0.0.1", f"--htdocs={answers}",
        f"--mime-types-file={types}", "--trailer=grpc-status: 0",
        "--max-concurrent-streams=1000", port], port)


def tidegate(program):
    def start(world):
        upstream, port = start_upstream(world), free_port()
        config = world.file("tidegate.yaml", f"""
listen: {{address: "127.0.0.1:{port}", http: [h2]}}
admin: off
log: {{access: off}}
threads: 1
upstreams: {{api: {{servers: ["h2c://127.0.0.1:{upstream.port}"]}}}}
routes: [{{name: all, match: {{path: "/**"}}, upstream: api, policies: []}}]
""")
        return Setup(port, world.start("proxy", [program, "run", "-c", config], port), upstream)
    return start


def nginx(world):
    upstream, port = start_upstream(world), free_port()
    config = world.file("nginx.conf", f"""
daemon off; worker_processes 1; pid nginx.pid; error_log stderr crit;
events {{ worker_connections 24000; }}
http {{
    access_log off;
    upstream api {{
        server 127.0.0.1:{upstream.port};
        keepalive {IDLE_CONNECTIONS}; keepalive_requests 1000000000; keepalive_timeout 1h;
    }}
    server {{
        listen 127.0.0.1:{port} http2 backlog=4096;
        keepalive_requests 1000000000; keepalive_timeout 1h;
        location / {{
            grpc_pass grpc://api;
            grpc_set_header Host $http_host;
            grpc_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        }}
    }}
}}
""")
    proxy = world.start("proxy", [*world.program("nginx"), "-p", world.folder, "-c", config], port)
    return Setup(port, proxy, upstream)


def haproxy(world):
    upstream, port = start_upstream(world), free_port()
    config = world.file("haproxy.cfg", f"""
global
    nbthread 1
    maxconn 9950
defaults
    mode http
    http-reuse always
    timeout connect 2s
    timeout client 1h
    timeout server 1h
frontend clients
    bind 127.0.0.1:{port} backlog 4096 proto h2
    option forwardfor
    default_backend api
backend api
    server one 127.0.0.1:{upstream.port} proto h2 pool-max-conn {IDLE_CONNECTIONS}
""")
    proxy = world.start("proxy", [*world.program("haproxy"), "-f", config], port)
    return Setup(port, proxy, upstream)


def rate_limit_service(program):
    def start(world):
        port = free_port()
        world.file("limits.yaml", """
domain: bench
descriptors:
  - key: limited
    rate_limit: {unit: hour, requests_per_unit: 3600000000}
  - key: unlimited
    rate_limit: {unlimited: true}
""")
        config = world.file("tidegate.yaml", f"""
listen: {{address: "127.0.0.1:{port}", face: envoy_grpc}}
rls: {{files: [limits.yaml]}}
admin: off
log: {{access: off}}
threads: 1
""")
        proxy = world.start("proxy", [program, "run", "-c", config], port)
        return Setup(port, proxy, proxy)
    return start


def all_rows(program):
    return [Row("tidegate-grpc", "Tidegate", tidegate(program)),
            Row("nginx-grpc", "nginx", nginx), Row("haproxy-grpc", "HAProxy", haproxy),
            Row(LIMITED, "ShouldRateLimit, in process, 1 limit", rate_limit_service(program)),
            Row(UNLIMITED, "ShouldRateLimit, without a limit", rate_limit_service(program))]


def call_of(row):
    """What a row is asked: a message, a method, and what is in the answer."""
    if row.name == LIMITED:
        return question("limited"), SERVICE, ADMITTED
    if row.name == UNLIMITED:
        return question("unlimited"), SERVICE, ADMITTED
    return framed(ANSWER.encode()), METHOD, ANSWER.encode()


class GrpcMeasuring(Http2Measuring):
    """As Measuring, for these parts."""

    def load_of(self, part):
        return LOADS[part]

    def request_of(self, world, row):
        message, path, _ = call_of(row)
        file = world.folder / "message"
        file.write_bytes(message)
        return [*FIELDS, f"--data={file}", f"http://{NAME}{path}"]

    def verify(self, setup, row):
        for _ in range(PROBES):
            verify(setup, row)


def verify(setup, row):
    """The status 0, in the trailers, of the answer, and the message that is to be in it."""
    message, path, expected = call_of(row)
    with tempfile.NamedTemporaryFile(prefix="tidegate-bench-") as file:
        file.write(message)
        file.flush()
        done = subprocess.run(
            [need("nghttp"), "--verbose", "--timeout=5", f"--data={file.name}",
             "--header=content-type: application/grpc", "--header=te: trailers",
             f"http://127.0.0.1:{setup.port}{path}"], capture_output=True, timeout=20)
    if expected not in done.stdout or b"grpc-status: 0" not in done.stdout:
        raise Wrong(f"answered {done.stdout[-800:]!r} {done.stderr!r}")
