#!/usr/bin/env python3
"""SDKs of model providers, MCP and crowds before Tidegate: are tokens and money counted as they are used?

    tests/llm/trial.py [--tidegate build/dev/tidegate] [--list] [NAME...]

A provider of the trial (provider.py) speaks OpenAI's APIs, Anthropic's, Gemini's and Bedrock's, and knows what
each request truly took. The SDKs of npm (clients.mjs) and plain clients call it directly and through Tidegate: the
answers have to be the same, and Tidegate has to count what the requests took, to the unit. NAME is a part of
scenarios' names. Each prints `ok NAME` or `not ok NAME: why`; the exit code is 1 when one is not ok.

Needs node 20 and npm (the packages of package-lock.json are installed in --modules; without it, the scenarios with
SDKs are not run), redis-server and curl. Everything listens on loopback only, and ends with this program.
"""

import argparse
import fcntl
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "soak"))
sys.dont_write_bytecode = True

import costs  # noqa: E402, F401: each adds its scenarios
import crowds  # noqa: E402, F401
import keys  # noqa: E402, F401
import page  # noqa: E402, F401
import sdks  # noqa: E402, F401
from place import SCENARIOS, Clients, Failed, Place, Provider, World  # noqa: E402

NODE_MIN = 20
PACKAGES = ("package.json", "package-lock.json")


def node_version():
    try:
        said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout
        return int(said.lstrip("v").split(".")[0])
    except (OSError, subprocess.CalledProcessError, ValueError):
        return 0


def install(modules):
    """What package-lock.json lists, to the byte; again when the list has changed."""
    modules.mkdir(parents=True, exist_ok=True)
    with open(modules / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = modules / "installed.json"
        if done.exists() and done.read_bytes() == (HERE / PACKAGES[1]).read_bytes():
            return
        for name in PACKAGES:
            shutil.copy(HERE / name, modules)
        subprocess.run(["npm", "ci", "--silent", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", modules],
                       check=True, timeout=600)
        shutil.copy(HERE / PACKAGES[1], done)


def run(one, program, provider, clients, modules):
    """Why the scenario is not ok; nothing: it is."""
    with tempfile.TemporaryDirectory(prefix="llm-") as folder, World(folder) as world:
        try:
            one.run(Place(world, program, provider, clients, modules))
            return None
        except Failed as error:
            return str(error)
        except Exception as error:  # a fault of one scenario is none of the others
            return f"{type(error).__name__}: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidegate", type=pathlib.Path, default=ROOT / "build/dev/tidegate")
    parser.add_argument("--modules", type=pathlib.Path, default=ROOT / "build/llm")
    parser.add_argument("--list", action="store_true", help="print the names alone")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    chosen = [one for one in SCENARIOS if not arguments.names or any(name in one.name for name in arguments.names)]
    if arguments.list:
        print("\n".join(one.name for one in chosen))
        return 0
    if any(one.needs_node for one in chosen) and node_version() < NODE_MIN:
        print(f"not run: {sum(one.needs_node for one in chosen)} scenarios with SDKs, which need Node {NODE_MIN}")
        chosen = [one for one in chosen if not one.needs_node]
    program, modules = arguments.tidegate.resolve(), arguments.modules.resolve()
    with tempfile.TemporaryDirectory(prefix="llm-") as folder, World(folder) as world:
        provider, clients = Provider(world), None
        if any(one.needs_node for one in chosen):
            install(modules)
            clients = Clients(world, modules)
        failed = 0
        for one in chosen:
            begin = time.monotonic()
            why = run(one, program, provider, clients, modules)
            failed += bool(why)
            seconds = time.monotonic() - begin
            print(f"not ok {one.name}: {why}" if why else f"ok {one.name} ({seconds:.1f} s)", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} scenarios are ok")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
