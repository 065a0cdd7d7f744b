"""What a scenario of trial.py has: a provider, clients, and Tidegates that it configures."""

import base64
import collections
import hashlib
import hmac
import http.client
import json
import math
import pathlib
import queue
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from fractions import Fraction

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "soak"))

from world import Failed, Redis, Tidegate, World, accepts, free_port, until  # noqa: E402, F401

CALL_SECONDS = 40
SETTLE_SECONDS = 5
JWT_SECRET = b"example-secret-of-the-trial-32-bytes"
USERS = ["alice", "bob", *[f"user{number}" for number in range(200)]]
WEIGHTS = {"input": 1, "cached": "0.1", "cache_write": "1.25", "output": 4}
WEIGHTS_TEXT = "{input: 1, cached: 0.1, cache_write: 1.25, output: 4}"
# Nothing comes back during a trial, so a count is the sum of what was settled.
DAY = "per: 1day, algorithm: fixed_window, anchor: first_request"
DEFAULT_OUTPUT, MAX_TOKENS, BYTES_A_TOKEN = 1000, 32_000, 4


def need(condition, *said):
    if not condition:
        raise Failed(" ".join(map(str, said)))


def same(what, found, wanted):
    need(found == wanted, f"{what}: {found!r}, but {wanted!r} is right")


def cost_of(kinds, weights=None):
    """The weighted sum of tokens, rounded up once."""
    weights = weights or WEIGHTS
    return math.ceil(sum(Fraction(str(weights[kind])) * count for kind, count in kinds.items()))


def estimate(body_bytes, maximum=None, weights=None, default=DEFAULT_OUTPUT, largest=MAX_TOKENS):
    """What `reserve: auto` takes. `maximum` is that of all answers of the request together."""
    weights = weights or WEIGHTS
    tokens_in = Fraction(min(body_bytes, largest * BYTES_A_TOKEN), BYTES_A_TOKEN)
    output = min(default if maximum is None else maximum, int(largest - tokens_in))
    dearest = max(Fraction(str(weights.get(kind, 1))) for kind in ("input", "cached", "cache_write"))
    return math.ceil(tokens_in * dearest + output * Fraction(str(weights["output"])))


def key_of(user):
    return f"key-of-{user}-in-the-trial"


