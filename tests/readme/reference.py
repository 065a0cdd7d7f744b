#!/usr/bin/env python3
"""Holds the reference to the program: reference.py [--write]

- The text between `<!-- reference WHAT: begin -->` and `<!-- reference WHAT: end -->` in a document is
  what `tidegate reference WHAT` prints, and config/tidegate.schema.json is what `tidegate schema` prints.
  --write writes them.
- docs/configuration.md has a place for each key at the top of a configuration.
- No document names a metric that the program does not have.

TIDEGATE_PROGRAM names the program; without it, it is build/release/tidegate.
"""

import glob
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(os.environ.get("TIDEGATE_PROGRAM", "build/release/tidegate"))
SCHEMA = "config/tidegate.schema.json"
PLACE = re.compile(r"<!-- reference ([^\n]+): begin -->\n.*?<!-- reference \1: end -->\n", re.DOTALL)

# A name of a metric, not a variable of nginx ($tidegate_user) or a package (tidegate_0.1.0).
METRIC = re.compile(r"(?<![$/])\b(?:tidegate|process)_[a-z][a-z0-9_]*\b")


def documents():
    return ["README.md", "CONTRIBUTING.md", *sorted(glob.glob("docs/*.md"))]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def printed(*command):
    done = subprocess.run([PROGRAM, *command], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"`tidegate {' '.join(command)}` fails")
    return done.stdout


def written():
    """Path -> its text, of each file that the program has a part in."""
    texts = {SCHEMA: printed("schema")}
    for path in documents():
        text = read(path)
        filled = PLACE.sub(
            lambda place: f"<!-- reference {place[1]}: begin -->\n\n"
                          f"{printed('reference', *place[1].split())}\n"
                          f"<!-- reference {place[1]}: end -->\n", text)
        if PLACE.search(text):
            texts[path] = filled
    return texts


def write():
    for path, text in written().items():
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def faults_of_written():
    for path, text in written().items():
        if text != read(path):
            yield f"{path} is not what the program prints; run scripts/reference --write"


def faults_of_keys():
    places = " ".join(PLACE.findall(read("docs/configuration.md"))).split()
    for key in json.loads(printed("schema"))["properties"]:
        if not any(re.match(rf"{key}\b", place) for place in places):
            yield f"docs/configuration.md has no place for `{key}`"


def faults_of_metrics():
    known = set()
    for metric in json.loads(printed("reference", "metrics", "--json")):
        parts = ("_bucket", "_count", "_sum") if metric["type"] == "histogram" else ()
        known.update([metric["name"], *(metric["name"] + part for part in parts)])
    for path in documents():
        for name in sorted(set(METRIC.findall(read(path))) - known):
            yield f"{path} has `{name}`, which is no metric of the program"


def main():
    os.chdir(ROOT)
    if sys.argv[1:] == ["--write"]:
        write()
    found = [*faults_of_written(), *faults_of_keys(), *faults_of_metrics()]
    print("\n".join(found) if found else "the reference has every key and every metric")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
