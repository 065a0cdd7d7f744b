#!/usr/bin/env python3
"""Real gateways beside Tidegate: does what Tidegate decides reach the client, and nothing else?

    tests/gateways/trial.py [--tidegate build/dev/tidegate]

nginx and Caddy ask Tidegate (`face: forward_auth`) before they forward a request to an upstream.
Their configurations are the blocks of docs/faces.md that are marked `gateway`, and Tidegate's are
files of config/recipes where a part needs no other. A second nginx asks as ingress-nginx lets it ask. The exit code is 1 when one part does not hold.
Everything listens on loopback only, and ends with this program.
"""

import collections
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "soak"))
sys.dont_write_bytecode = True

from trials import Part, make_parser, start_echo  # noqa: E402
from world import Failed, Redis, Tidegate, World, accepts, free_port, until  # noqa: E402

PAGE = ROOT / "docs/faces.md"
RECIPES = ROOT / "config/recipes"
TIMEOUT_S = 8.0  # in which a client must have its whole answer; the program may be a sanitized one
CLIENTS = 8
PLENTY = 1_000_000
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
# What ingress-nginx writes for a location with `auth-url` and `auth-response-headers`: the fields of the
# question, and those that the application gets.
INGRESS = """
    server {{
        listen 127.0.0.1:{port};
        location = /_external-auth {{
            internal;
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
            proxy_set_header X-Forwarded-Proto "";
            proxy_set_header X-Request-ID $request_id;
            proxy_set_header Host {host};
            proxy_set_header X-Original-URL $scheme://$http_host$request_uri;
            proxy_set_header X-Original-Method $request_method;
            proxy_set_header X-Sent-From "nginx-ingress-controller";
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Auth-Request-Redirect $request_uri;
            proxy_http_version 1.1;
            set $target http://127.0.0.1:{tidegate}{path};
            proxy_pass $target;
        }}
        location / {{
            auth_request /_external-auth;
            {response_headers}
            proxy_set_header Host $http_host;
            proxy_set_header X-Request-ID $request_id;
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Host $http_host;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_set_header X-Original-Forwarded-For $http_x_forwarded_for;
            proxy_set_header Proxy "";
            proxy_http_version 1.1;
            proxy_pass http://127.0.0.1:{app};
        }}
    }}
"""
CADDY = "{\n\tadmin off\n\tauto_https off\n}\n"
# What a client sends is POST /tight/...; every other reading of it takes the route `loose`.
ROUTES = """
policies:
  tight: {key: [ip], limits: [1000000/h]}
  loose: {key: [ip], limits: [1000000/h]}
routes:
  - {name: tight, match: {path: "/tight/**", methods: [POST], host: app.test}, policies: [tight]}
  - {name: loose, policies: [loose]}
"""
FORGED = "198.51.100.1"
# The fields by which a client pretends that it asks for something else, or is another client.
SPOOFED = [
    ["X-Original-URI: /loose"], ["X-Original-Method: GET"],
    ["X-Original-URI: /loose", "X-Original-Method: GET"],
    ["X-Original-URI: /loose", "X-Original-URI: /loose"],
    ["x-original-uri: /loose"], ["X_Original_URI: /loose"], ["X.Original.URI: /loose"],
    ["X-Original-URL: /loose"], ["X-Rewrite-URL: /loose"],
    ["X-Forwarded-Uri: /loose"], ["X-Forwarded-Method: GET"], ["X-Forwarded-Host: other.test"],
    ["X-Forwarded-Uri: /loose", "X-Forwarded-Method: GET", "X-Forwarded-Host: other.test"],
    ["X-Forwarded-Uri: /loose", "X-Forwarded-Uri: /loose"],
    ["x-forwarded-URI: /loose"], ["X_Forwarded_Uri: /loose"], ["X-Forwarded_Method: GET"],
    ["X-Forwarded-Proto: https"], ["X-HTTP-Method-Override: GET"],
    [f"X-Forwarded-For: {FORGED}"], [f"X-Forwarded-For: {FORGED}", f"X-Forwarded-For: {FORGED}"],
    [f"X_Forwarded_For: {FORGED}"], ["X-Forwarded-For: unknown"], ["X-Forwarded-For: "],
    [f"X-Real-IP: {FORGED}"], [f"Forwarded: for={FORGED};host=other.test"],
    [f"X-Forwarded-For: {FORGED}", "Connection: X-Forwarded-For"],
    ["Connection: X-Original-URI, X-Original-Method"],
    ["Connection: X-Forwarded-Uri, X-Forwarded-Method, X-Forwarded-Host, X-Forwarded-For"],
    ["X-Tidegate-Status: 200"],
]
# In the place of the target, of /tight/...; `%s` is the rest.
TARGETS = ["http://other.test/tight/%s", "http://other.test:80/tight/%s", "//tight/%s",
           "/tight/../tight/%s", "/tight/%s?x=/loose", "/tight//%s", "/tight/%%2e%%2e/loose/%s"]
