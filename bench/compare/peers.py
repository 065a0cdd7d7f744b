"""What is compared: each peer's configuration, as one would write it to be quick, and its start.

All of them: one worker, connections to upstream and Redis kept, no access log unless the row says
so, the client's address added to X-Forwarded-For, names taken from the same fields of the request.
"""

import base64
import dataclasses
import json
import shutil
import socket
import subprocess
import urllib.request
from typing import Callable, Optional

from machine import (HERE, Missing, Server, Together, World, Wrong, free_port, free_ports, need,
                     say, until)

ANSWER = "x" * 100
IDLE_CONNECTIONS = 256
BATCH = 100  # checks of one call
PRIMARIES = 3  # of a cluster
SLOTS = 16_384
SERVERS = 100  # of one upstream, whose health is checked
CHECKED_EVERY = 5  # seconds
# Of each name: windows of a second, a minute and an hour. `plenty` admits every request here; one
# an hour admits one.
PLENTY = (1_000_000, 60_000_000, 3_600_000_000)
ONE = (100, 100, 1)
# (duration, precision) of these for hash_limiter.lua: one sub-bucket a window, as such lists are
# mostly written; and as fine as Tidegate's are by default.
COARSE_US = tuple((second * 1_000_000, second * 1_000_000) for second in (1, 60, 3600))
FINE_US = ((1_000_000, 20_000), (60_000_000, 1_000_000), (3_600_000_000, 60_000_000))
SECRET = "a secret for measuring only, as long as its hash"

MODULES = "/usr/lib/nginx/modules"
LUA_LIBRARIES = "/usr/share/lua/5.1"


@dataclasses.dataclass
class Setup:
    """A proxy with all it needs, running."""

    port: int  # the server's address
    proxy: Server | Together | None
    upstream: Server
    redis: Server | Together | None = None
    # How many units of a user are taken (or, below zero, left). None: the peer does not show it.
    count_of: Optional[Callable[[str], int]] = None
    admin_port: Optional[int] = None
    checked: int = 0  # servers whose health is checked


# ---- what is behind

def start_upstream(world: World, addresses=("127.0.0.1",)):
    """nginx answering 100 bytes; and, for bodies, files of the folder `bodies`."""
    port = free_port()
    listen = " ".join(f"listen {address}:{port} backlog=4096;" for address in addresses)
    if world.upstream:
        return world.start("upstream", world.upstream(port), port)
    (world.folder / "bodies").mkdir(exist_ok=True)
    config = world.file("upstream.conf", f"""
daemon off; worker_processes 1; pid upstream.pid; error_log stderr crit;
events {{ worker_connections 12000; }}
http {{
    access_log off; default_type text/plain; sendfile on; tcp_nopush on;
    client_max_body_size 0; client_body_buffer_size 1m;
    server {{
        {listen}
        keepalive_requests 1000000000; keepalive_timeout 1h;
        location / {{ return 200 {ANSWER}; }}
        location /bodies/ {{ root {world.folder}; }}
    }}
}}
""")
    return world.start("upstream", [need("nginx"), "-p", world.folder, "-c", config], port)


def start_redis(world: World):
    port = free_port()
    return world.start("redis", [*world.program("redis-server"), "--port", port, "--bind",
                                 "127.0.0.1", "--save", "", "--appendonly", "no",
                                 *world.redis_options], port)


