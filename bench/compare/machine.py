"""Processes of a run, each ended by its own id, and what the system says they used."""

import datetime
import os
import pathlib
import platform
import re
import shutil
import signal
import socket
import subprocess
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


class Missing(Exception):
    """A program or package that is not here: the rows that need it are left out."""


class Wrong(Exception):
    """The measurement is not the intended one; says why."""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def free_ports(names):
    """By name, all of them different: they are held until each is chosen."""
    probes = {name: socket.create_server(("127.0.0.1", 0)) for name in names}
    ports = {name: probe.getsockname()[1] for name, probe in probes.items()}
    for probe in probes.values():
        probe.close()
    return ports


def need(program):
    found = shutil.which(program)
    if not found:
        raise Missing(f"{program} is not installed")
    return found


def until(condition, seconds, what):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Wrong(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.01)


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


class Server:
    """A process that was started here, with its children."""

    def __init__(self, process, port, errors):
        self.process, self.port, self._errors = process, port, errors

    def pids(self):
        if self.process.poll() is not None:
            raise Wrong(f"{self.process.args[0]} ended: {self.errors()}")
        found, left = [], [self.process.pid]
        while left:
            pid = left.pop()
            found.append(pid)
            for task in _tasks(pid):
                try:
                    left += map(int, (task / "children").read_text().split())
                except OSError:
                    pass  # it has just ended
        return found

    def cpu_ns(self):
        """Time on a CPU, by all their threads that are there."""
        return sum(_first_number(task / "schedstat") for pid in self.pids() for task in _tasks(pid))

    def rss_kib(self):
        return sum(_status_kib(pid, "VmRSS:") for pid in self.pids())

    def private_kib(self):
        """Memory that it shares with no other process."""
        return sum(_private_kib(pid) for pid in self.pids())

    def errors(self):
        return self._errors.read_text(errors="replace")[-2000:]


class Together:
    """Servers that answer a request together; what they use is added up."""

    def __init__(self, *servers):
        self.servers = servers

    def pids(self):
        return [pid for server in self.servers for pid in server.pids()]

    def cpu_ns(self):
        return sum(server.cpu_ns() for server in self.servers)

    def rss_kib(self):
        return sum(server.rss_kib() for server in self.servers)


def _tasks(pid):
    try:
        return list(pathlib.Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _first_number(path):
    try:
        return int(path.read_text().split()[0])
    except OSError:
        return 0


def _status_kib(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name))