# The user that no client may choose, in every spelling that an application could read.
MALLORY = [["X-Auth-User: mallory"], ["x-auth-user: mallory"],
           ["X-Auth-User: mallory", "X-Auth-User: mallory"], ["X_Auth_User: mallory"],
           ["X-Auth_User: mallory"], ["x_auth-user: mallory"],
           ["X-Auth-User: mallory", "Connection: X-Auth-User"]]


def blocks(language):
    """The configurations of docs/faces.md that are marked for this trial."""
    found = re.findall(rf"^```{language} gateway\n(.*?)^```$", PAGE.read_text(encoding="utf-8"),
                       re.MULTILINE | re.DOTALL)
    if not found:
        raise Failed(f"{PAGE} has no block ```{language} gateway")
    return found


def replaced(text, changes):
    for before, after in changes:
        if before not in text:
            raise Failed(f"{PAGE}: a block lacks `{before}`")
        text = text.replace(before, after)
    return text


class Gateway:
    def __init__(self, world, name, command, **options):
        self.name, self.port = re.sub(r"-\d+$", "", name), options.pop("port")
        log = world.folder / f"{name}.out"
        self.process = world.start(command, stdout=open(log, "wb"), stderr=subprocess.STDOUT,
                                   **options)

        def ready():
            if self.process.poll() is not None:
                raise Failed(f"{name} ended:\n{log.read_text(errors='replace')}")
            return accepts(self.port)

        until(ready, 20, name)


def run_nginx(world, name, port, snippet):
    folder = world.folder / name
    folder.mkdir()
    config = folder / "nginx.conf"
    config.write_text(NGINX.format(folder=folder, snippet=snippet))
    return Gateway(world, name, ["nginx", "-p", folder, "-e", folder / "nginx.log", "-c", config],
                   port=port)


def start_ingress_nginx(world, app, tidegate, url="http://tidegate/", response_headers=("X-Auth-User",)):
    """An nginx that asks as an Ingress with that `auth-url` does."""
    port = free_port()
    host, path = re.fullmatch(r"http://([^/:]+)[^/]*(/.*)", url).groups()
    headers = "\n".join(
        f"            auth_request_set $authHeader{number} $upstream_http_{name.lower().replace('-', '_')};\n"
        f"            proxy_set_header '{name}' $authHeader{number};"
        for number, name in enumerate(response_headers))
    snippet = INGRESS.format(port=port, app=app, tidegate=tidegate, host=host, path=path,
                             response_headers=headers)
    return run_nginx(world, f"ingress-nginx-{port}", port, snippet)


def start_nginx(world, app, tidegates):
    port = free_port()
    servers = "\n".join(f"    server 127.0.0.1:{one};" for one in tidegates)
    snippet = replaced(blocks("nginx")[0], [
        ("listen 8080;", f"listen 127.0.0.1:{port};"), ("127.0.0.1:3000", f"127.0.0.1:{app}"),
        ("    server 127.0.0.1:8181;", servers)])
    return run_nginx(world, f"nginx-{port}", port, snippet)


def start_caddy(world, app, tidegates, block=0):
    port = free_port()
    snippet = replaced(blocks("caddy")[block], [
        (":8080 {", f"http://:{port} {{\n\tbind 127.0.0.1"), ("127.0.0.1:3000", f"127.0.0.1:{app}"),
        ("127.0.0.1:8181", " ".join(f"127.0.0.1:{one}" for one in tidegates))])
    config = world.folder / "Caddyfile"
    config.write_text(CADDY + snippet)
    home = {"HOME": str(world.folder), "XDG_DATA_HOME": str(world.folder),
            "XDG_CONFIG_HOME": str(world.folder)}
    return Gateway(world, "caddy", ["caddy", "run", "--config", config, "--adapter", "caddyfile"],
                   port=port, env=dict(os.environ, **home))


