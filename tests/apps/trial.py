#!/usr/bin/env python3
"""Real applications behind Tidegate: can any spelling of their login, or of the parameter that
names the tenant, get past the limits?

    tests/apps/trial.py [--tidegate build/dev/tidegate] [express flask php]

Express, Flask on uWSGI and PHP each have POST /login and /signin (any method), which Tidegate limits
to five in 15 minutes by address, and read `tenant_id` from the query, by which Tidegate counts
/tenants. Each application writes down what it saw. The exit code is 1 when

- a login handler ran more often than five times, or
- an application read a tenant that the request was not counted for.

Needs node and npm (the package express is installed in --modules), php-cli, and of Debian
uwsgi-core, uwsgi-plugin-python3 and python3-flask. Everything listens on loopback only, and ends with
this program.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import urllib.parse

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "soak"))
sys.dont_write_bytecode = True

import spellings  # noqa: E402
from world import Failed, Tidegate, World, accepts, free_port, until  # noqa: E402

QUOTA = 5
SHOWN = 40  # spellings of a kind
LIMITS = """
threads: 1
# uWSGI closes each connection after its answer without saying so.
upstreams: {{app: {{servers: ["http://127.0.0.1:{port}"], idle_connections: 0}}}}
policies:
  login: {{key: [ip], limits: [{quota}/15min]}}
  signin: {{key: [ip], limits: [{quota}/15min]}}
  tenants: {{key: ["query:tenant_id"], limits: [1000000/h], on_missing: shared}}
  loose: {{key: [ip], limits: [1000000/h]}}
routes:
  - {{name: login, match: {{path: /login, methods: [POST]}}, upstream: app, policies: [login]}}
  - {{name: signin, match: {{path: /signin}}, upstream: app, policies: [signin]}}
{more}
  - {{name: tenants, match: {{path: /tenants}}, upstream: app, policies: [tenants]}}
  - {{name: rest, match: {{path: "/**"}}, upstream: app, policies: [loose]}}
"""
# Where an application serves its login under a second path, its operator writes both.
FRONT_CONTROLLER = """
  - {name: login2, match: {path: /index.php/login, methods: [POST]}, upstream: app, policies: [login]}
  - {name: signin2, match: {path: /index.php/signin}, upstream: app, policies: [signin]}
"""


class App:
    """An application, and a Tidegate before it."""

    def __init__(self, name, world, program, modules):
        self.name = name
        self.port = free_port()
        self.log = world.folder / "app.log"
        self.log.touch()
        self.process = world.start(
            self._command(modules), cwd=world.folder, stdout=subprocess.DEVNULL,
            stderr=open(world.folder / "app.err", "wb"),
            env=dict(os.environ, TRIAL_LOG=str(self.log), NODE_PATH=str(modules / "node_modules")))
        until(lambda: accepts(self.port), 20, name)
        self.access = world.folder / "access.log"
        self.tidegate = Tidegate(
            world, program,
            LIMITS.format(port=self.port, quota=QUOTA,
                          more=FRONT_CONTROLLER if name == "php" else ""),
            access=f"{{path: {self.access}}}")

    def _command(self, modules):
        at = f"127.0.0.1:{self.port}"
        return {
            "express": ["node", HERE / "express_app.js", self.port],
            "flask": ["uwsgi_python3", "--http-socket", at, "--wsgi-file", HERE / "flask_app.py",
                      "--callable", "app", "--need-app", "--disable-logging", "--die-on-term"],
            "php": ["php", "-q", "-d", "log_errors=0", "-S", at, HERE / "php_app.php"],
        }[self.name]

    def seen(self, trial):
        """The requests of this trial that it saw, by their numbers."""
        found = collections.defaultdict(list)
        with open(self.log, errors="replace") as lines:
            for line in map(json.loads, lines):
                kind, _, number = line["trial"].partition("-")
                if kind == trial:
                    found[int(number)].append(line)
        return found


def ask(port, method, target, fields="", version="1.1"):
    """The status that comes back; 0 where no answer does."""
    host = "" if re.search(r"(?mi)^Host:", fields) else "Host: a\r\n"
    head = f"{method} {target} HTTP/{version}\r\n{host}{fields}Content-Length: 0\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall((head + "Connection: close\r\n\r\n").encode("latin-1"))
        answer = b""
        try:
            while b"\r\n\r\n" not in answer:
                piece = connection.recv(65536)
                if not piece:
                    break
                answer += piece
        except ConnectionResetError:
            pass
    status = re.match(rb"HTTP/1\.[01] (\d{3})", answer)
    return int(status[1]) if status else 0


def shown(spelling):
    return spelling.encode("latin-1").decode("utf-8", "backslashreplace")


def shown_list(title, all_of_them):
    lines = [f"    {title}: {len(all_of_them)}"]
    lines += [f"      {shown(one)!r}" for one in all_of_them[:SHOWN]]
    if len(all_of_them) > SHOWN:
        lines.append("      ...")
    return lines


def statuses(counts):
    return ", ".join(f"{count} of {status or 'no answer'}"
                     for status, count in sorted(counts.items()))


def try_login(app, name, methods):
    """Asks in every spelling once the quota is used up. (lines for people, whether it held)"""
    plain = ("POST", "/" + name, "", "1.1")
    asked = [plain] * (QUOTA + 3) + list(spellings.requests(name, methods))
    counts = collections.Counter(
        ask(app.tidegate.port, method, target, f"{fields}X-Trial: {name}-{i}\r\n", version)
        for i, (method, target, fields, version) in enumerate(asked))
    hits = [" ".join(asked[i][:3]).strip() for i, lines in app.seen(name).items()
            for line in lines if line["handler"] == name]
    lines = [f"  {app.name}, /{name}: {len(asked)} sent: {statuses(counts)}; "
             f"{len(hits)} reached the handler, at most {QUOTA} may"]
    through = [hit for hit in hits if hit != f"POST /{name}"]
    if through:
        lines += shown_list("spellings that got through", through)
    # Fewer would mean that the trial itself does not work.
    return lines, len(hits) == QUOTA


def texts_in(value):
    """The texts in a parser's result for a query."""
    if isinstance(value, dict):
        return [text for one in value.values() for text in texts_in(one)]
    if isinstance(value, list):
        return [text for one in value for text in texts_in(one)]
    return [value] if isinstance(value, str) else []


