#!/usr/bin/env python3
"""Scripts reject wrong options before they install or build anything: options.py

In place of what installs and builds, the PATH has programs that fail and leave a mark. Each test is a line
that begins with `ok  `.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILDERS = ("apt-get", "cmake", "dpkg-buildpackage", "mmdebstrap", "ninja", "npm")
# Command, and what it has to say. The exit code is 2.
WRONG = {
    ("bench", "--no-such-option"): "unrecognized arguments: --no-such-option",
    ("bench", "--quick", "--rows", "tidegate,nonsense"): "no row nonsense; there are direct",
    ("bench", "--debian13", "--rows", "nginx-debian14"): "nginx-debian13",
    ("bench", "--tls", "--parts", "nonsense"): "no part nonsense; there are ",
    ("bench", "--growth", "idle,nonsense"): "no growth of nonsense; there are ",
    ("bench", "--tls", "--http2"): "not allowed with",
    ("build", "nonsense"): "scripts/build [release|",
    ("debian13", "--no-such-option"): "scripts/debian13 [",
    ("deps", "--no-such-option"): "scripts/deps [",
    ("format", "--no-such-option"): "scripts/format [--check]",
    ("fuzz", "--no-such-option"): "scripts/fuzz [SECONDS]",
    ("image", "--no-such-option"): "scripts/image [",
    ("measure", "--no-such-option"): "scripts/measure",
    ("package", "--no-such-option"): "scripts/package [",
    ("soak", "--no-such-option"): "scripts/soak",
    ("test", "--no-such-option"): "scripts/test [--all]",
}
HELP = ("bench --help", "bench --quick --help", "debian13 --help")


def fault_of(command, code, words, folder):
    mark = folder / "mark"
    mark.unlink(missing_ok=True)
    done = subprocess.run([ROOT / "scripts" / command[0], *command[1:]], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                          env=dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}"))
    if mark.exists():
        return f"it runs {mark.read_text().strip()} first"
    if done.returncode != code or words not in done.stdout:
        return f"exit code {done.returncode}: {done.stdout}"
    return ""


def main():
    failed = 0
    with tempfile.TemporaryDirectory(prefix="tidegate-options-") as name:
        folder = pathlib.Path(name)
        for builder in BUILDERS:
            program = folder / builder
            program.write_text(f"#!/bin/sh\necho {builder} >>{folder}/mark\nexit 1\n")
            program.chmod(0o755)
        tried = [(command, 2, words) for command, words in WRONG.items()]
        tried += [(tuple(line.split()), 0, f"scripts/{line.split()[0]}") for line in HELP]
        for command, code, words in tried:
            fault = fault_of(command, code, words, folder)
            print(f"{'FAIL' if fault else 'ok  '} scripts/{' '.join(command)}{': ' * bool(fault)}{fault}",
                  flush=True)
            failed += bool(fault)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
