#!/usr/bin/python3
"""Clients and suites of others against Tidegate's HTTP/2: does each find what it expects?

    tests/http2/trial.py [--tidegate build/dev/tidegate] [--only NAME,...] [--logs FOLDER]
                         [--seconds N]

h2spec, curl, nghttp2's h2load, python3-h2, python3-grpcio, python3-websockets and python3-wsproto, in the clear and
over TLS. A part whose program is not on this machine says `not run`. The exit code is 1 when one
part does not hold. Everything listens on loopback only, and ends with this program. Needs the Python
of Debian, whose packages they are.
"""

import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "soak"))
sys.dont_write_bytecode = True

import calls  # noqa: E402
import killed  # noqa: E402
import others  # noqa: E402
import peers  # noqa: E402
import tunnels  # noqa: E402
from peer import tls_context  # noqa: E402
from world import Failed, Tidegate, World, accepts, free_port, until  # noqa: E402

SETTINGS = """
upstreams:
  api: {{servers: [http://127.0.0.1:{echo}]}}
  chat: {{servers: [http://127.0.0.1:{sockets}]}}
policies: {{few: {{key: [ip], limits: [3/h]}}}}
routes:
  - {{match: {{path: "/ws/**"}}, upstream: chat, upgrade: [websocket], policies: []}}
  - {{match: {{path: /few}}, upstream: api, policies: [few]}}
  - {{upstream: api, policies: []}}
timeouts: {{drain: 5s}}
threads: 2
"""


class Part:
    """The expectations that were tried, and those that failed."""

    def __init__(self, name):
        self.name, self.found, self.wrong, self.is_run = name, "", [], True

    def expect(self, holds, *what):
        if not holds:
            self.wrong.append(" ".join(str(one) for one in what))

    def not_run(self, why):
        self.is_run, self.found = False, why
        return self

    def __str__(self):
        word = "FAIL" if self.wrong else "ok  " if self.is_run else "not run:"
        return f"{word} {self.name}: {self.found}"


class Place:
    """What the parts run against: a Tidegate with a listener in the clear and one with TLS, which
    both speak HTTP/1.1, too, and one for HTTP/2 alone."""

    def __init__(self, world, program, logs, seconds):
        self.world, self.program, self.logs, self.seconds = world, program, logs, seconds
        self.part, self.root = Part, ROOT
        make_certificates(world.folder)
        self.authority = world.folder / "ca.pem"
        self.echo_port, self.sockets_port = free_port(), free_port()
        world.start([program, "echo", "--listen", f"127.0.0.1:{self.echo_port}"],
                    stdout=subprocess.DEVNULL)
        world.start([sys.executable, HERE / "sockets.py", self.sockets_port])
        for port in (self.echo_port, self.sockets_port):
            until(lambda port=port: accepts(port), 20, "an upstream")
        self.alone = free_port()
        self.tidegate, self.clear, self.tls = self.start(
            more=f", {{address: '127.0.0.1:{self.alone}', http: [h2]}}")

    def start(self, name="tidegate", more=""):
        clear, tls = free_port(), free_port()
        listen = (f"[{{address: '127.0.0.1:{clear}', http: [h2, http1]}}, "
                  f"{{address: '127.0.0.1:{tls}', tls: {{certificates: [{{certificate: "
                  f"{self.world.folder}/own.pem, key: {self.world.folder}/own.key}}]}}}}{more}]")
        settings = SETTINGS.format(echo=self.echo_port, sockets=self.sockets_port)
        return Tidegate(self.world, self.program, settings, listen=listen, name=name), clear, tls

    def transports(self):
        """(name, scheme, port, context of TLS)"""
        return [("clear", "http", self.clear, None),
                ("tls", "https", self.tls, tls_context(self.authority))]


def make_certificates(folder):
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    for command in (
            ["req", "-x509", *key, "-days", "90", "-subj", "/CN=trial", "-keyout", "ca.key",
             "-out", "ca.pem"],
            ["req", *key, "-subj", "/CN=localhost", "-keyout", "own.key", "-out", "own.csr"],
            ["x509", "-req", "-in", "own.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "60",
             "-extfile", "names", "-out", "own.pem"]):
        subprocess.run(["openssl", *command], cwd=folder, check=True, capture_output=True)
    (folder / "own.key").chmod(0o600)


PARTS = {
    "h2spec": others.try_h2spec, "curl": others.try_curl, "h2load": others.try_h2load,
    "streams": peers.try_streams, "windows": peers.try_windows, "fields": peers.try_fields,
    "refusals": peers.try_refusals, "sockets": tunnels.try_http1, "tunnels": tunnels.try_http2,
    "drain": peers.try_drain, "grpc": calls.try_grpc, "killed": killed.try_killed,
    "large": killed.try_large,
}


def try_all(program, names, logs, seconds):
    held = True
    with tempfile.TemporaryDirectory(prefix="http2-") as folder:
        with World(pathlib.Path(folder)) as world:
            place = Place(world, program, logs, seconds)
            for name in names:
                for part in PARTS[name](place):
                    print(part, flush=True)
                    for one, count in collections.Counter(part.wrong).most_common(8):
                        print(f"       {count} times: {one}", flush=True)
                    held = held and not part.wrong
            code = place.tidegate.stop()
            if code or "Sanitizer" in place.tidegate.errors():
                print(f"FAIL Tidegate ended with {code}:\n{place.tidegate.errors()}")
                held = False
    return held


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidegate", type=pathlib.Path, default=ROOT / "build/dev/tidegate")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    parser.add_argument("--logs", type=pathlib.Path, default=ROOT / "build/http2")
    parser.add_argument("--seconds", type=float, default=20)
    arguments = parser.parse_args()
    unknown = set(arguments.only) - set(PARTS)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    arguments.logs.mkdir(parents=True, exist_ok=True)
    try:
        held = try_all(arguments.tidegate.resolve(), arguments.only, arguments.logs.resolve(),
                       arguments.seconds)
    except Failed as error:
        print(f"FAIL {error}")
        held = False
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
