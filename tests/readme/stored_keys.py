#!/usr/bin/env python3
"""Holds the keys that documents name to those that Redis has: stored_keys.py

A Tidegate counts a request with two identifiers in a Redis of its own. docs/limits.md says what such a
key is; the keys that are there must be those. What other documents show of keys must have the same
version. TIDEGATE_PROGRAM names the program; without it, it is build/release/tidegate.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests/soak"))
sys.dont_write_bytecode = True

from world import Redis, Tidegate, World  # noqa: E402

PROGRAM = os.path.abspath(os.environ.get("TIDEGATE_PROGRAM", ROOT / "build/release/tidegate"))
PLACE = "docs/limits.md"
KEY = re.compile(r"In Redis the key is `([^`]+)`")
VERSION = re.compile(r"\btg:(\d+):")
SETTINGS = """
upstream: http://127.0.0.1:1
policies:
  clients: {{key: [ip, "header:x-tenant"], limits: [10/min]}}
routes: [{{match: {{path: "/**"}}, policies: [clients]}}]
store: {{redis: {{url: "redis://127.0.0.1:{port}/0"}}}}
on_store_failure: allow
"""
IDENTIFIERS = ("ip:127.0.0.1", "header:x-tenant=acme")


def stored():
    """The keys of one request, without the set of proxies that are alive."""
    with tempfile.TemporaryDirectory(prefix="keys-") as folder, World(folder) as world:
        redis = Redis(world)
        tidegate = Tidegate(world, PROGRAM, SETTINGS.format(port=redis.port))
        request = urllib.request.Request(f"http://127.0.0.1:{tidegate.port}/",
                                         headers={"X-Tenant": "acme"})
        try:
            urllib.request.urlopen(request, timeout=20).close()
        except urllib.error.HTTPError as error:  # no server is there: it is counted all the same
            error.close()
        said = subprocess.run(["redis-cli", "-p", str(redis.port), "--scan"], capture_output=True,
                              text=True, check=True)
        return sorted(key for key in said.stdout.split("\n") if key and key != "tg:{replicas}")


def faults():
    documented = KEY.search((ROOT / PLACE).read_text(encoding="utf-8"))
    if not documented:
        yield f"{PLACE} does not say what a key in Redis is"
        return
    expected = sorted(documented[1].replace("POLICY", "clients").replace("IDENTIFIER", name)
                      for name in IDENTIFIERS)
    found = stored()
    if found != expected:
        yield f"{PLACE} says that the keys are {expected}; Redis has {found}"
    versions = set(VERSION.findall(" ".join(found)))
    for path in sorted(ROOT.glob("docs/*.md")):
        for version in sorted(set(VERSION.findall(path.read_text(encoding="utf-8"))) - versions):
            yield f"docs/{path.name} has keys of version {version}; Redis has {sorted(versions)}"


def main():
    wrong = list(faults())
    print("\n".join(wrong) if wrong else "Redis has the keys that the documents name")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
