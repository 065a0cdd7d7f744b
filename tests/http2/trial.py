#!/usr/bin/python3
"""Clients and suites of others against Tidegate's HTTP/2: does each find what it expects?

    tests/http2/trial.py [--tidegate build/dev/tidegate] [--only NAME,...] [--logs FOLDER]
                         [--seconds N]

h2spec, curl, nghttp2's h2load, python3-h2, python3-grpcio, python3-websockets and python3-wsproto, in the clear and
over TLS. A part whose program is not on this machine says `not run`. The exit code is 1 when one
part does not hold. Everything listens on loopback only, and ends with this program. Needs the Python
of Debian, whose packages they are.
"""

import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "soak"))
sys.dont_write_bytecode = True

import calls  # noqa: E402
import killed  # noqa: E402
import others  # noqa: E402
import peers  # noqa: E402
import tunnels  # noqa: E402
from peer import tls_context  # noqa: E402
from trials import ROOT, Part, make_certificates, make_parser, start_echo  # noqa: E402
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


class Place:
    """What the parts run against: a Tidegate with a listener in the clear and one with TLS, which
    both speak HTTP/1.1, too, and one for HTTP/2 alone."""

    def __init__(self, world, program, logs, seconds):
        self.world, self.program, self.logs, self.seconds = world, program, logs, seconds
        self.part, self.root = Part, ROOT
        self.authority, _, _ = make_certificates(world.folder)
        self.echo_port, self.sockets_port = start_echo(world, program), free_port()
        world.start([sys.executable, HERE / "sockets.py", self.sockets_port])
        until(lambda: accepts(self.sockets_port), 20, "the upstream of WebSockets")
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
                    held = part.report() and held
            code = place.tidegate.stop()
            if code or "Sanitizer" in place.tidegate.errors():
                print(f"FAIL Tidegate ended with {code}:\n{place.tidegate.errors()}")
                held = False
    return held


def main():
    parser = make_parser(__doc__)
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