def counted_for(app):
    """The tenant that each request was counted for, by its id."""
    prefix = "query:tenant_id="
    found = {}
    for line in open(app.access):
        record = json.loads(line)
        found[record["id"]] = {urllib.parse.unquote(identifier.removeprefix(prefix))
                               for identifier in record["identifiers"]
                               if identifier.startswith(prefix)}
    return found


def try_tenants(app):
    """Names the tenant in every spelling, alone and beside the plain one."""
    names = spellings.parameter_names("tenant_id")
    for i, name in enumerate(names):
        ask(app.port, "GET", f"/tenants?{name}=t{i}", f"X-Trial: direct-{i}\r\n")
    queries = [query for i, name in enumerate(names)
               for query in (f"{name}=t{i}", f"{name}=t{i}&tenant_id=plain",
                             f"tenant_id=plain&{name}=t{i}", f"a=b;{name}=t{i}")]
    got = [ask(app.tidegate.port, "GET", "/tenants?" + query, f"X-Trial: tenants-{i}\r\n")
           for i, query in enumerate(queries)]
    app.tidegate.stop()  # now the access log is whole
    direct = app.seen("direct")
    read = {i for i in range(len(names)) if i in direct and texts_in(direct[i][0]["tenant"])}
    alone = [status for i, status in enumerate(got[::4]) if i not in read]
    counted = counted_for(app)
    through = []
    for i, lines in app.seen("tenants").items():
        for line in lines:
            tenants = set(texts_in(line["tenant"]))
            if tenants and tenants != counted[line["id"]]:
                through.append(f"{queries[i]} read as {sorted(tenants)}, "
                               f"counted for {sorted(counted[line['id']]) or 'none'}")
    lines = [f"  {app.name}, tenant_id: {len(names)} names, of which the application reads {len(read)} "
             f"as tenant_id (of the others {alone.count(400)} are 400, too); {len(queries)} queries "
             f"sent: {statuses(collections.Counter(got))}; {len(through)} read as another tenant than counted, none may be"]
    if through:
        lines += shown_list("queries that got through", through)
    return lines, bool(read) and not through


def try_app(name, program, modules):
    with tempfile.TemporaryDirectory(prefix=f"trial-{name}-") as folder:
        with World(pathlib.Path(folder)) as world:
            app = App(name, world, program, modules)
            lines, held = [], True
            for trial in (lambda: try_login(app, "login", spellings.POSTS),
                          lambda: try_login(app, "signin", spellings.METHODS),
                          lambda: try_tenants(app)):
                more, holds = trial()
                lines += more
                held = held and holds
            return lines, held


def install_express(modules):
    if not (modules / "node_modules" / "express").is_dir():
        modules.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", modules,
                        "express@4"], check=True, timeout=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidegate", type=pathlib.Path, default=ROOT / "build/dev/tidegate")
    parser.add_argument("--modules", type=pathlib.Path, default=ROOT / "build/apps")
    parser.add_argument("apps", nargs="*", default=["express", "flask", "php"])
    arguments = parser.parse_args()
    if "express" in arguments.apps:
        install_express(arguments.modules)
    held = True
    with concurrent.futures.ThreadPoolExecutor() as pool:
        runs = [pool.submit(try_app, name, arguments.tidegate.resolve(), arguments.modules.resolve())
                for name in arguments.apps]
        for name, run in zip(arguments.apps, runs):
            try:
                lines, holds = run.result()
            except (Failed, OSError) as error:
                lines, holds = [f"  {name}: {error}"], False
            print("\n".join([f"{'ok  ' if holds else 'FAIL'} {name}", *lines]), flush=True)
            held = held and holds
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