def _private_kib(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        return sum(int(line.split()[1]) for line in lines
                   if line.startswith(("Private_Clean:", "Private_Dirty:")))


# Runs a command with changed root and the mounts that it needs, which end with it. Its arguments:
# the root, a folder that has the same path inside, the command. `exec` keeps the id of the process,
# by which the command is measured and ended.
INSIDE = """
root=$1 folder=$2
shift 2
mount --make-rprivate /
for tree in dev proc sys; do mount --rbind "/$tree" "$root/$tree"; done
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mkdir -p "$root$folder"
mount --bind "$folder" "$root$folder"
exec chroot "$root" env -C "$folder" "$@"
"""


class World:
    """Everything of a round; leaving it ends all of it."""

    def __init__(self, folder, cpus=None):
        self.folder = pathlib.Path(folder)
        self.folder.chmod(0o755)  # nginx started by root reads files as another user
        self.cpus = cpus or {}  # role -> list of CPUs, as taskset takes it
        self.upstream = None  # (port) -> a command, to be the upstream in place of nginx
        self.root = pathlib.Path("/")  # of the system whose peers run
        self.programs = {}  # name -> path, of those that run from that root
        self.redis_options = ()  # of its server
        self._servers = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in reversed(self._servers):
            server.process.terminate()
        for server in reversed(self._servers):
            try:
                server.process.wait(timeout=3)
            except subprocess.TimeoutExpired:
                server.process.kill()
                server.process.wait()

    def program(self, name):
        """The words that start a peer's program; its arguments follow."""
        if name not in self.programs:
            return [need(name)]
        path = self.programs[name]
        if not (self.root / path[1:]).exists():
            raise Missing(f"{path} is not in {self.root}")
        return ["unshare", "--mount", "bash", "-euc", INSIDE, "inside", self.root, self.folder,
                path]

    def on_cpus(self, role, command):
        """`command`, kept to the CPUs of its role if it has some."""
        words = [str(word) for word in command]
        return ["taskset", "-c", self.cpus[role], *words] if role in self.cpus else words

    def start(self, role, command, port):
        """Starts a server and waits until it accepts connections."""
        errors = self.folder / f"{role}-{port}.err"
        with open(errors, "wb") as sink:
            process = subprocess.Popen(self.on_cpus(role, command), stdout=sink, stderr=sink,
                                       cwd=self.folder)
        server = Server(process, port, errors)
        self._servers.append(server)

        def ready():
            if process.poll() is not None:
                raise Wrong(f"{role} ended at once: {server.errors()}")
            return accepts(port)
        until(ready, 20, role)
        return server

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path


def say(port, *words):
    """The reply of a Redis to one command: text, number, or a list of them."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        parts = [b"*%d\r\n" % len(words)]
        for word in map(lambda word: str(word).encode(), words):
            parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
        connection.sendall(b"".join(parts))
        with connection.makefile("rb") as replies:
            return _reply(replies)


def _reply(replies):
    kind, rest = (line := replies.readline())[:1], line[1:].strip().decode()
    if kind in (b"+", b":"):
        return rest if kind == b"+" else int(rest)
    if kind == b"$":
        if int(rest) < 0:
            return None
        return replies.read(int(rest) + 2)[:-2].decode(errors="replace")
    if kind == b"*":
        return [_reply(replies) for _ in range(int(rest))]
    raise Wrong(f"Redis: {rest}")


# ---- what the run ran on

def _version(command, pattern):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(pattern, done.stdout + done.stderr)
    return found[1] if found else None


def versions(tidegate, node_folder):
    wanted = {
        "tidegate": ([tidegate, "--version"], r"(\d+\.\d+\.\d+\S*)"),
        "commit": (["git", "-C", ROOT, "describe", "--always", "--dirty"],
                   r"^([0-9a-f]{7,}\S*)"),
        "redis-server": (["redis-server", "--version"], r"v=(\S+)"),
        "nginx": (["nginx", "-v"], r"nginx/(\S+)"),
        "nginx lua": (["dpkg-query", "-W", "-f", "${Version}", "libnginx-mod-http-lua"],
                      r"^(?:\d+:)?(\S+)"),
        "lua-nginx-redis": (["dpkg-query", "-W", "-f", "${Version}", "lua-nginx-redis"],
                            r"^(\S+)"),
        "haproxy": (["haproxy", "-v"], r"version (\S+)"),
        "node": (["node", "--version"], r"v(\S+)"),
        "wrk": (["dpkg-query", "-W", "-f", "${Version}", "wrk"], r"^(\S+)"),
        "h2load": (["h2load", "--version"], r"nghttp2/(\S+)"),
        "openssl": (["openssl", "version"], r"OpenSSL (\S+)"),
        "strace": (["strace", "--version"], r"version (\S+)"),
    }
    found = {name: _version(*how) for name, how in wanted.items()}
    for package in ("express", "express-rate-limit", "rate-limit-redis", "redis"):
        path = node_folder / "node_modules" / package / "package.json"
        if path.exists():
            found[f"npm {package}"] = re.search(r'"version": *"([^"]+)"', path.read_text())[1]
    return {name: version for name, version in found.items() if version}


def description():
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    memory = re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())
    return {
        "date": datetime.date.today().isoformat(),
        "cpu": cpu[1].strip() if cpu else platform.machine(),
        "load": round(os.getloadavg()[0], 1),
        "cpus": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory[1]) / 1024 / 1024),
        "kernel": re.match(r"[\d.]+", platform.release())[0],
        "system": _version(["cat", "/etc/os-release"], r'PRETTY_NAME="([^"]+)"') or "Linux",
    }


def interrupt(process):
    process.send_signal(signal.SIGINT)
    process.wait(timeout=20)
