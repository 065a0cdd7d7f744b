#!/usr/bin/env python3
"""Runs the recipes: check.py [NAME...]

docs/recipes.md has a section for each file config/recipes/NAME.yaml. It holds
  - a block fenced as ```yaml config/recipes/NAME.yaml: the file, to the letter, but for the line that names its schema;
  - blocks fenced as ```console NAME: commands and what they print, in the form of tests/readme/check.py.

The test starts Tidegate with the file, on private ports and in front of an upstream of its own, runs
the commands and compares. Everything else is as a reader has it. The test replaces
  - ports of 127.0.0.1 (8080 Tidegate, 8181 its listener for gateways, 9901 for the admin, 3000 the API,
    3001 a second server of it, 6379 Redis; of TLS 443, and 80 for the redirect) by free ones, and
    0.0.0.0 and every address by 127.0.0.1;
  - /run/ by a temporary folder;
  - the 10 seconds of `streaming` by half a second;
  - the certificates that a file with `tls` names by those of scripts/certificates;
  - `tidegate` by the program that TIDEGATE_PROGRAM names (build/release/tidegate).
`tidegate check` must find no fault and nothing to warn about in the file as it is. `--write` copies the
files into the page instead.
"""

import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "readme"))
import check as readme  # noqa: E402: found by the path above

PAGE = "docs/recipes.md"
FOLDER = "config/recipes"
PROGRAM = os.path.abspath(os.environ.get("TIDEGATE_PROGRAM", "build/release/tidegate"))
FENCE = re.compile(r"```(yaml|console) (\S+)\s*")
START_SECONDS = 20
# These need more of an API than the echo upstream has.
LIKE_A_MODEL = ("openai-compatible", "anthropic", "gemini", "bedrock")
OWN_UPSTREAM = ("streaming", "own-ratelimit-fields", "sidecar", "websocket")


class Fault(Exception):
    pass


def free_ports(count):
    """(port, claim) of ports that nothing listens on. The claim keeps other tests from the port: as in
    tests/free_port.cpp, it is a socket with a name that only one can have."""
    found = []
    for port in random.sample(range(12_000, 32_000), 20_000):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0tidegate-test-{port}")
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("", port))
                listener.listen(1)
        except OSError:
            claim.close()
            continue
        found.append((port, claim))
        if len(found) == count:
            return found
    raise Fault("no port is free")


def shown(path):
    """The lines of a file, but for the one that names its schema: it is for the file where it is."""
    return [line for line in readme.read(path).splitlines()
            if not line.startswith("# yaml-language-server:")]


def read_page():
    """NAME -> the lines of its file, and NAME -> [(first line, lines)] of its commands."""
    files, commands, current = {}, {}, None
    for number, line in enumerate(readme.read(PAGE).splitlines(), start=1):
        begin = FENCE.fullmatch(line) if current is None else None
        if begin:
            current = (begin[1], begin[2], number + 1, [])
        elif current and line.startswith("```"):
            kind, name, first, lines = current
            if kind == "yaml":
                files[name] = lines
            else:
                commands.setdefault(name, []).append((first, lines))
            current = None
        elif current:
            current[3].append(line)
    return files, commands


def write_page():
    """Puts the files into their blocks."""
    lines, inside = [], None
    for line in readme.read(PAGE).splitlines():
        begin = FENCE.fullmatch(line) if inside is None else None
        if inside is None or line.startswith("```"):
            inside = None
            lines.append(line)
        if begin:
            inside = begin[2]
            if begin[1] == "yaml":
                lines += shown(begin[2])
            else:
                inside = None
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def names_certificates(name):
    return "privkey.pem" in readme.read(f"{FOLDER}/{name}.yaml")


def copy_files(name, folder):
    """All files of the recipes, and the certificates that this one names."""
    shutil.copytree(FOLDER, f"{folder}/{FOLDER}", ignore=shutil.ignore_patterns("*.pem", "*.key"))
    if names_certificates(name):
        subprocess.run(["scripts/certificates", f"{folder}/{FOLDER}"], check=True)


