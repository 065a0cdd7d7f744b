"""Runs programs in the root of an image, as near to a container runtime as a machine without one
allows.

What is as in a container: the root of the image, read-only; the user and the working directory of
the image; no capabilities and no new privileges; its own processes, /proc and /dev; files mounted
read-only; names of services in /etc/hosts; the limit of open files. What is not: the services share
one network, each with a loopback address of its own; no seccomp filter, no cgroup.
"""

import contextlib
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import time

# The mounts of the process to come, then the process itself. unshare made the namespaces.
ENTER = r"""
root=$1 hosts=$2 user=$3 group=$4 folder=$5
shift 5
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero random urandom; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount --bind "$hosts" "$root/etc/hosts"
while [[ $1 != -- ]]; do
    mount --bind "$1" "$root$2"
    mount -o remount,ro,bind "$root$2"
    shift 2
done
shift
mount -o remount,ro,bind "$root"
exec unshare --root="$root" --wd="$folder" --setgid="$group" --setuid="$user" -- "$@"
"""


class Image:
    """The image's root folder, and what its configuration says."""

    def __init__(self, root, inspected):
        self.root = pathlib.Path(root)
        config = inspected["OCIv1"]["config"]
        docker = inspected["Docker"]["config"]
        self.user, _, self.group = config["User"].partition(":")
        self.folder = config["WorkingDir"]
        self.environment = dict(line.split("=", 1) for line in config["Env"])
        self.entrypoint = config["Entrypoint"]
        self.command = config["Cmd"]
        self.ports = sorted(config["ExposedPorts"])
        # OCI images do not know health checks: Docker's format does.
        self.health = docker.get("Healthcheck", {}).get("Test", [])
        # A runtime makes the places where it mounts.
        for place in ("proc", "dev"):
            (self.root / place).mkdir(exist_ok=True)
        (self.root / "etc/hosts").touch()

    def program(self, command):
        """The command with its program's whole path, by the image's own PATH."""
        for place in self.environment["PATH"].split(":"):
            if (self.root / place.lstrip("/") / command[0]).exists():
                return [f"{place}/{command[0]}", *command[1:]]
        return command


class Container:
    """A process in the image. Owns it: `stop` or the end of this program ends it."""

    def __init__(self, image, command, hosts, volumes=(), environment=None, files_max=None):
        self.image = image
        mounts = []
        for source, target in volumes:
            (image.root / target.lstrip("/")).touch()
            mounts += [source, target]
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        limit = ["prlimit", f"--nofile={min(files_max, most)}"] if files_max else []
        self.said = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")
        self.process = subprocess.Popen(
            [*limit, "setpriv", "--no-new-privs", "unshare", "--mount", "--pid", "--ipc", "--uts",
             "--fork", "--kill-child", "bash", "-euc", ENTER, "container", str(image.root),
             str(hosts), image.user, image.group, image.folder, *map(str, mounts), "--",
             *image.program([*image.entrypoint, *command])],
            env=self._environment(environment or {}),
            stdin=subprocess.DEVNULL, stdout=self.said, stderr=subprocess.STDOUT)

    def output(self):
        """Its output so far."""
        self.said.seek(0)
        return self.said.read()

    def pid(self):
        """The number that the machine knows the program by, once it runs."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            numbers = children.read_text(encoding="ascii").split() if children.exists() else []
            if numbers and pathlib.Path(f"/proc/{numbers[0]}/comm").read_text(
                    encoding="utf-8").strip() == "tidegate":
                return int(numbers[0])
            time.sleep(0.02)
        raise AssertionError(f"the container does not run:\n{self.output()}")

    def run(self, command):
        """Runs a command beside the program, as `docker exec` and health checks do: its exit code
        and what it says."""
        done = subprocess.run(
            ["nsenter", f"--target={self.pid()}", "--mount", "--pid", "--root",
             f"--wdns={self.image.folder}", f"--setuid={self.image.user}",
             f"--setgid={self.image.group}", "--", *self.image.program(command)],
            env=self._environment({}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            timeout=30, check=False)
        return done.returncode, done.stdout

    def stop(self, seconds):
        """TERM, and KILL after so long: the exit code."""
        subprocess.run(["kill", "-TERM", str(self.pid())], check=True)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.end()
            raise

    def end(self):
        """Ends the program, too: the kernel forgets --kill-child when a child becomes another user."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        if self.process.poll() is None:
            for number in children.read_text(encoding="ascii").split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(number), signal.SIGKILL)
            self.process.kill()
            self.process.wait()

    def _environment(self, more):
        """That of the image, and where this machine has the programs that enter it."""
        return {**self.image.environment, "HOME": "/", **more,
                "PATH": f"{self.image.environment['PATH']}:/usr/sbin:/usr/bin:/sbin:/bin"}
