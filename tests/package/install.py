#!/usr/bin/env python3
"""Installs Tidegate into a folder and runs it from there: install.py [BUILD]

BUILD is a folder in which `tidegate` is built (build/release). The manual page and the completions must
be those of the installed program, and each configuration that is installed must be right where it is.
Each test is a line that begins with `ok  `.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
START_SECONDS = 60
MADE = {
    "share/man/man1/tidegate.1": ["man"],
    "share/bash-completion/completions/tidegate": ["completion", "bash"],
    "share/zsh/vendor-completions/_tidegate": ["completion", "zsh"],
    "share/fish/vendor_completions.d/tidegate.fish": ["completion", "fish"],
}
OTHERS = ["bin/tidegate", "etc/tidegate/tidegate.yaml", "share/tidegate/tidegate.schema.json",
          "share/tidegate/prometheus/alerts.yaml", "share/tidegate/grafana/tidegate.json",
          "share/doc/tidegate/README.md",
          "share/doc/tidegate/CHANGELOG.md", "share/doc/tidegate/LICENSE",
          "share/doc/tidegate/docs/configuration.md", "share/doc/tidegate/docs/dashboard.png",
          "share/doc/tidegate/examples/gateway.yaml",
          "share/doc/tidegate/examples/recipes/login.yaml"]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


class Trial:
    def __init__(self, prefix):
        self.prefix = prefix
        self.program = os.path.join(prefix, "bin/tidegate")
        self.failed = 0

    def judge(self, name, fault=""):
        self.failed += bool(fault)
        print(f"FAIL {name}: {fault}" if fault else f"ok   {name}", flush=True)

    def path(self, name):
        return os.path.join(self.prefix, name)

    def run(self, *arguments):
        return subprocess.run([self.program, *arguments], check=False, text=True, timeout=120,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=self.prefix)

    def files(self):
        missing = [name for name in [*OTHERS, *MADE] if not os.path.isfile(self.path(name))]
        self.judge("every file is at its place", ", ".join(missing))
        for name, arguments in MADE.items():
            differs = read(self.path(name)) != self.run(*arguments).stdout
            self.judge(f"{name} is that of the program", "it differs" if differs else "")
        writable = [name for name in OTHERS if os.stat(self.path(name)).st_mode & 0o022]
        self.judge("only its owner can write to a file", ", ".join(writable))

    def configuration(self):
        checked = self.run("check", "--strict", self.path("etc/tidegate/tidegate.yaml"))
        self.judge("the configuration is right", checked.stdout if checked.returncode else "")

    def serves(self):
        """The installed program with the installed configuration, on free ports."""
        ports = free_ports(3)
        text = read(self.path("etc/tidegate/tidegate.yaml"))
        for old, new in zip(("8080", "9901", "3000"), ports):
            text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
        copy = self.path("private-ports.yaml")
        with open(copy, "w", encoding="utf-8") as file:
            file.write(text)
        with open(self.path("run.log"), "wb") as log:
            running = subprocess.Popen([self.program, "run", copy], stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + START_SECONDS
            while (running.poll() is None and time.monotonic() < deadline
                   and self.run("health", "-c", copy).returncode):
                time.sleep(0.1)
            answer = self.run("health", "-c", copy)
        finally:
            running.terminate()
            code = running.wait(timeout=60)
        log = read(self.path("run.log"))
        self.judge("the installed program serves", answer.stdout + log if answer.returncode else "")
        self.judge("it stops when it is told to", log if code else "")


def free_ports(count):
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else f"{ROOT}/build/release")
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "usr")
        done = subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=False,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            sys.exit(done.stdout)
        trial = Trial(prefix)
        trial.files()
        trial.configuration()
        trial.serves()
    sys.exit(1 if trial.failed else 0)


if __name__ == "__main__":
    main()