class Answer:
    def __init__(self, response):
        self.status, self.fields, self.body = response.status, response.headers, response.read()

    def echoed(self):
        """The request that the upstream got; nothing when the answer is not the upstream's."""
        try:
            got = json.loads(self.body)
            return got if "target" in got else None
        except ValueError:
            return None

    def __str__(self):
        return f"{self.status} {dict(self.fields)} {self.body[:200]!r}"


def ask(gateway, fields=(), method="GET", target="/", source="127.0.0.1", body=b""):
    """A request of its own connection. Raises when the answer is not whole or not there in time."""
    with socket.create_connection(("127.0.0.1", gateway.port), TIMEOUT_S, (source, 0)) as peer:
        head = [f"{method} {target} HTTP/1.1", "Host: app.test", "Connection: close", *fields]
        peer.sendall("\r\n".join([*head, "", ""]).encode("latin-1") + body)
        response = http.client.HTTPResponse(peer, method=method)
        response.begin()
        return Answer(response)


def values(got, name):
    """All values of a field that reached the upstream, with any sign in the place of `-`."""
    def plain(text):
        return re.sub(r"[^a-z0-9]", "-", text.lower())

    return [value for key, value in got["headers"] if plain(key) == plain(name)]


class Trial:
    """A folder, an upstream, and the programs of one part after another."""

    def __init__(self, world, program):
        self.world, self.program = world, program
        self.app = start_echo(world, program)
        shutil.copy(RECIPES / "members.keys", world.folder)
        self.started = []

    def tidegate(self, settings, dialects=("nginx", "forwarded"), access="off"):
        """A Tidegate, and the port at which each dialect asks."""
        ports = [free_port() for _ in dialects]
        listen = ", ".join(
            f'{{address: "127.0.0.1:{port}", face: forward_auth, dialect: {dialect}}}'
            for port, dialect in zip(ports, dialects))
        return self._start(settings, f"[{listen}]", access), *ports

    def recipe(self, name):
        """A Tidegate with a file of config/recipes, and its port."""
        text = (RECIPES / f"{name}.yaml").read_text(encoding="utf-8")
        listen = re.search(r"^listen: (.*)$", text, re.MULTILINE)
        port = free_port()
        return (self._start(text.replace(listen[0], ""),
                            listen[1].replace(":8181", f":{port}"), "off"), port)

    def _start(self, settings, listen, access):
        name = f"tidegate-{len(self.started)}"
        self.started.append(Tidegate(self.world, self.program, settings, access=access,
                                     listen=listen, name=name))
        return self.started[-1]

    def nginx(self, *tidegates):
        return start_nginx(self.world, self.app, tidegates)

    def ingress_nginx(self, tidegate):
        return start_ingress_nginx(self.world, self.app, tidegate)

    def caddy(self, *tidegates, block=0):
        return start_caddy(self.world, self.app, tidegates, block)

    def stop(self, *running):
        """Ends Tidegates as a service manager would; they must end well."""
        wrong = []
        for one in running:
            code = one.stop()
            errors = one.errors()
            if code != 0 or "Sanitizer" in errors or "runtime error" in errors:
                wrong.append(f"Tidegate ended with {code}:\n{errors[-3000:]}")
        return wrong


def refusal_holds(part, gateway, answer):
    what = (gateway.name, answer)
    part.expect(answer.status == 429, *what)
    part.expect(1 <= int(answer.fields.get("Retry-After", 0)) <= 60, "Retry-After", *what)
    part.expect(";r=0;" in answer.fields.get("RateLimit", ""), "RateLimit", *what)
    part.expect("q=10" in answer.fields.get("RateLimit-Policy", ""), "RateLimit-Policy", *what)
    part.expect(answer.fields.get("Content-Type") == "application/problem+json", "type", *what)
    part.expect(answer.body.count(b"quota-exceeded") == 1, "body", *what)
    part.expect("X-Tidegate-Status" not in answer.fields, "X-Tidegate-Status", *what)


