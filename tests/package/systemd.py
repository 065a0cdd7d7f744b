"""Runs the installed package under a real systemd: process 1 of its own namespaces, in the Debian of
debian.py. Where this machine does not allow that, nothing is tried, and a line says so."""

import contextlib
import pathlib
import subprocess
import sys
import threading
import time

BOOT_SECONDS = 30
PATIENCE = 30
CONFIG = "etc/tidegate/tidegate.yaml"
SETTINGS = """listen: {listen}
admin: 127.0.0.1:9901
upstream: http://127.0.0.1:3000
limits: [1000000/s]
log: {{access: off}}
"""
# The root is a mount of its own, so that systemd finds the file systems that it expects of a container.
BOOT = r"""
set -e
root=$1
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for name in null zero full random urandom tty; do
    mknod -m 666 "$root/dev/$name" c $(stat -c '%Hr %Lr' "/dev/$name")
done
mkdir -p "$root/dev/shm" "$root/dev/pts" "$root/dev/mqueue" "$root/mnt"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ip link set lo up
cd "$root"
pivot_root . mnt
umount -l mnt
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot . /lib/systemd/systemd \
    --log-target=null --unit=basic.target
"""
# Counts answers of connections that are opened one after the other: `served failed`.
LOAD = r"""
import http.client, sys, time
served = failed = 0
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    try:
        client = http.client.HTTPConnection("127.0.0.1", 8080, timeout=10)
        client.request("GET", "/")
        answer = client.getresponse()
        answer.read()
        client.close()
        served += answer.status == 200
        failed += answer.status != 200
    except OSError:
        failed += 1
print(served, failed)
"""
# A request whose body waits for a line on standard input; then the status of its answer, or what failed.
SLOW = r"""
import socket, sys
client = socket.create_connection(("127.0.0.1", 8080), timeout=30)
client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab")
print("begun", flush=True)
sys.stdin.readline()
try:
    client.sendall(b"cd")
    print(client.recv(4096).split()[1].decode())
except (OSError, IndexError) as fault:
    print(repr(fault))
"""