def start_cluster(world: World):
    """Three primaries without replicas, with a third of the slots each."""
    ports = list(free_ports(range(PRIMARIES)).values())
    servers = [world.start("redis", [
        need("redis-server"), "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly",
        "no", "--cluster-enabled", "yes", "--cluster-config-file", f"nodes-{port}.conf"], port)
        for port in ports]
    edges = [SLOTS * i // PRIMARIES for i in range(PRIMARIES + 1)]
    for i, port in enumerate(ports):
        say(port, "CLUSTER", "ADDSLOTSRANGE", edges[i], edges[i + 1] - 1)
        say(port, "CLUSTER", "SET-CONFIG-EPOCH", i + 1)
        if i:
            say(port, "CLUSTER", "MEET", "127.0.0.1", ports[0])
    for port in ports:
        until(lambda: f"cluster_known_nodes:{PRIMARIES}" in (info := say(port, "CLUSTER", "INFO"))
              and "cluster_state:ok" in info, 30, "the cluster")
    return Together(*servers)


# ---- Tidegate

def rates(quotas):
    return "[" + ", ".join(f"{quota}/{per}" for quota, per in zip(quotas, ("s", "min", "h"))) + "]"


IDENTITY = """
identity:
  client_ip: {trusted_proxies: [127.0.0.1]}
  user: [{header: {name: x-user-id, from: trusted_proxies}}]
"""
TOKENS = """
identity:
  client_ip: {trusted_proxies: [127.0.0.1]}
  user: [{jwt: {jwks: keys.json, algorithms: [HS256], issuer: bench, audience: bench}}]
"""


def start_tidegate(world, program, settings, redis=None, access="off", face="",
                   addresses=("127.0.0.1",)):
    """`settings`: YAML without listen, admin, store and log; UPSTREAM in it is the upstream's, at
    each of its `addresses`. `face`: what the listener has beside its address."""
    upstream = start_upstream(world, addresses)
    port, admin_port = free_port(), free_port()
    text = (f"listen: {{address: 127.0.0.1:{port}{face}}}\nadmin: 127.0.0.1:{admin_port}\n"
            f"log: {{access: {access}}}\n")
    if isinstance(redis, Together):
        nodes = ", ".join(f"'redis://127.0.0.1:{server.port}'" for server in redis.servers)
        text += f"store: {{redis: {{cluster: [{nodes}]}}}}\nreplicas: 1\n"
    elif redis:
        text += f"store: {{redis: {{url: 'redis://127.0.0.1:{redis.port}'}}}}\nreplicas: 1\n"
    if "threads:" not in settings:
        text += "threads: 1\n"
    text += settings.replace("UPSTREAM", ", ".join(f"http://{address}:{upstream.port}"
                                                   for address in addresses))
    config = world.file("tidegate.yaml", text)
    proxy = world.start("proxy", [program, "run", "-c", config], port)
    return Setup(port, proxy, upstream, redis, admin_port=admin_port)


# All that shows what Tidegate does, at the usual share of traces; and nothing of it. The upstream
# takes the traces as well.
OBSERVED = "tracing: {otlp: UPSTREAM/v1/traces, sample: 0.01}\n"
UNOBSERVED = "telemetry: {top: off}\n"
BUSY_POLL = "busy_poll: 100us"


def tidegate(program, quotas=None, store="memory", logged=False, tokens=False, more=""):
    """A row's start: two names with the windows of `quotas` each, or no limits. `more`: settings
    beside those."""
    def start(world):
        settings = f"{more}upstreams: {{api: {{servers: [UPSTREAM], idle_connections: 256}}}}\n"
        settings += TOKENS if tokens else IDENTITY
        policies = "[]"
        if quotas:
            settings += f"policies: {{all: {{key: [ip, user], limits: {rates(quotas)}}}}}\n"
            policies = "[all]"
        settings += ("routes: [{name: all, match: {path: '/**'}, upstream: api, "
                     f"policies: {policies}}}]\n")
        if tokens:
            key = base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("=")
            world.file("keys.json", json.dumps({"keys": [{"kty": "oct", "k": key}]}))
        redis = start_redis(world) if store == "redis" else None
        access = f"{{path: {world.folder / 'access.log'}}}" if logged else "off"
        setup = start_tidegate(world, program, settings, redis, access)
        if quotas == PLENTY and not tokens:
            setup.count_of = lambda user: -_remaining(setup.port, user)
        return setup
    return start


def many_servers(program, checked):
    """A row's start: no limits, and servers whose health is checked or not."""
    def start(world):
        check = f", health_check: {{path: /, every: {CHECKED_EVERY}s}}" if checked else ""
        setup = start_tidegate(
            world, program, "upstreams: {api: {servers: [UPSTREAM], idle_connections: 256"
            f"{check}}}}}\n{IDENTITY}routes: [{{name: all, match: {{path: '/**'}}, upstream: api, "
            "policies: []}]\n",
            addresses=[f"127.0.0.{i + 1}" for i in range(SERVERS)])
        setup.checked = SERVERS if checked else 0
        return setup
    return start


def checked_servers(setup):
    """How many servers have been checked, and were well."""
    url = f"http://127.0.0.1:{setup.admin_port}/api/upstreams"
    with urllib.request.urlopen(url, timeout=5) as told:
        upstreams = json.load(told)["upstreams"]
    return sum(server["checked"] and server["state"] == "up"
               for upstream in upstreams for server in upstream["servers"])


# ---- its other faces

def start_face(world, program, face, quotas):
    """One that forwards nothing and has two names with the windows of `quotas` each."""
    settings = IDENTITY + (f"policies: {{all: {{key: [ip, user], limits: {rates(quotas)}}}}}\n"
                           "routes: [{name: all, policies: [all]}]\n")
    return start_tidegate(world, program, settings, face=f", face: {face}")


def forward_auth(program, quotas):
    """Takes questions as Traefik and Caddy send them."""
    def start(world):
        setup = start_face(world, program, "forward_auth, dialect: forwarded", quotas)
        if quotas == PLENTY:
            setup.count_of = lambda user: -_remaining(setup.port, user, QUESTION)
        return setup
    return start


def nginx_auth_request(program, quotas):
    """nginx that asks Tidegate first, with the configuration of docs/faces.md."""
    def start(world):
        asked = start_face(world, program, "forward_auth, dialect: nginx", quotas)
        http = (f"upstream tidegate {{ server 127.0.0.1:{asked.port}; "
                f"keepalive {IDLE_CONNECTIONS}; keepalive_requests 1000000000; "
                "keepalive_timeout 1h; }")
        location = """auth_request /_tidegate;
            auth_request_set $tidegate_status $upstream_http_x_tidegate_status;
            auth_request_set $tidegate_after $upstream_http_retry_after;
            auth_request_set $tidegate_limit $upstream_http_ratelimit;
            auth_request_set $tidegate_policy $upstream_http_ratelimit_policy;
            error_page 403 = @tidegate;
            add_header RateLimit $tidegate_limit always;
            add_header RateLimit-Policy $tidegate_policy always;"""
        # The load has an address of its own for each user.
        setup = nginx(world, http, location, more="""
        location = /_tidegate {
            internal;
            proxy_pass http://tidegate;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
            proxy_set_header Host $host;
            proxy_set_header X-Original-URI $request_uri;
            proxy_set_header X-Original-Method $request_method;
            proxy_set_header X-Forwarded-For $http_x_forwarded_for;
        }
        location @tidegate {
            add_header Retry-After $tidegate_after always;
            add_header RateLimit $tidegate_limit always;
            add_header RateLimit-Policy $tidegate_policy always;
            if ($tidegate_status = 429) { return 429; }
            return 403;
        }""")
        setup.proxy = Together(setup.proxy, asked.proxy)
        if quotas == PLENTY:
            setup.count_of = lambda user: -_remaining(setup.port, user)
        return setup
    return start


def check_api(program):
    def start(world):
        setup = start_face(world, program, "check", PLENTY)
        setup.count_of = lambda user: PLENTY[-1] - _left_of_check(setup.port, user)
        return setup
    return start


def check_item(address, user, cost=1):
    return {"policy": "all", "identifiers": {"ip": address, "user": user}, "cost": cost}


def _left_of_check(port, user):
    """The rest of the user's hour, by a call of cost 0."""
    call = check_item(*probe_fields(user).values(), cost=0)
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/check",
                                     data=json.dumps(call).encode())
    with urllib.request.urlopen(request, timeout=5) as answer:
        return next(limit["left"] for limit in json.load(answer)["limits"]
                    if limit["identifier"] == f"user:{user}" and "1h" in limit["limit"])