def try_quota(trial, name, start, shows_what_is_left):
    """The recipe as it is: ten a minute."""
    part = Part(f"{name}: ten pass, then 429 with Retry-After and RateLimit")
    tidegate, port = trial.recipe("forward-auth-nginx" if name == "nginx" else "forward-auth-caddy")
    gateway = start(port)
    for left in range(9, -1, -1):
        answer = ask(gateway, target=f"/a/{left}?q=1", source="127.0.0.2")
        got = answer.echoed()
        part.expect(answer.status == 200 and got and got["target"] == f"/a/{left}?q=1", answer)
        shown = f";r={left};" in answer.fields.get("RateLimit", "")
        part.expect(shown == shows_what_is_left, "RateLimit of an admitted request", answer)
    refusal_holds(part, gateway, ask(gateway, source="127.0.0.2"))
    part.expect(ask(gateway, source="127.0.0.3").status == 200, "another address has its own count")
    head = ask(gateway, method="HEAD", source="127.0.0.2")
    part.expect(head.status == 429 and head.body == b"", "HEAD", head)
    part.found = "200 ten times, 429" + (", RateLimit on each" if shows_what_is_left else "")
    if name == "nginx":
        inside = ask(gateway, target="/_tidegate", source="127.0.0.4")
        part.expect(inside.status == 404, "the location that asks is open", inside)
    part.wrong += trial.stop(tidegate)
    return part


def try_users(trial, name, start):
    part = Part(f"{name}: the upstream gets the user from Tidegate alone")
    tidegate, port = trial.recipe("forward-auth-nginx" if name == "nginx" else "forward-auth-caddy")
    gateway = start(port)
    tried = 0
    for number, mallory in enumerate([[], *MALLORY]):
        for key, user in ((["X-Api-Key: example-key-of-alice"], "alice"), ([], "")):
            # Each address and each user has ten a minute.
            if key and number % 2:
                key, user = ["X-Api-Key: example-key-of-bob"], "bob"
            answer = ask(gateway, [*mallory, *key], source=f"127.0.1.{number + 1}")
            tried += 1
            got = answer.echoed()
            if got is None:
                part.expect(answer.status == 400, mallory, key, answer)
                continue
            names = [value for value in values(got, "X-Auth-User") if value]
            holds = names == ([user] if user else [])
            # A client may take its own name away: Caddy obeys the `Connection` that it wrote.
            lost = not names and "Connection: X-Auth-User" in mallory
            part.expect(holds or lost, mallory, key, got["headers"])
    wrong = ask(gateway, ["X-Api-Key: wrong", "X-Auth-User: mallory"], source="127.0.1.99")
    part.expect(wrong.status == 401 and wrong.echoed() is None, wrong)
    part.expect("WWW-Authenticate" in wrong.fields, "WWW-Authenticate", wrong)
    part.found = f"{tried} requests, a wrong key is {wrong.status}"
    part.wrong += trial.stop(tidegate)
    return part


class Log:
    """The access log of a Tidegate. Each request has a mark of its own in its path."""

    def __init__(self, path):
        self.path = path

    def line(self, mark):
        def find():
            for text in self.path.read_text(errors="replace").splitlines():
                if mark in text:
                    try:
                        return json.loads(text)
                    except ValueError:  # not written to its end yet
                        return None
            return None
        return until(find, 10, f"the line of {mark}")


