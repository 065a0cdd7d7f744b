#!/usr/bin/env python3
"""Tries the JSON Schema of the configuration, which the program makes of the rows of its keys.

- `tidegate schema` prints config/tidegate.schema.json.
- Each key has a description.
- Each configuration of config/, docker/ and the documents is valid, and each file of config/ names the
  schema for editors.
- Each case of tests/config_bad with an unknown key or a value of a wrong kind is not valid, and each
  case whose configuration has no error is.

Needs Python's jsonschema and yaml. Each test is a line that begins with `ok  `.
"""

import glob
import json
import os
import re
import subprocess
import sys

import jsonschema
import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "readme"))
import check as readme  # noqa: E402: found by the path above
import reference  # noqa: E402

SCHEMA = "config/tidegate.schema.json"
INSTALLED = "/usr/share/tidegate/tidegate.schema.json"  # of the configuration of the package
OF_ENVOY = "config/recipes/ratelimit/"  # files of Envoy's rate limit service
OF_PRICES = "/prices.yaml"  # files that configurations name
# A case of tests/config_bad (docs/testing.md): its name, what is said about it, its configuration.
CASE = re.compile(r"^=== (.+)\n((?:(?:error|warning): .*\n)+)((?:.*\n)*?)(?=-- .* --$|\n=== |\Z)",
                  re.MULTILINE)
ERROR = re.compile(r"^error: \d+:\d+: (.*)$", re.MULTILINE)  # of the configuration itself
# The reader's message for a value of another type than its key has.
WRONG_KIND = re.compile(r": (found|expected) (a list|a map|nothing|text|a number|an? .* instead)"
                        r"|; expected |is not a (duration|size|rate|number|switch)\b")
# Whether the file is YAML at all, and what is in other files, is beyond a schema.
MODELINE = re.compile(r"^# yaml-language-server: \$schema=(\S+)$", re.MULTILINE)


class Loader(yaml.SafeLoader):
    """Reads scalars as YAML 1.2 and editors do: `on` is text."""


Loader.yaml_implicit_resolvers = {}
for tag, pattern, first in (
        ("null", r"~|null|", "~n"), ("bool", r"true|false", "tf"),
        ("int", r"-?[0-9]+", "-0123456789"), ("float", r"-?[0-9]+\.[0-9]+", "-0123456789")):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"),
                                 [*first, *([""] if tag == "null" else [])])


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Schema:
    def __init__(self):
        self.tree = json.loads(read(SCHEMA))
        self.validator = jsonschema.Draft202012Validator(self.tree)

    def every_section(self):
        def walk(node):
            if isinstance(node, dict):
                if isinstance(node.get("properties"), dict):
                    yield node
                for inner in node.values():
                    yield from walk(inner)
            elif isinstance(node, list):
                for inner in node:
                    yield from walk(inner)
        return walk(self.tree)

    def fault(self, text):
        """The fault of a configuration, in a line; empty: none."""
        try:
            found = jsonschema.exceptions.best_match(
                self.validator.iter_errors(yaml.load(text, Loader)))
        except yaml.YAMLError as error:
            return f"not YAML: {error}".replace("\n", " ")
        return f"{found.json_path}: {found.message}"[:300] if found else ""


def cases():
    """(name, errors of the configuration, its text) of each case of tests/config_bad."""
    for path in sorted(glob.glob("tests/config_bad/*.txt")):
        for name, said, text in CASE.findall(read(path)):
            yield f"{path}: {name}", ERROR.findall(said), text


class Trial:
    def __init__(self):
        self.failed = 0
        self.schema = Schema()

    def judge(self, name, fault=""):
        self.failed += bool(fault)
        print(f"FAIL {name}: {fault}" if fault else f"ok   {name}", flush=True)

    def printed(self):
        said = subprocess.run([reference.PROGRAM, "schema"], capture_output=True, text=True,
                              check=False)
        self.judge("the program prints the schema",
                   "" if said.stdout == read(SCHEMA) else f"it differs from {SCHEMA} {said.stderr}")
        jsonschema.Draft202012Validator.check_schema(self.schema.tree)
        self.judge("the schema is one")

    def described(self):
        silent = [key for section in self.schema.every_section()
                  for key, value in section["properties"].items() if not value.get("description")]
        self.judge("each key has a description", ", ".join(silent))

    def right(self):
        for path in sorted(glob.glob("config/**/*.yaml", recursive=True)):
            if path.startswith(OF_ENVOY) or path.endswith(OF_PRICES):
                continue
            text = read(path)
            named = MODELINE.search(text)
            place = named and os.path.normpath(os.path.join(os.path.dirname(path), named[1]))
            if place == INSTALLED:
                place = SCHEMA
            self.judge(path, self.schema.fault(text) if place == SCHEMA
                       else f"no line `# yaml-language-server: $schema=...` that leads to {SCHEMA}")
        self.judge("docker/tidegate.yaml", self.schema.fault(read("docker/tidegate.yaml")))
        for page in ["README.md", *sorted(glob.glob("docs/*.md"))]:
            for number, lines in readme.blocks(read(page), "yaml"):
                self.judge(f"{page}:{number}", self.schema.fault("\n".join(lines)))

    def said(self):
        for name, errors, text in cases():
            fault = self.schema.fault(text)
            if not errors:
                self.judge(f"{name} is valid", fault)
            elif any(error.startswith("unknown key") or WRONG_KIND.search(error)
                     for error in errors):
                self.judge(f"{name} is not valid", "" if fault else "it is")


def main():
    os.chdir(ROOT)
    trial = Trial()
    trial.printed()
    trial.described()
    trial.right()
    trial.said()
    return 1 if trial.failed else 0


if __name__ == "__main__":
    sys.exit(main())