class World:
    """A recipe's Tidegate, its upstream and, if the file names one, its Redis."""

    def __init__(self, name):
        self.name = name
        self.folder = tempfile.mkdtemp(prefix="recipe-")
        self.running = []
        ports, self.claims = zip(*free_ports(8))
        proxy, gateways, admin, api, second, redis, tls, clear = ports
        self.places = {"127.0.0.1:8080": f"127.0.0.1:{proxy}", "127.0.0.1:8181": f"127.0.0.1:{gateways}",
                       "127.0.0.1:9901": f"127.0.0.1:{admin}",
                       "127.0.0.1:3000": f"127.0.0.1:{api}", "127.0.0.1:3001": f"127.0.0.1:{second}",
                       "127.0.0.1:6379": f"127.0.0.1:{redis}",
                       "127.0.0.1:443 ": f"127.0.0.1:{tls} ", "127.0.0.1:443\"": f"127.0.0.1:{tls}\"",
                       "address: 443\n": f'address: "127.0.0.1:{tls}"\n',
                       "127.0.0.1:80 ": f"127.0.0.1:{clear} ",
                       "address: 80,": f'address: "127.0.0.1:{clear}",',
                       "/run/": f"{self.folder}/run/"}
        if names_certificates(name):
            self.places[f"{FOLDER}/"] = f"{self.folder}/{FOLDER}/"
        if name == "streaming":
            self.places["response: 10s"] = "response: 500ms"
        try:
            self._start(api, redis)
        except BaseException:
            self.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def privately(self, text):
        """In one pass: a port of its own may begin as a public one does."""
        public = "|".join(re.escape(place) for place in self.places)
        return re.sub(public, lambda found: self.places[found[0]], text)

    def _start(self, api, redis):
        copy_files(self.name, self.folder)
        os.makedirs(f"{self.folder}/run/tidegate")
        path = f"{self.folder}/{FOLDER}/{self.name}.yaml"
        text = readme.read(path)
        if self.name in OWN_UPSTREAM:
            where = f"unix:{self.folder}/run/app/app.sock" if "unix:/run/app" in text else str(api)
            self._run("listening", sys.executable, "tests/recipes/upstream.py", where)
        elif self.name in LIKE_A_MODEL:
            self._run("listening", sys.executable, "tests/llm/provider.py", str(api))
        else:
            self._run("listening", PROGRAM, "echo", "--listen", f"127.0.0.1:{api}")
        if "127.0.0.1:6379" in text:
            self._run("Ready to accept", "redis-server", "--port", str(redis), "--save", "",
                      "--dir", self.folder)
        for key, address in (("listen", "127.0.0.1:8080"), ("admin", "127.0.0.1:9901")):
            if not re.search(rf"^{key}:", text, re.MULTILINE):
                text = f"{key}: {address}\n{text}"
        text = re.sub(r"0\.0\.0\.0:(9901|8181)", r"127.0.0.1:\1", text)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.privately(text))
        self._run("listening on", PROGRAM, "run", "-c", path)

    def _run(self, ready, *command):
        """Starts a command and waits until its output has `ready`."""
        log = f"{self.folder}/log-{len(self.running)}"
        with open(log, "wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT,
                                       stdin=subprocess.DEVNULL)
        self.running.append(process)
        deadline = time.monotonic() + START_SECONDS
        while ready not in readme.read(log):
            if process.poll() is not None or time.monotonic() > deadline:
                raise Fault(f"{' '.join(command)} did not start:\n" + readme.read(log))
            time.sleep(0.02)

    def close(self):
        """Ends all programs. The faults: what ended by itself, and what a sanitizer found."""
        faults = []
        for process in reversed(self.running):
            if process.poll():
                faults.append(f"{process.args[0]} ended with {process.returncode}")
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for claim in self.claims:
            claim.close()
        logs = [readme.read(f"{self.folder}/log-{number}") for number in range(len(self.running))]
        return faults + [log for log in logs if re.search(r"runtime error: |ERROR: \w+Sanitizer", log)]


def check_file(name, files):
    """The faults of the file itself."""
    path = f"{FOLDER}/{name}.yaml"
    if files.get(path) != shown(path):
        return [f"{PAGE} does not show {path} as it is: tests/recipes/check.py --write"]
    with tempfile.TemporaryDirectory(prefix="recipe-") as folder:
        copy_files(name, folder)
        said = subprocess.run([PROGRAM, "check", "-c", path], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, cwd=folder).stdout
    # Before the last line, the certificates with the days that each has left.
    return [] if re.fullmatch(r"(listen .*\n)*ok: .*\n", said) else [f"check {path}:\n{said}"]


def check_commands(name, blocks):
    """The differences between a recipe's page and the output of its commands."""
    wrong = []
    world = World(name)
    shell = readme.Shell(world.folder)
    try:
        for block in setup + blocks:
            for number, command, expected in readme.steps(block):
                said = readme.check(shell, world.privately(command), expected)
                if said is not None:
                    wrong.append(f"{PAGE}:{number}: {command}\n  expected:\n    "
                                 + "\n    ".join(expected) + "\n  but it said:\n    "
                                 + "\n    ".join(said.splitlines()))
    finally:
        shell.close()
        faults = world.close()
        # Printed here, as an exception may be about to end this program.
        print("".join(f"{fault}\n" for fault in faults), end="", flush=True)
        wrong += faults
        shutil.rmtree(world.folder, ignore_errors=True)
    return wrong


def check_recipe(name, files, commands):
    begin = time.monotonic()
    wrong = check_file(name, files)
    if not wrong:
        try:
            wrong = check_commands(name, commands[name])
        except Fault as fault:
            wrong = [str(fault)]
    print(f"{'FAIL' if wrong else 'ok  '} {name} {time.monotonic() - begin:.1f}s", flush=True)
    for one in wrong:
        print("  " + one.replace("\n", "\n  "))
    return not wrong


setup = []  # the functions that the page begins with: blocks of no recipe


def main():
    os.chdir(ROOT)
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("a command does not end"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    if sys.argv[1:] == ["--write"]:
        return write_page()
    files, commands = read_page()
    setup.extend(commands.pop("setup", []))
    names = {name[:-5] for name in os.listdir(FOLDER) if name.endswith(".yaml") and name != "prices.yaml"}
    odd = names.symmetric_difference(commands)
    for name in sorted(odd):
        print(f"FAIL {name}: {PAGE} and {FOLDER} must both have it")
    chosen = [name for name in commands if name in names and (not sys.argv[1:] or name in sys.argv[1:])]
    failed = [name for name in chosen if not check_recipe(name, files, commands)]
    count = len(failed) + len(odd)
    print(f"{count} recipes failed" if count else f"all {len(chosen)} recipes do as they say")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