def token_of(**claims):
    """A JWT, as an identity provider would sign it."""
    def encoded(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    text = ".".join(encoded(json.dumps(part).encode()) for part in (
        {"alg": "HS256"}, {"iss": "https://idp.example", "aud": "api", "exp": 4102444800, **claims}))
    return f"{text}.{encoded(hmac.digest(JWT_SECRET, text.encode(), 'sha256'))}"


class Clients:
    """The SDKs, in one process of Node."""

    def __init__(self, world, modules):
        self._process = world.start(["node", HERE / "clients.mjs", modules], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True,
                                    stderr=open(world.folder / "clients.err", "wb"))
        self._waiting, self._lock, self._ids = {}, threading.Lock(), 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._process.stdout:
            answer = json.loads(line)
            self._waiting.pop(answer["id"]).put(answer)

    def begin(self, call, url, user="alice", fields=None, **more):
        """Makes a call; the function that is returned waits for its end."""
        answers = queue.Queue()
        with self._lock:
            self._ids += 1
            self._waiting[self._ids] = answers
            self._process.stdin.write(json.dumps({"id": self._ids, "call": call, "url": url, "fields": fields or {},
                                                  "key": key_of(user), **more}) + "\n")
            self._process.stdin.flush()

        def end():
            try:
                return answers.get(timeout=CALL_SECONDS)
            except queue.Empty:
                raise Failed(f"{call} does not end within {CALL_SECONDS} s") from None
        return end

    def call(self, *arguments, **more):
        return self.begin(*arguments, **more)()


class Answer:
    """The answer to a request of ask()."""

    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    def json(self):
        try:
            return json.loads(self.body)
        except ValueError:
            raise Failed(f"no JSON: {self}") from None

    def __str__(self):
        return f"{self.status} {dict(self.fields.items())} {self.body[:300]!r}"


def ask(port, path, body=b"", fields=(), user="alice", method="POST", media_type="application/json", chunks=None,
        trial=None):
    """A request of a plain client. `chunks`: the body is sent in these, without a Content-Length."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=CALL_SECONDS)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        sent = [("Content-Type", media_type), *fields]
        if user:
            sent.append(("X-Api-Key", key_of(user)))
        if trial:
            sent.append(("X-Trial", trial))
        sent.append(("Transfer-Encoding", "chunked") if chunks else ("Content-Length", str(len(body))))
        for name, value in sent:
            connection.putheader(name, value)
        try:
            connection.endheaders(None if chunks else body)
            for one in [*(chunks or []), *([b""] if chunks else [])]:
                connection.send(b"%x\r\n%s\r\n" % (len(one), one))
        except (BrokenPipeError, ConnectionResetError):
            pass  # it is answered before all of it is read
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, {}, repr(error).encode())
    finally:
        connection.close()


class Leaver:
    """A client that sends a request, reads the beginning of the answer, and leaves."""

    def __init__(self, port, path, body, user="alice", trial="", fields=""):
        self._connection = socket.create_connection(("127.0.0.1", port), timeout=CALL_SECONDS)
        text = json.dumps(body).encode()
        self._connection.sendall(
            (f"POST {path} HTTP/1.1\r\nHost: trial\r\nX-Api-Key: {key_of(user)}\r\nX-Trial: {trial}\r\n{fields}"
             f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n").encode() + text)
        self.seen = b""

    def read_until(self, text):
        while text not in self.seen:
            piece = self._connection.recv(65536)
            need(piece, "the answer ends before", text, "with", self.seen[-200:])
            self.seen += piece

    def leave(self):
        self._connection.close()


class Gateway(Tidegate):
    """A Tidegate with the users of the trial, before the provider."""

    def __init__(self, place, text, name="tidegate", upstream=None, more="", **options):
        self.place, self.name = place, name
        self.access_file = place.world.folder / f"{name}.access.log"
        self._upstream, self._more = upstream or place.provider.port, more
        super().__init__(place.world, place.program, self._settings(text), name=name,
                         access=f"{{path: {self.access_file}}}", **options)
        self.config = place.world.folder / f"{name}.yaml"
        self.url = f"http://127.0.0.1:{self.port}"

    def _settings(self, text):
        keys = self.place.keys_file
        methods = "\n".join(f"    - api_key: {{header: {name}, keys: {keys}}}"
                            for name in ("x-api-key", "authorization", "x-goog-api-key"))
        identity = "" if "\nidentity:" in text else f"identity:\n  user:\n{methods}\n"
        return (f"{identity}upstreams:\n  models: {{servers: [\"http://127.0.0.1:{self._upstream}\"], "
                f"max_connections: 100000}}\n{self._more}{text}")

    def ask(self, path, body=b"", **more):
        return ask(self.port, path, body, **more)

    def chat(self, **more):
        """A request of chat completions by a plain client."""
        body = {"model": "gpt-x", "messages": [{"role": "user", "content": "one two three"}]}
        for name in ("max_tokens", "stream", "model", "stream_options"):
            if name in more:
                body[name] = more.pop(name)
        return self.ask("/v1/chat/completions", body, **more)

    def inspect(self, identifier):
        """{policy: its limits} of an identifier."""
        url = f"http://127.0.0.1:{self.admin_port}/api/inspect?identifier={urllib.parse.quote(identifier, safe='')}"
        with urllib.request.urlopen(url, timeout=10) as reply:
            found = json.load(reply)
        return {one["policy"]: one["limits"] for who in found["identifiers"] for one in who["policies"]}

    def counted(self, identifier="user:alice", policy="tokens"):
        limits = self.inspect(identifier)
        need(policy in limits, f"{policy} counts nothing for {identifier}: {limits}")
        return float(limits[policy][0]["counted"])

    def settles_to(self, wanted, identifier="user:alice", policy="tokens", what=""):
        """The count becomes `wanted`, soon, and stays so."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while (found := self.counted(identifier, policy)) != wanted and time.monotonic() < deadline:
            time.sleep(0.02)
        need(abs(found - wanted) < 1e-9, f"{what or policy}: {found:g} counted for {identifier}, {wanted:g} is right")

    def lines(self, count=1, where=lambda line: True):
        """The lines of the access log; waits until there are so many."""
        def read():
            if not self.access_file.exists():
                return None
            found = [json.loads(line) for line in self.access_file.read_text().splitlines()
                     if line.endswith("}")]
            found = [line for line in found if where(line)]
            return found if len(found) >= count else None
        return until(read, SETTLE_SECONDS, f"{count} lines of the access log")

    def usage(self, count=1):
        """The fields `usage_...` of the last line, without that, when there are so many lines."""
        line = self.lines(count)[-1]
        found = {name.removeprefix("usage_"): value for name, value in line.items() if name.startswith("usage_")}
        need(found, "the line has no usage:", line)
        return found

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/metrics", timeout=10) as reply:
            return reply.read().decode()

    def metric(self, name, **labels):
        """The sum of the series of that name with these labels."""
        total = 0.0
        for line in self.metrics().splitlines():
            series, _, value = line.rpartition(" ")
            if re.split(r"[{ ]", series)[0] == name and all(f'{one}="{text}"' in series
                                                            for one, text in labels.items()):
                total += float(value)
        return total

    def reload(self, text):
        head = self.config.read_text().splitlines(keepends=True)[:3]
        self.config.write_text("".join(head) + self._settings(text))
        said = self.run("reload", "-c", self.config)
        need(said.returncode == 0, "the reload fails:", said.stdout, said.stderr)

    def run(self, *arguments, **options):
        return subprocess.run([str(self.place.program), *map(str, arguments)], capture_output=True, text=True,
                              check=False, timeout=60, cwd=self.place.world.folder, **options)


class Provider:
    def __init__(self, world):
        self.port = free_port()
        self.process = world.start([sys.executable, HERE / "provider.py", self.port], stdout=subprocess.DEVNULL,
                                   stderr=open(world.folder / "provider.err", "wb"))
        until(lambda: accepts(self.port), 20, "the provider")
        self.url = f"http://127.0.0.1:{self.port}"

    def _control(self, what):
        with urllib.request.urlopen(f"{self.url}/_trial/{what}", timeout=10) as reply:
            return json.load(reply)

    def seen(self, count=None):
        """The requests so far; waits until there are so many."""
        if count is not None:
            until(lambda: len(self._control("seen")) >= count, 10, f"{count} requests at the provider")
        return self._control("seen")

    def last(self):
        found = self.seen()
        need(found, "the provider got no request")
        return found[-1]

    def forget(self):
        self._control("forget")

    def release(self, name):
        self._control(f"release?name={name}")


def field_of(request, name):
    """The values of a field that the provider got."""
    return [value for one, value in request["fields"] if one.lower() == name.lower()]


class Place:
    """Of one scenario. Provider and clients are those of all."""

    def __init__(self, world, program, provider, clients, modules):
        self.world, self.program, self.modules = world, program, modules
        self.provider, self.clients = provider, clients
        self.keys_file = world.folder / "members.keys"
        self.keys_file.write_text("".join(
            f"{hashlib.sha256(key_of(user).encode()).hexdigest()}: {{user: {user}}}\n" for user in USERS))
        self.keys_file.chmod(0o600)
        provider.forget()

    def gateway(self, text, **more):
        return Gateway(self, text, **more)

    def redis(self):
        return Redis(self.world)


Scenario = collections.namedtuple("Scenario", "name run needs_node")
SCENARIOS = []


def scenario(name, node=True):
    """Adds a function to the scenarios. `node`: it needs the SDKs."""
    def add(function):
        need(all(one.name != name for one in SCENARIOS), "two scenarios are called", name)
        SCENARIOS.append(Scenario(name, function, node))
        return function
    return add


def limits(quota=1_000_000):
    return f"[{{quota: {quota}, {DAY}}}]"


def tokens(cost="{reserve: auto, settle: auto, weights: WEIGHTS}", quota=1_000_000, route="", more="", key="[user]"):
    """A configuration with one policy, `tokens`, on the route `models`."""
    return (f"policies:\n  tokens:\n    key: {key}\n    limits: {limits(quota)}\n"
            f"    cost: {cost.replace('WEIGHTS', WEIGHTS_TEXT)}\n{more}"
            f"routes:\n  - {{name: models, match: {{path: \"/**\"}}, upstream: models, policies: [tokens]{route}}}\n")