def try_spoofing(trial, log, gateway):
    """Tidegate judges the request that the upstream gets, of the address that sent it."""
    part = Part(f"{gateway.name}: what a client writes chooses neither the route nor the address")
    judged = refused = 0
    rows = [(fields, "/tight/%s") for fields in SPOOFED] + [([], target) for target in TARGETS]
    for number, (fields, target) in enumerate(rows):
        mark = f"{gateway.name}-{number}"
        answer = ask(gateway, [*fields, "Content-Length: 0"], "POST", target % mark, "127.0.0.9")
        got = answer.echoed()
        what = (fields or target, answer)
        if got is None:
            refused += 1
            # ingress-nginx has no status but 403 for what Tidegate refuses.
            part.expect(answer.status in ((400, 403) if gateway.name == "ingress-nginx" else (400, 308)),
                        *what)
            continue
        judged += 1
        line = log.line(mark)
        part.expect(line["client"] == "127.0.0.9", *what, line)
        host = values(got, "Host")[0].split(":")[0]
        part.expect((line["method"], line["host"].split(":")[0]) == ("POST", host), *what, line)
        part.expect(got["target"].split("?")[0] == line["path"].split("?")[0], *what, line)
        if host == "app.test":
            part.expect(line["route"] == "tight", *what, line)
        else:
            part.expect(target.startswith("http://") and line["route"] == "loose", *what, line)
    part.found = f"{judged} judged as they are, {refused} refused"
    return part


def try_bodies(gateway):
    part = Part(f"{gateway.name}: requests with bodies pass, and their bodies whole")
    large = b"x" * 200_000
    chunks = [b"hello", b"x" * 5000, b""]
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    for method, fields, body, size in (
            ("POST", [f"Content-Length: {len(large)}"], large, len(large)),
            ("PUT", ["Transfer-Encoding: chunked"], chunked, 5005),
            ("POST", ["Content-Length: 5", "Expect: 100-continue"], b"hello", 5),
            ("DELETE", ["Content-Length: 0"], b"", 0)):
        answer = ask(gateway, fields, method, "/loose", "127.0.0.9", body)
        got = answer.echoed()
        part.expect(got and got["method"] == method and got["body_bytes"] == size, fields, answer)
    part.found = "200 kB, chunked, with Expect, none"
    return part


def try_routes(trial):
    log = Log(trial.world.folder / "access.log")
    tidegate, nginx_port, caddy_port, ingress_port = trial.tidegate(
        ROUTES, dialects=("nginx", "forwarded", "ingress-nginx"), access=f'{{path: {log.path}}}')
    gateways = [trial.nginx(nginx_port), trial.caddy(caddy_port), trial.ingress_nginx(ingress_port)]
    for gateway in gateways:
        yield try_spoofing(trial, log, gateway)
    for gateway in gateways:
        yield try_bodies(gateway)
    part = Part("Tidegate has ended: no gateway passes a request on")
    part.wrong += trial.stop(tidegate)
    answers = [ask(gateway) for gateway in gateways]
    for answer in answers:
        part.expect(answer.status >= 500 and answer.echoed() is None, answer)
    part.found = ", ".join(f"{one.name} {answer.status}" for one, answer in zip(gateways, answers))
    yield part


class Load:
    """Clients that ask gateways in turn, `count` times in all. `on_third` is called once, by a
    client, when a third of the answers is there."""

    def __init__(self, gateways, count, on_third=lambda: None):
        self.gateways, self.count, self.on_third = gateways, count, on_third
        self.answers = []  # (when it began, seconds, gateway, answer or what went wrong)
        self._lock = threading.Lock()
        self._taken = 0
        self._threads = [threading.Thread(target=self._client) for _ in range(CLIENTS)]

    def run(self):
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        return self

    def _client(self):
        while True:
            with self._lock:
                number, self._taken = self._taken, self._taken + 1
            if number >= self.count:
                return
            gateway = self.gateways[number % len(self.gateways)]
            begin = time.monotonic()
            try:
                answer = ask(gateway, source="127.0.0.7")
            except (OSError, http.client.HTTPException) as error:
                answer = error
            with self._lock:
                self.answers.append((begin, time.monotonic() - begin, gateway, answer))
                is_third = len(self.answers) == self.count // 3
            if is_third:
                self.on_third()

    def statuses(self):
        return collections.Counter(
            answer.status if isinstance(answer, Answer) else repr(answer)
            for _, _, _, answer in self.answers)

    def slowest(self):
        return max(seconds for _, seconds, _, _ in self.answers)


def said(statuses):
    return ", ".join(f"{count} of {status}" for status, count in sorted(statuses.items(), key=str))


def redis_yaml(redis, more=""):
    return f"store: {{redis: {{url: 'redis://127.0.0.1:{redis.port}'}}}}\n{more}"


