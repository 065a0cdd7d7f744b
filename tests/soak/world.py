"""The processes of a run: each is started here, on loopback, and ended by its own id."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    """A failed expectation, in words."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, seconds, what):
    """Waits for `condition()` and returns its value; raises Failed when that takes too long."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.02)
    return found


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


class World:
    """Everything that was started; leaving it ends all of it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self._running = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self._running):
            if process.poll() is None:
                process.kill()
                process.wait()

    def start(self, command, **options):
        process = subprocess.Popen([str(part) for part in command], **options)
        self._running.append(process)
        return process

    def start_script(self, name, *arguments, **options):
        return self.start([sys.executable, HERE / name, *arguments], **options)

    def end(self, process, how=signal.SIGKILL):
        """Ends `process` and returns its exit code."""
        process.send_signal(how)
        code = process.wait(timeout=60)
        self._running.remove(process)
        return code


class Upstream:
    """A server that can be killed and started again; its counts go on."""

    def __init__(self, world, name):
        self.world = world
        self.port = free_port()
        self.counters_file = world.folder / f"{name}.counters"
        self.process = None
        self.start()

    def start(self):
        self.process = self.world.start_script("upstream.py", self.port, self.counters_file)

    def wait(self):
        until(lambda: accepts(self.port), 20, "an upstream")

    def kill(self):
        self.world.end(self.process)
        self.process = None


class Redis:
    """A private server without persistence."""

    def __init__(self, world):
        self.world = world
        self.port = free_port()
        self.process = None
        self.start()
        until(lambda: accepts(self.port), 20, "redis-server")

    def start(self):
        self.process = self.world.start(
            ["redis-server", "--port", self.port, "--bind", "127.0.0.1", "--save", "",
             "--appendonly", "no", "--dir", self.world.folder], stdout=subprocess.DEVNULL)

    def kill(self):
        self.world.end(self.process)
        self.process = None


def _tcp_sockets(pid):
    """The TCP sockets of the network it lives in: `local -> remote (state)` by inode."""
    with open(f"/proc/{pid}/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    ports = [(row[9], int(row[1].split(":")[1], 16), int(row[2].split(":")[1], 16), row[3])
             for row in rows]
    return {inode: f"tcp {local} -> {remote} (state {state})"
            for inode, local, remote, state in ports}


class Tidegate:
    """The program under test. `settings` is YAML without listen, admin and log. `listen` is in the
    place of a listener at `port`; `name` tells several in one folder apart; `token` is that of the
    admin listener."""

    def __init__(self, world, program, settings, access="off", listen=None, name="tidegate",
                 token=None, **options):
        self.world = world
        self.port, self.admin_port = free_port(), free_port()
        admin = f"127.0.0.1:{self.admin_port}"
        self.errors_file = world.folder / f"{name}.err"
        config = world.folder / f"{name}.yaml"
        config.write_text(f"listen: {listen or f'127.0.0.1:{self.port}'}\n"
                          f"admin: {f'{{address: {admin!r}, token: {token}}}' if token else admin}\n"
                          f"log: {{access: {access}}}\n{settings}")
        environment = dict(os.environ, UBSAN_OPTIONS="print_stacktrace=1",
                           # A small quarantine: else its memory would hide a leak.
                           ASAN_OPTIONS="detect_leaks=1:quarantine_size_mb=8")
        with open(self.errors_file, "wb") as errors:
            self.process = world.start([program, "run", "-c", config], stderr=errors,
                                       env=environment, **options)
        until(self._ready, 20, "tidegate")

    def _ready(self):
        if self.process.poll() is not None:
            raise Failed("tidegate ended at once:\n" + self.errors())
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}/readyz",
                                        timeout=2) as reply:
                return reply.status == 200
        except (urllib.error.URLError, OSError):
            return False

    def errors(self):
        return self.errors_file.read_text(errors="replace")

    def rss_kib(self):
        return self._kib("status", "VmRSS:")

    def pss_kib(self):
        return self._kib("smaps_rollup", "Pss:")

    def private_kib(self):
        """Without pages of the program's file, which come as its code is first used."""
        return self._kib("smaps_rollup", "Private_Dirty:")

    def _kib(self, file, name):
        with open(f"/proc/{self.process.pid}/{file}") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith(name))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def open_files(self):
        """Its descriptors in words; sockets by the addresses they join."""
        found = []
        for name in os.listdir(f"/proc/{self.process.pid}/fd"):
            try:
                target = os.readlink(f"/proc/{self.process.pid}/fd/{name}")
            except OSError:
                continue
            inode = target.removeprefix("socket:[").removesuffix("]")
            found.append(_tcp_sockets(self.process.pid).get(inode, target))
        return sorted(found)

    def stop(self):
        """Asks it to end, as a service manager would. The exit code."""
        return self.world.end(self.process, signal.SIGTERM)