def _remaining(port, user, more=None):
    """The rest of the hour, by the answer to one more request, which takes a unit."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/",
                                     headers={**probe_fields(user), **(more or {})})
    with urllib.request.urlopen(request, timeout=5) as answer:
        for item in answer.headers["RateLimit"].split(","):
            if "1h" in item:
                return int(item.split(";r=")[1].split(";")[0])
    raise Wrong("no remaining units in the answer")


def probe_fields(user):
    return {"X-Forwarded-For": "10.255.255.1", "X-User-Id": user}


# The fields in which a gateway describes the request, as Traefik and Caddy send them.
QUESTION = {"X-Forwarded-Method": "GET", "X-Forwarded-Uri": "/", "X-Forwarded-Host": "bench.test"}


# What a client of a row sends: (method, path, fields, body) of fields as probe_fields() has them.

def request_of(fields):
    return "GET", "/", fields, None


def question_of(fields):
    return "GET", "/", {**fields, **QUESTION}, None


def check_of(fields):
    return _post(check_item(fields["X-Forwarded-For"], fields["X-User-Id"]))


def batch_of(fields):
    """One check of a batch is the client's; the rest are of others."""
    others = [check_item("10.253.0.1", f"other-{i}") for i in range(BATCH - 1)]
    return _post({"each": [check_item(fields["X-Forwarded-For"], fields["X-User-Id"]), *others]})


