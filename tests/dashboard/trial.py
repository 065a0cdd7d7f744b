#!/usr/bin/env python3
"""The dashboard in a browser: Chromium, driven by puppeteer-core.

    tests/dashboard/trial.py [--tidegate build/dev/tidegate] [--only PART | --picture FILE]

Each part of parts.js has a browser and a Tidegate of its own. The exit code is 1 when one of them sees
what must not be. --picture makes the picture of the README (docs/dashboard.png) instead, in a minute.

Needs node, npm (puppeteer-core and axe-core are installed in --modules), Chromium and redis-server.
Everything listens on loopback only, and ends with this program.
"""

import argparse
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "soak"))
sys.dont_write_bytecode = True

from world import Failed, Redis, Tidegate, World, accepts, free_port, until  # noqa: E402

PACKAGES = ["puppeteer-core@24.43.1", "axe-core@4.14.1"]
TOKEN = "a-token-of-the-test"
QUOTA = 10
PART_SECONDS_MAX = 900
SETTINGS = """
upstreams: {{api: {{servers: [http://127.0.0.1:{upstream}]}}}}
policies: {{per-tenant: {{key: ["header:x-tenant"], limits: [{quota}/h]}}{more}}}
routes: [{{name: things, match: {{path: "/**"}}, upstream: api, policies: {policies}}}]
"""
# For the picture: the limits of an API with tenants, which the loads of picture.js reach.
SETTINGS_OF_PICTURE = """
upstreams: {{api: {{servers: [http://127.0.0.1:{upstream}]}}}}
policies:
  tenants: {{key: ["header:x-tenant"], limits: [40/s, 1500/min]}}
  clients: {{key: [ip], limits: [500/s]}}
routes:
  - {{name: search, match: {{path: /v1/search}}, upstream: api, policies: [tenants, clients]}}
  - {{name: api, match: {{path: "/v1/**"}}, upstream: api, policies: [tenants, clients]}}
"""
# For the part `shadow`.
IN_SHADOW = ', trial: {key: ["header:x-tenant"], limits: [3/h], mode: shadow}'
# For the part `candidate`.
WITH_CANDIDATE = ', tried: {key: ["header:x-tenant"], limits: [99/h], candidate: {limits: [3/h]}}'
# For the part `costs`.
WITH_COSTS = (', bytes: {key: ["header:x-tenant"], limits: [1000/h], cost: {reserve: 50, settle: {bytes_out: 1}}}'
              ', budget: {key: ["header:x-tenant"], limits: [{quota: 5, unit: usd, per: 1h}],'
              ' cost: {reserve: 0.25, settle: {header: x-cost}, unit: usd}}')
# For the part `leases`: a key of all requests.
WITH_LEASES = ', all: {key: ["constant:all"], limits: [100000/h], lease: {slack: 50%}}'
# Policies beside `per-tenant`, by part, and their names.
MORE = {"shadow": (IN_SHADOW, ["trial"]), "candidate": (WITH_CANDIDATE, ["tried"]),
        "costs": (WITH_COSTS, ["bytes", "budget"]), "leases": (WITH_LEASES, ["all"])}
# Name of the part: whether the admin listener has a token, and what becomes of Redis (none: the store
# is in memory).
PARTS = {
    "figures": (False, None),
    "names": (False, None),
    "keyboard": (False, None),
    "axe": (False, None),
    "silence": (False, None),
    "memory": (False, None),
    "token": (True, None),
    "store": (False, "killed"),
    "shadow": (False, None),
    "candidate": (False, None),
    "costs": (False, None),
    "leases": (False, "kept"),
}


def try_part(program, modules, part):
    with_token, redis = PARTS[part]
    with tempfile.TemporaryDirectory(prefix="dashboard-") as folder:
        with World(pathlib.Path(folder)) as world:
            upstream = free_port()
            world.start(["node", HERE.parent / "browser" / "api.js", upstream, "http://none"])
            until(lambda: accepts(upstream), 20, "the API")
            more, names = MORE.get(part, ("", []))
            settings = SETTINGS.format(upstream=upstream, quota=QUOTA, more=more,
                                       policies=f"[{', '.join(['per-tenant', *names])}]")
            store = Redis(world) if redis else None
            if store:
                settings += f'store: {{redis: {{url: "redis://127.0.0.1:{store.port}/0"}}}}\n'
            tidegate = Tidegate(world, program, settings, token=TOKEN if with_token else None)
            if redis == "killed":
                store.kill()
            place = {"proxy": f"http://127.0.0.1:{tidegate.port}",
                     "admin": f"http://127.0.0.1:{tidegate.admin_port}",
                     "token": TOKEN if with_token else "", "quota": QUOTA}
            return run_node(modules, "parts.js", part, json.dumps(place))


def make_picture(program, modules, file):
    with tempfile.TemporaryDirectory(prefix="dashboard-") as folder:
        with World(pathlib.Path(folder)) as world:
            upstream = free_port()
            world.start(["node", HERE.parent / "browser" / "api.js", upstream, "http://none"])
            until(lambda: accepts(upstream), 20, "the API")
            store = Redis(world)
            settings = (SETTINGS_OF_PICTURE.format(upstream=upstream)
                        + f'store: {{redis: {{url: "redis://127.0.0.1:{store.port}/0"}}}}\n')
            tidegate = Tidegate(world, program, settings)
            run_node(modules, "picture.js",
                     json.dumps({"proxy": f"http://127.0.0.1:{tidegate.port}",
                                 "admin": f"http://127.0.0.1:{tidegate.admin_port}"}), file)


def run_node(modules, script, *given):
    # A session of its own: Chromium ends with it.
    node = subprocess.Popen(
        ["node", HERE / script, *given], text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env=dict(os.environ, NODE_PATH=str(modules / "node_modules")))
    try:
        said, _ = node.communicate(timeout=PART_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(node.pid, signal.SIGKILL)
        said = node.communicate()[0] + f"not done in {PART_SECONDS_MAX} s"
    if node.returncode:
        raise Failed(said[-3000:])
    return said.strip()


def is_installed(modules, package):
    name, version = package.split("@")
    try:
        with open(modules / "node_modules" / name / "package.json", encoding="utf-8") as file:
            return json.load(file)["version"] == version
    except (OSError, ValueError, KeyError):
        return False


def install(modules):
    if not all(is_installed(modules, package) for package in PACKAGES):
        modules.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", modules,
                        *PACKAGES], check=True, timeout=300)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tidegate", type=pathlib.Path, default=ROOT / "build/dev/tidegate")
    parser.add_argument("--modules", type=pathlib.Path, default=ROOT / "build/dashboard")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--picture", type=pathlib.Path)
    arguments = parser.parse_args()
    modules = arguments.modules.resolve()
    install(modules)
    if arguments.picture:
        make_picture(arguments.tidegate.resolve(), modules, arguments.picture)
        return 0
    held = True
    for part in [arguments.only] if arguments.only else PARTS:
        try:
            found = try_part(arguments.tidegate.resolve(), modules, part)
            print("\n".join(f"ok   {part}: {line}" for line in found.splitlines()), flush=True)
        except (Failed, OSError, subprocess.TimeoutExpired) as error:
            print(f"FAIL {part}: {error}", flush=True)
            held = False
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
