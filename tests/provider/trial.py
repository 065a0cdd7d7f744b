#!/usr/bin/env python3
"""A real identity provider before Tidegate: is a valid token ever refused while keys rotate?

    tests/provider/trial.py [--tidegate build/dev/tidegate] [--jwks]

oidc-provider signs tokens and serves its metadata and keys over HTTPS, with a certificate of an
authority that only `jwt.ca` names. Clients fetch tokens and use them without a pause, while the
provider rotates its keys: each new token is signed by the new key at once. The exit code is 1 when

- Tidegate refuses a token that the provider has signed with a key of its set (anything but 200 while
  rotations are further apart than Tidegate's fetches; when they are nearer, 503 with Retry-After may
  come first, and never 401), or
- it accepts a token of a key that the provider has taken out, or of a key that was never in.

--jwks configures the URL of the key set in place of discovery, and trusts the authority by
SSL_CERT_FILE. Needs node and npm (oidc-provider is installed in --modules) and openssl. Everything
listens on loopback only, and ends with this program.
"""

import base64
import collections
import http.client
import json
import os
import pathlib
import ssl
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "soak"))
sys.dont_write_bytecode = True

from trials import Part, make_certificates, make_parser, start_echo  # noqa: E402
from world import Failed, Tidegate, World, free_port  # noqa: E402

PACKAGE = "oidc-provider@8.8.1"
CLIENTS = 4
USES = 10  # of each token
# Tidegate fetches a key set at most once in five seconds.
FAR_APART_S, NEAR_S = 6.5, 1.5
FAR_ROTATIONS, NEAR_ROTATIONS = 4, 3
SETTINGS = """
upstream: http://127.0.0.1:{upstream}
limits: [1000000/h]
identity:
  require: on
  user:
    - jwt: {{{keys}, algorithms: [ES256], audience: "https://api.example"}}
"""
# Before `require`, `discovery` and `ca`.
JWKS_SETTINGS = """
upstreams: {{api: {{servers: ["http://127.0.0.1:{upstream}"]}}}}
policies: {{members: {{key: [user], limits: [1000000/h]}}}}
routes: [{{name: all, match: {{path: "/**"}}, upstream: api, policies: [members]}}]
identity: {{user: [{{jwt: {{{keys}, algorithms: [ES256], audience: "https://api.example"}}}}]}}
"""


class Provider:
    def __init__(self, world, modules):
        self.port = free_port()
        self.ca, certificate, key = make_certificates(world.folder)
        self.process = world.start(
            ["node", HERE / "provider.mjs", modules, self.port, certificate, key],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=open(world.folder / "provider.err", "wb"))
        if self._line() != "ready":
            raise Failed("the provider does not start:\n" + (
                world.folder / "provider.err").read_text(errors="replace"))
        self.trusted = ssl.create_default_context(cafile=self.ca)

    def _line(self):
        # Warnings of the provider come on the same stream.
        for line in self.process.stdout:
            if line.strip() == "ready" or line.strip().isdigit():
                return line.strip()
        return ""

    def tell(self, what):
        """`rotate` or `forget`; returns when the new key signs."""
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        if not self._line():
            raise Failed("the provider ended")

    def token(self):
        connection = http.client.HTTPSConnection("localhost", self.port, timeout=20,
                                                 context=self.trusted)
        try:
            connection.request(
                "POST", "/token", "grant_type=client_credentials",
                {"Content-Type": "application/x-www-form-urlencoded",
                 "Authorization": "Basic " + base64.b64encode(b"robot:of-the-test").decode()})
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise Failed(f"the provider gives no token: {answer.status} {text[:300]}")
            return json.loads(text)["access_token"]
        finally:
            connection.close()


def use(port, token):
    """(status, fields, body) of a request with the token"""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/", headers={"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def detail(body):
    """The fault that problem details state."""
    try:
        return json.loads(body)["detail"]
    except (ValueError, KeyError):
        return repr(body[:200])


class Load:
    """Clients that fetch tokens and use them, until they are stopped."""

    def __init__(self, provider, port):
        self.provider, self.port = provider, port
        self.statuses = collections.Counter()
        self.wrong = []
        self.retried = 0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._client) for _ in range(CLIENTS)]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _client(self):
        try:
            while not self._stop.is_set():
                token = self.provider.token()
                for _ in range(USES):
                    self._use(token)
        except (OSError, Failed, http.client.HTTPException) as error:
            with self._lock:
                self.wrong.append(repr(error))

    def _use(self, token):
        deadline = time.monotonic() + 20
        while True:
            status, fields, body = use(self.port, token)
            with self._lock:
                self.statuses[status] += 1
            after = fields.get("Retry-After")
            if status != 503 or not after or time.monotonic() > deadline:
                break
            with self._lock:
                self.retried += 1
            time.sleep(min(int(after), 10))
        if status != 200:
            with self._lock:
                self.wrong.append(f"{status} {detail(body)}")

    def said(self):
        return ", ".join(f"{count} of {status}" for status, count in sorted(self.statuses.items()))