class Machine:
    """A systemd that runs. Everything of it ends with it."""

    def __init__(self, root):
        self.group = next((folder / "tidegate-trial" for folder in
                           (pathlib.Path("/sys/fs/cgroup/unified"), pathlib.Path("/sys/fs/cgroup"))
                           if (folder / "cgroup.procs").exists()), None)
        self.process, self.init = None, None
        if self.group is None:
            return
        with contextlib.suppress(OSError):
            self.group.mkdir(exist_ok=True)
            # In the group first, for the group is the root that the namespace sees.
            enter = f"echo $$ >{self.group}/cgroup.procs && exec \"$@\""
            self.process = subprocess.Popen(
                ["sh", "-c", enter, "sh", "unshare", "--fork", "--kill-child", "--pid", "--mount", "--net",
                 "--uts", "--ipc", "--cgroup", "sh", "-c", BOOT, "sh", str(root)],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def boot(self):
        """Whether it has started."""
        until = time.monotonic() + BOOT_SECONDS
        while self.process and self.process.poll() is None and time.monotonic() < until:
            children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
            started = children.read_text().split() if children.exists() else []
            if started:
                self.init = started[0]
                if self.inside("systemctl", "is-system-running").stdout.strip() in ("running", "degraded"):
                    return True
            time.sleep(0.2)
        return False

    def inside(self, *command):
        return subprocess.run(["nsenter", "-t", self.init, "-m", "-u", "-i", "-n", "-p", *command],
                              capture_output=True, text=True, check=False, timeout=120)

    def begin(self, *command):
        return subprocess.Popen(["nsenter", "-t", self.init, "-m", "-u", "-i", "-n", "-p", *command],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def load(self, seconds):
        """How many connections were served, and how many were not."""
        done = subprocess.run(["nsenter", "-t", self.init, "-n", sys.executable, "-c", LOAD, str(seconds)],
                              capture_output=True, text=True, check=True, timeout=seconds + 60)
        return tuple(int(word) for word in done.stdout.split())

    def slow_request(self):
        return subprocess.Popen(["nsenter", "-t", self.init, "-n", sys.executable, "-c", SLOW], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def state(self, name, unit="tidegate.service"):
        return self.inside("systemctl", "show", "-P", name, unit).stdout.strip()

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        for folder in sorted(self.group.glob("**/") if self.group else [], reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()


def soon(holds):
    until = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < until:
        time.sleep(0.1)
    return holds()


def beside_load(machine, change):
    """What a load meets while `change` runs; empty: nothing failed."""
    counted = []
    load = threading.Thread(target=lambda: counted.append(machine.load(4)))
    load.start()
    time.sleep(1)
    wrong = change()
    load.join()
    served, failed = counted[0]
    return wrong or (f"{failed} connections of {served + failed} failed" if failed or not served else "")


def take_over(machine):
    """Which process was the main one, and why it still is; empty: another one has taken over."""
    before = machine.state("MainPID")
    machine.inside("systemctl", "kill", "-s", "USR2", "--kill-whom=main", "tidegate")
    taken = soon(lambda: machine.state("MainPID") not in (before, "0"))
    return before, "" if taken else f"process {before} goes on as the main one"


def hand_over(machine):
    before, wrong = take_over(machine)
    if wrong:
        return wrong
    gone = soon(lambda: machine.inside("kill", "-0", before).returncode != 0)
    if not gone:
        return f"process {before} does not end"
    return "" if machine.state("ActiveState") == "active" else machine.state("ActiveState")


def try_service(trial, machine):
    started = machine.inside("systemctl", "start", "tidegate")
    trial.tell("systemd: the service starts, and is active when it is ready",
               started.stderr if started.returncode else "")
    trial.tell("systemd: its status says which configuration is in force",
               "" if machine.state("StatusText") == "configuration 1 is in force"
               else machine.state("StatusText"))
    trial.tell("systemd: USR2 hands over to a new main process, and no connection is lost",
               beside_load(machine, lambda: hand_over(machine)))
    trial.tell("systemd: and that one hands over, too", hand_over(machine))
    reloaded = machine.inside("systemctl", "reload", "tidegate")
    trial.tell("systemd: which is reloaded", reloaded.stderr if reloaded.returncode else
               "" if soon(lambda: machine.state("StatusText") == "configuration 2 is in force")
               else machine.state("StatusText"))


def try_watchdog(trial, machine):
    """Hand-overs that come sooner than the watchdog asks, for longer than it waits."""
    unit = trial.root / "etc/systemd/system/tidegate.service.d/watchdog.conf"
    unit.parent.mkdir(parents=True)
    unit.write_text("[Service]\nWatchdogSec=4\n")
    machine.inside("systemctl", "daemon-reload")
    machine.inside("systemctl", "restart", "tidegate")
    wrong = ""
    for _ in range(6):
        time.sleep(1)
        wrong = wrong or hand_over(machine)
    restarts = machine.state("NRestarts")
    trial.tell("systemd: hand-overs in a row keep the watchdog quiet",
               wrong or ("" if restarts == "0" else f"{restarts} restarts"))
    unit.unlink()
    machine.inside("systemctl", "daemon-reload")
    machine.inside("systemctl", "restart", "tidegate")


def try_stop(trial, machine):
    """While the former process has a request in flight."""
    request = machine.slow_request()
    begun = request.stdout.readline()
    _, wrong = take_over(machine)
    stop = machine.begin("systemctl", "stop", "tidegate")
    main_ended = soon(lambda: machine.state("MainPID") == "0")
    time.sleep(1)  # systemd tells the other process to stop once more
    status = request.communicate("\n", timeout=60)[0].strip()
    stop.wait(timeout=60)
    trial.tell("systemd: a stop after a hand-over cuts no request",
               wrong or ("" if begun and main_ended and status == "200" else f"answered {status}"))
    machine.inside("systemctl", "start", "tidegate")


def try_upgrade(trial, machine, later):
    before = machine.state("MainPID")
    (trial.root / "var/tidegate.deb").write_bytes(later.read_bytes())
    done = machine.inside("env", "DEBIAN_FRONTEND=noninteractive", "dpkg", "--force-confold", "-i",
                          "/var/tidegate.deb")
    (trial.root / "var/tidegate.deb").unlink()
    wrong = done.stdout + done.stderr if done.returncode else ""
    if not wrong and not soon(lambda: machine.state("ActiveState") == "active"
                              and machine.state("MainPID") != before):
        wrong = f"process {machine.state('MainPID')} is {machine.state('ActiveState')}"
    trial.tell("systemd: an upgrade restarts it", wrong)


def try_socket(trial, machine):
    (trial.root / CONFIG).write_text(SETTINGS.format(listen="systemd:web"))
    machine.inside("systemctl", "stop", "tidegate.service")
    machine.inside("systemctl", "start", "tidegate.socket")
    trial.tell("systemd: the first client of the socket starts the service",
               "" if machine.load(1)[1] == 0 and machine.state("ActiveState") == "active" else "not so")
    trial.tell("systemd: with that socket, USR2 loses no connection",
               beside_load(machine, lambda: hand_over(machine)))
    machine.inside("systemctl", "stop", "tidegate.socket")


def try_systemd(trial, later):
    """Of the package that is installed in trial.root, which changes; `later` is the same under a later
    version."""
    (trial.root / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 0\n")
    (trial.root / CONFIG).write_text(SETTINGS.format(listen="127.0.0.1:8080"))
    port = trial.root / "etc/systemd/system/tidegate.socket.d/port.conf"
    port.parent.mkdir(parents=True)
    port.write_text("[Socket]\nListenStream=\nListenStream=127.0.0.1:8080\n")
    machine = Machine(trial.root)
    try:
        if not machine.boot():
            print("not run: this machine lets no systemd run in namespaces of its own", flush=True)
            return
        echo = machine.begin("tidegate", "echo", "--listen", "127.0.0.1:3000")
        try_service(trial, machine)
        try_watchdog(trial, machine)
        try_stop(trial, machine)
        try_upgrade(trial, machine, later)
        try_socket(trial, machine)
        stopped = machine.inside("systemctl", "stop", "tidegate")
        trial.tell("systemd: a process that has taken over stops as it should",
                   "" if stopped.returncode == 0 and machine.state("Result") == "success"
                   else machine.state("Result"))
        echo.kill()
        echo.wait()
    finally:
        machine.stop()