def try_one_count(trial):
    quota, asked = 200, 400
    part = Part(f"two gateways and two Tidegates on one Redis admit exactly {quota} of {asked}")
    redis = Redis(trial.world)
    settings = redis_yaml(redis, f"limits: [{quota}/h]\n")
    running = [trial.tidegate(settings) for _ in range(2)]
    _, nginx_ports, caddy_ports = zip(*running)
    gateways = [trial.nginx(*nginx_ports), trial.caddy(*caddy_ports)]
    load = Load(gateways, asked).run()
    statuses = load.statuses()
    part.expect(statuses == {200: quota, 429: asked - quota}, said(statuses))
    passed = sum(1 for _, _, _, answer in load.answers
                 if isinstance(answer, Answer) and answer.echoed())
    part.expect(passed == quota, f"{passed} reached the upstream")
    ways = collections.Counter(gateway.name for _, _, gateway, answer in load.answers
                               if isinstance(answer, Answer) and answer.status == 200)
    part.found = f"{said(statuses)}; admitted through " + said(ways)
    part.wrong += trial.stop(*(one[0] for one in running))
    redis.kill()
    return part


def try_redis_away(trial, decides, quota, before, after, how=signal.SIGKILL):
    """`before` and `after` are the statuses that clients may get. Local counts may admit the quota
    once more."""
    part = Part(f"Redis {'hangs' if how == signal.SIGSTOP else 'is killed'} under load, "
                f"on_store_failure: {decides}")
    redis = Redis(trial.world)
    tidegate, nginx_port, caddy_port = trial.tidegate(
        redis_yaml(redis, f"on_store_failure: {decides}\nlimits: [{quota}/h]\n"))
    gone = []  # when

    def take_away():
        redis.process.send_signal(how)
        os.waitid(os.P_PID, redis.process.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        gone.append(time.monotonic())

    load = Load([trial.nginx(nginx_port), trial.caddy(caddy_port)], 300, take_away).run()
    redis.kill()
    away = gone[0]
    later = 0
    for began, _, gateway, answer in load.answers:
        if not isinstance(answer, Answer):
            part.expect(False, gateway.name, "no whole answer:", repr(answer))
            continue
        later += began > away
        allowed = after if began > away else before | after
        part.expect(answer.status in allowed, gateway.name, answer)
        if answer.status in (429, 503):
            part.expect("Retry-After" in answer.fields, gateway.name, answer)
        part.expect((answer.status == 200) == bool(answer.echoed()), gateway.name, answer)
    part.expect(later > 50, f"only {later} requests came after Redis had gone")
    part.expect(load.statuses()[200] <= 2 * quota, "more than Redis and this process may admit")
    part.found = (f"{said(load.statuses())}, {later} after it; "
                  f"slowest {load.slowest() * 1000:.0f} ms")
    part.wrong += trial.stop(tidegate)
    return part


def parts(trial):
    yield try_quota(trial, "nginx", trial.nginx, True)
    yield try_quota(trial, "Caddy", trial.caddy, False)
    yield try_quota(trial, "Caddy with RateLimit", lambda port: trial.caddy(port, block=1), True)
    yield try_users(trial, "nginx", trial.nginx)
    yield try_users(trial, "Caddy", trial.caddy)
    yield try_users(trial, "Caddy with RateLimit", lambda port: trial.caddy(port, block=1))
    yield from try_routes(trial)
    yield try_one_count(trial)
    yield try_redis_away(trial, "deny", PLENTY, {200}, {503})
    yield try_redis_away(trial, "deny", PLENTY, {200}, {503}, signal.SIGSTOP)
    yield try_redis_away(trial, "allow", PLENTY, {200}, {200})
    yield try_redis_away(trial, "local", PLENTY, {200}, {200})
    yield try_redis_away(trial, "local", 60, {200, 429}, {200, 429})


def try_gateways(program):
    held = True
    with tempfile.TemporaryDirectory(prefix="gateways-") as folder:
        with World(pathlib.Path(folder)) as world:
            for part in parts(Trial(world, program)):
                held = part.report() and held
    return held


def main():
    parser = make_parser(__doc__)
    arguments = parser.parse_args()
    try:
        held = try_gateways(arguments.tidegate.resolve())
    except Failed as error:
        print(f"FAIL {error}")
        held = False
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