def rotate_under_load(provider, tidegate, times, apart):
    with Load(provider, tidegate.port) as load:
        time.sleep(apart)
        for number in range(times):
            # The keys before stay in the set for a while, and then go.
            provider.tell("rotate")
            print(f"     rotation {number + 1}: {load.said()}", flush=True)
            time.sleep(apart)
    return load


def forged(token):
    """The token with another signature: of a key that was never in the set, with a `kid` of its
    own."""
    def text(data):
        return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

    head, claims, _ = token.split(".")
    fields = json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    fields["kid"] = "never-there"
    return f"{text(json.dumps(fields).encode())}.{claims}.{text(os.urandom(64))}"


def refused(port, token):
    """Whether Tidegate comes to say 401: it may have to look for the key first (503)."""
    deadline = time.monotonic() + 20
    while True:
        status, fields, _ = use(port, token)
        if status != 503 or time.monotonic() > deadline:
            return status == 401 and "WWW-Authenticate" in fields, status
        time.sleep(min(int(fields.get("Retry-After", 1)), 10))


def parts(provider, tidegate):
    """(expectation, finding, whether it holds) of each part."""
    load = rotate_under_load(provider, tidegate, FAR_ROTATIONS, FAR_APART_S)
    yield ("keys rotate, far apart: every valid token is accepted at once", load.said(),
           set(load.statuses) == {200} and not load.wrong, load.wrong)
    load = rotate_under_load(provider, tidegate, NEAR_ROTATIONS, NEAR_S)
    yield ("keys rotate, near: every valid token is accepted, if after a 503 with Retry-After",
           f"{load.said()}; {load.retried} asked again",
           set(load.statuses) <= {200, 503} and not load.wrong, load.wrong)
    holds, status = refused(tidegate.port, forged(provider.token()))
    yield "a token of a key that was never in the set is 401", str(status), holds, []
    old = provider.token()
    provider.tell("forget")
    time.sleep(FAR_APART_S)
    # A token of the new key makes Tidegate fetch the set, which has lost the old one.
    status = use(tidegate.port, provider.token())[0]
    yield "a token of the new key is accepted", str(status), status == 200, []
    holds, status = refused(tidegate.port, old)
    yield "a token of a key that was taken out is 401", str(status), holds, []


def try_provider(program, modules, with_jwks):
    with tempfile.TemporaryDirectory(prefix="provider-") as folder:
        with World(pathlib.Path(folder)) as world:
            provider = Provider(world, modules)
            upstream = start_echo(world, program)
            if with_jwks:
                # The program reads it as OpenSSL does; the clients here have their own trust.
                os.environ["SSL_CERT_FILE"] = str(provider.ca)
                keys = f'jwks: "https://localhost:{provider.port}/jwks"'
            else:
                keys = f'discovery: "https://localhost:{provider.port}", ca: {provider.ca}'
            settings = JWKS_SETTINGS if with_jwks else SETTINGS
            tidegate = Tidegate(world, program, settings.format(upstream=upstream, keys=keys))
            held = True
            for what, found, holds, wrong in parts(provider, tidegate):
                part = Part(what)
                part.found, part.wrong = found, [] if holds else wrong or ["it does not hold"]
                held = part.report() and held
            code = tidegate.stop()
            if code != 0:
                print(f"FAIL Tidegate ends with {code}:\n{tidegate.errors()[-2000:]}")
            return held and code == 0


def install(modules):
    if not (modules / "node_modules" / "oidc-provider").is_dir():
        modules.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", modules,
                        PACKAGE], check=True, timeout=300)


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--modules", type=pathlib.Path, default=ROOT / "build/provider")
    parser.add_argument("--jwks", action="store_true")
    arguments = parser.parse_args()
    modules = arguments.modules.resolve()
    install(modules)
    try:
        held = try_provider(arguments.tidegate.resolve(), modules, arguments.jwks)
    except Failed as error:
        print(f"FAIL {error}")
        held = False
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