def _post(call):
    return "POST", "/v1/check", {"Content-Type": "application/json"}, json.dumps(call)


# ---- nginx

def nginx(world, http="", location="", modules=(), more="", listen="", connection='""'):
    upstream = start_upstream(world)
    port = free_port()
    loads = "".join(f"load_module {MODULES}/{module}.so; " for module in modules)
    config = world.file("nginx.conf", f"""
{loads}
daemon off; worker_processes 1; pid nginx.pid; error_log stderr crit;
events {{ worker_connections 24000; }}
http {{
    access_log off;
    upstream api {{
        server 127.0.0.1:{upstream.port};
        keepalive {IDLE_CONNECTIONS}; keepalive_requests 1000000000; keepalive_timeout 1h;
    }}
    {http}
    server {{
        listen 127.0.0.1:{port}{listen} backlog=4096;
        keepalive_requests 1000000000; keepalive_timeout 1h;
        location / {{
            {location}
            proxy_pass http://api;
            proxy_http_version 1.1;
            proxy_set_header Connection {connection};
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
        }}
        {more}
    }}
}}
""")
    proxy = world.start("proxy", [*world.program("nginx"), "-p", world.folder, "-c", config],
                        port)
    return Setup(port, proxy, upstream)


def nginx_plain(world):
    return nginx(world)


def nginx_limit_req(per_name):
    """Two names, one rate each: `limit_req` has no longer windows."""
    rate, burst = per_name

    def start(world):
        zones = "".join(f"limit_req_zone $http_{field} zone={field}:16m rate={rate}; "
                        for field in ("x_forwarded_for", "x_user_id"))
        limits = "".join(f"limit_req zone={field}{burst}; "
                         for field in ("x_forwarded_for", "x_user_id"))
        return nginx(world, zones, limits + "limit_req_status 429;")
    return start


def nginx_lua_redis(quotas, windows=COARSE_US):
    """The usual script, through the usual driver: lua-resty-redis, as Debian packages it."""
    def start(world):
        for path, package in ((f"{MODULES}/ngx_http_lua_module.so", "libnginx-mod-http-lua"),
                              (f"{LUA_LIBRARIES}/nginx/redis.lua", "lua-nginx-redis")):
            if not (world.root / path[1:]).exists():
                raise Missing(f"{package} is not installed in {world.root}")
        for script in (HERE / "peers" / "limiter.lua", HERE.parent / "hash_limiter.lua"):
            shutil.copy(script, world.folder)  # the one folder that all peers see
        redis = start_redis(world)
        limits = json.dumps([[*window, quota] for window, quota in zip(windows, quotas)])
        http = f"""
    lua_package_path '{world.folder}/?.lua;{LUA_LIBRARIES}/?.lua;;';
    init_by_lua_block {{
        local file = assert(io.open('{world.folder}/hash_limiter.lua'))
        limiter = require('limiter').new{{
            port = {redis.port}, script = file:read('*a'), limits = '{limits}'}}
        file:close()
    }}"""
        location = """access_by_lua_block {
                limiter:admit('ip:' .. ngx.var.http_x_forwarded_for,
                              'user:' .. ngx.var.http_x_user_id)
            }"""
        setup = nginx(world, http, location, ("ndk_http_module", "ngx_http_lua_module"))
        setup.redis = redis
        longest = ":".join(map(str, windows[-1]))
        setup.count_of = lambda user: int(
            say(redis.port, "HGET", f"user:{user}", f"{longest}:count") or 0)
        return setup
    return start


