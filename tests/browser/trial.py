#!/usr/bin/env python3
"""What a page of another origin sees of Tidegate's answers, by the rules that browsers keep.

    tests/browser/trial.py [--tidegate build/dev/tidegate]

jsdom runs the page: it asks with XMLHttpRequest, sends preflights, and hides from the page what CORS
does not allow it. Behind Tidegate is an API that answers preflights of its own. Each part has a
Tidegate of its own with `response.cors`. The exit code is 1 when the page does not see what it has
to, or sees what it must not.

Needs node and npm (jsdom is installed in --modules). Everything listens on loopback only, and ends
with this program.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "soak"))
sys.dont_write_bytecode = True

from world import Failed, Tidegate, World, accepts, free_port, until  # noqa: E402

PACKAGE = "jsdom@24.1.3"
PAGE = "https://app.example.com"
QUOTA = 3
SETTINGS = """
upstream: http://127.0.0.1:{upstream}
limits: [{quota}/min]
response:
  request_id: on
  cors:
    origins: ["https://app.example.com", "https://*.example.org"]
    credentials: on
    max_age: 10min
    preflight: {preflight}
"""


class Place:
    """The API, a Tidegate before it, and pages."""

    def __init__(self, world, program, modules, preflight="50/s"):
        self.modules = modules
        upstream = free_port()
        world.start(["node", HERE / "api.js", upstream, PAGE])
        until(lambda: accepts(upstream), 20, "the API")
        self.tidegate = Tidegate(world, program, SETTINGS.format(
            upstream=upstream, quota=QUOTA, preflight=preflight))
        self.url = f"http://127.0.0.1:{self.tidegate.port}/things"

    def page(self, origin, count, **wanted):
        """What a page of this origin sees of so many requests."""
        done = subprocess.run(
            ["node", HERE / "page.js", origin], capture_output=True, text=True, timeout=120,
            input=json.dumps([{"url": self.url, **wanted}] * count), check=False,
            env=dict(os.environ, NODE_PATH=str(self.modules / "node_modules")))
        if done.returncode:
            raise Failed(f"the page does not run:\n{done.stderr[-2000:]}")
        return json.loads(done.stdout)


def need(holds, what, seen):
    if not holds:
        raise Failed(f"{what}: {json.dumps(seen)[:1500]}")


def statuses(seen):
    return [answer["status"] for answer in seen]


def sees_429(place):
    """A simple request: without a preflight."""
    seen = place.page(PAGE, QUOTA + 1)
    need(statuses(seen) == [200] * QUOTA + [429], "the page sees other answers", seen)
    first, denied = seen[0], seen[-1]
    need("ratelimit" in first["fields"], "the page does not see RateLimit of a 200", first)
    need("ratelimit-policy" in first["fields"], "nor RateLimit-Policy", first)
    need(first["fields"].get("x-preflights") == "0", "nor the field that the API lists", first)
    need("x-internal" not in first["fields"], "it sees a field that the API hides", first)
    need(1 <= int(denied["fields"].get("retry-after", 0)) <= 60,
         "the page does not see Retry-After", denied)
    need("ratelimit" in denied["fields"], "the page does not see RateLimit of the 429", denied)
    need(denied["fields"].get("x-request-id"), "the page does not see X-Request-Id", denied)
    need(json.loads(denied["body"])["status"] == 429, "the page does not see the body", denied)
    return f"429, Retry-After: {denied['fields']['retry-after']}"


def preflights_are_free(place):
    """A field of its own makes the browser ask first, each time. The preflights take nothing of the
    limit, also when it is used up, so that the page sees the 429 and not a network error."""
    seen = place.page(PAGE, QUOTA + 2, credentials=True,
                      fields={"Authorization": "Bearer x", "X-Page": "1"})
    need(statuses(seen) == [200] * QUOTA + [429] * 2, "the page sees other answers", seen)
    need([answer["fields"].get("x-preflights") for answer in seen[:QUOTA]] ==
         [str(number) for number in range(1, QUOTA + 1)], "the API saw other preflights", seen)
    need(int(seen[-1]["fields"].get("retry-after", 0)) >= 1, "no Retry-After", seen)
    return f"{QUOTA + 2} preflights, {QUOTA} of 200, then 429"


def preflights_are_limited(place):
    """They reach the API, so `preflight` bounds them by address."""
    seen = place.page(PAGE, QUOTA, fields={"X-Page": "1"})
    need(statuses(seen) == [200, 0, 0], "the page sees other answers", seen)
    return "with preflight: 1/min the second one is denied"


def wildcard_sees_429(place):
    """Of the API's answers these pages see nothing: the API does not know them. Tidegate's own
    answers allow the origins that it gets as arguments."""
    origin = "https://a.b.example.org"
    seen = place.page(origin, QUOTA + 1)
    need(statuses(seen) == [0] * QUOTA + [429], "the page sees other answers", seen)
    need(int(seen[-1]["fields"].get("retry-after", 0)) >= 1, "no Retry-After", seen)
    return origin


def strangers_see_nothing(place):
    for origin in ("https://evil.example", "https://example.org.evil.example",
                   "http://app.example.com", "https://app.example.com:8443",
                   "https://example.org"):
        seen = place.page(origin, QUOTA + 1)
        need(statuses(seen) == [0] * (QUOTA + 1), f"a page of {origin} sees answers", seen)
    return "not of another site, scheme or port"


PARTS = {
    "a page of another origin sees the 429 and its Retry-After": (sees_429, "50/s"),
    "preflights take nothing of the limit": (preflights_are_free, "50/s"),
    "preflights have a limit of their own": (preflights_are_limited, "1/min"),
    "a page of https://*.example.org sees the 429": (wildcard_sees_429, "50/s"),
    "pages of other origins see nothing": (strangers_see_nothing, "50/s"),
}


def try_part(program, modules, part, preflight):
    with tempfile.TemporaryDirectory(prefix="browser-") as folder:
        with World(pathlib.Path(folder)) as world:
            return part(Place(world, program, modules, preflight))


def install(modules):
    if not (modules / "node_modules" / "jsdom").is_dir():
        modules.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", modules,
                        PACKAGE], check=True, timeout=300)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidegate", type=pathlib.Path, default=ROOT / "build/dev/tidegate")
    parser.add_argument("--modules", type=pathlib.Path, default=ROOT / "build/browser")
    arguments = parser.parse_args()
    modules = arguments.modules.resolve()
    install(modules)
    held = True
    for what, (part, preflight) in PARTS.items():
        try:
            found = try_part(arguments.tidegate.resolve(), modules, part, preflight)
            print(f"ok   {what}: {found}", flush=True)
        except (Failed, OSError) as error:
            print(f"FAIL {what}: {error}", flush=True)
            held = False
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