# ---- HAProxy

def haproxy(world, frontend="", tables="", bind="", global_lines=""):
    upstream = start_upstream(world)
    port = free_port()
    config = world.file("haproxy.cfg", f"""
global
    nbthread 1
    maxconn 9950
    {global_lines}
    stats socket {world.folder}/haproxy.sock level admin
defaults
    mode http
    option http-keep-alive
    http-reuse always
    timeout connect 2s
    timeout client 1h
    timeout server 1h
{tables}
frontend clients
    bind 127.0.0.1:{port} backlog 4096 {bind}
    option forwardfor
    {frontend}
    default_backend api
backend api
    server one 127.0.0.1:{upstream.port} pool-max-conn {IDLE_CONNECTIONS}
""")
    proxy = world.start("proxy", [*world.program("haproxy"), "-f", config], port)
    return Setup(port, proxy, upstream)


def haproxy_plain(world):
    return haproxy(world)


def haproxy_splice(world):
    """HAProxy splices only where these options are. Its default number of pipes takes more
    descriptors than a process may have; one client needs two pipes."""
    return haproxy(world, "option splice-request\n    option splice-response",
                   global_lines="maxpipes 16")


def haproxy_stick_table(quota):
    """Two names, one window each: a table keeps one rate."""
    def start(world):
        tables = "".join(f"""
backend by_{name}
    stick-table type {kind} size 200k expire 1h store http_req_rate(1h)
""" for name, kind in (("ip", "ip"), ("user", "string len 64")))
        setup = haproxy(world, f"""http-request track-sc0 hdr_ip(x-forwarded-for) table by_ip
    http-request track-sc1 hdr(x-user-id) table by_user
    http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {quota} }}
    http-request deny deny_status 429 if {{ sc_http_req_rate(1) gt {quota} }}""", tables)
        setup.count_of = lambda user: _table_count(world.folder / "haproxy.sock", user)
        return setup
    return start


def _table_count(path, user):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(path))
        connection.sendall(f"show table by_user key {user}\n".encode())
        said = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
    return int(said.split("http_req_rate(3600000)=")[1].split()[0]) if "rate" in said else 0


# ---- Node

def node_redis(quota, folder):
    def start(world):
        install_node_packages(folder)
        upstream, redis = start_upstream(world), start_redis(world)
        port = free_port()
        proxy = world.start("proxy", [need("node"), folder / "limiter.mjs", port, upstream.port,
                                      redis.port, quota], port)
        return Setup(port, proxy, upstream, redis,
                     lambda user: int(say(redis.port, "GET", f"user:{user}") or 0))
    return start


def install_node_packages(folder):
    """npm's packages, into `folder`; once."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("limiter.mjs", "package.json"):
        shutil.copy(HERE / "peers" / name, folder / name)
    if (folder / "node_modules" / "express-rate-limit").exists():
        return
    try:
        subprocess.run([need("npm"), "install", "--no-audit", "--no-fund"], cwd=folder, check=True,
                       timeout=120, capture_output=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as fault:
        raise Missing("npm could not install express-rate-limit") from fault


# ---- nothing

def direct(world):
    upstream = start_upstream(world)
    return Setup(upstream.port, None, upstream)
