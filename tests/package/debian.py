#!/usr/bin/env python3
"""Installs the Debian package, upgrades and purges it: debian.py [--release NAME] tidegate_VERSION_ARCH.deb

In a fresh Debian of the release that this machine has, or of the one named, with the packages that this one
depends on, made by mmdebstrap; dpkg starts no service there, but for the part in systemd.py. apt installs it
in another one, which has none of these. The units are checked by systemd-analyze. Needs root. Each test is a
line that begins with `ok  `.
"""

import argparse
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time

from systemd import try_systemd

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BASES = ROOT / "build/package-base"
KEPT_SECONDS = 7 * 24 * 3600
START_SECONDS = 60
EXPOSURE_MAX = 16  # tenths
CONFIG = "etc/tidegate/tidegate.yaml"
FILES = [CONFIG, "usr/bin/tidegate", "lib/systemd/system/tidegate.service",
         "lib/systemd/system/tidegate.socket", "usr/share/man/man1/tidegate.1.gz",
         "usr/share/bash-completion/completions/tidegate",
         "usr/share/zsh/vendor-completions/_tidegate",
         "usr/share/fish/vendor_completions.d/tidegate.fish",
         "usr/share/doc/tidegate/copyright", "usr/share/doc/tidegate/tidegate.spdx.json"]
WANTED = "etc/systemd/system/multi-user.target.wants/tidegate.service"
# What the tools of the system write for themselves, not this package.
NOISE = re.compile(r"^(var/(lib|cache|log)|run|proc|sys|dev|tmp)(/|$)")


def run(*command, **options):
    return subprocess.run([str(one) for one in command], capture_output=True, text=True, check=False,
                          **options)


def field(deb, name):
    return run("dpkg-deb", "-f", deb, name).stdout.strip()


def make_base(name, release, packages):
    """An archive of Debian with `packages`; kept for a week."""
    wanted = ",".join(sorted(packages))
    archive, listed = BASES / f"{release}-{name}.tar", BASES / f"{release}-{name}.packages"
    if archive.exists() and listed.exists() and listed.read_text() == wanted and (
            time.time() - archive.stat().st_mtime < KEPT_SECONDS):
        return archive
    BASES.mkdir(parents=True, exist_ok=True)
    mirror = "http://deb.debian.org"
    made = run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={wanted}", release, archive,
               f"deb {mirror}/debian {release} main", f"deb {mirror}/debian {release}-updates main",
               f"deb {mirror}/debian-security {release}-security main")
    if made.returncode:
        sys.exit(f"mmdebstrap: {made.stderr}")
    listed.write_text(wanted)
    return archive


def needed_by(deb):
    """What the package depends on, and systemd."""
    names = [re.split(r"[ (|:]", one.strip())[0]
             for one in (field(deb, "Depends") + ", " + field(deb, "Pre-Depends")).split(",")]
    return {name for name in names if name} | {"ca-certificates", "systemd"}


def unpack(archive, root):
    root.mkdir()
    subprocess.run(["tar", "-C", root, "-xf", archive, "--exclude=./dev/*"], check=True)
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    # Programs of the installation write there.
    run("mknod", "-m", "666", root / "dev/null", "c", "1", "3")


def renamed(deb, version, folder):
    """The same package under a later version."""
    tree = folder / "tree"
    run("dpkg-deb", "-R", deb, tree)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"^Version: .*$", f"Version: {version}", control.read_text(),
                              flags=re.MULTILINE))
    later = folder / "later.deb"
    run("dpkg-deb", "--root-owner-group", "-b", tree, later)
    return later


class Trial:
    def __init__(self, root):
        self.root, self.failed = root, 0

    def tell(self, what, wrong):
        print(f"{'FAIL' if wrong else 'ok  '} {what}{f': {wrong}' if wrong else ''}", flush=True)
        self.failed += bool(wrong)

    def inside(self, *command):
        return run("chroot", self.root, *command,
                   env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                        "DEBIAN_FRONTEND": "noninteractive"})

    def dpkg(self, what, *command):
        done = self.inside("dpkg", *command)
        self.tell(what, done.stdout + done.stderr if done.returncode else "")

    def install(self, deb, what):
        shutil.copy(deb, self.root / "tmp/tidegate.deb")
        self.dpkg(what, "--force-confdef", "--force-confold", "-i", "/tmp/tidegate.deb")
        (self.root / "tmp/tidegate.deb").unlink()

    def has(self, path):
        return os.path.lexists(self.root / path)

    def files(self):
        found = set()
        for folder, folders, names in os.walk(self.root):
            for name in folders + names:
                path = os.path.relpath(os.path.join(folder, name), self.root)
                if not NOISE.match(path):
                    found.add(path)
        return found

    def starts(self):
        """The fault of the program as the unit starts it; empty: it is alive."""
        process = subprocess.Popen(["unshare", "--net", "sh", "-c", "ip link set lo up; exec \"$@\"", "sh",
                                    "chroot", "--userspec=nobody", str(self.root), "tidegate", "run", "-c",
                                    f"/{CONFIG}"], stderr=subprocess.PIPE, text=True)
        url = "http://127.0.0.1:9901/healthz"
        ask = ["nsenter", "-t", str(process.pid), "-n", sys.executable, "-c",
               f"import urllib.request; print(urllib.request.urlopen('{url}', timeout=5).status)"]
        until = time.monotonic() + START_SECONDS
        alive = False
        while not alive and process.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
            alive = run(*ask).stdout.strip() == "200"
        process.terminate()
        said = process.communicate(timeout=START_SECONDS)[1]
        return "" if alive and process.returncode == 0 else f"exit code {process.returncode}: {said}"


def try_apt(trial, deb):
    """apt finds each dependency in this release of Debian."""
    shutil.copy(deb, trial.root / "tmp/tidegate.deb")
    shutil.copy("/etc/resolv.conf", trial.root / "etc/resolv.conf")
    updated = trial.inside("apt-get", "-qq", "update")
    done = trial.inside("apt-get", "-qq", "install", "-y", "--no-install-recommends", "/tmp/tidegate.deb")
    trial.tell("apt installs it with what it depends on",
               updated.stderr + done.stdout + done.stderr if done.returncode else "")
    said = trial.inside("tidegate", "--version")
    trial.tell("and the program runs", said.stdout + said.stderr if said.returncode else "")


def try_units(trial):
    units = [f"lib/systemd/system/{name}" for name in ("tidegate.service", "tidegate.socket")]
    service = trial.root / units[0]
    # Of units that this one names, a container has none: only faults in these two count.
    verified = run("systemd-analyze", "verify", "--man=no", "--recursive-errors=no",
                   f"--root={trial.root}", *[f"/{unit}" for unit in units])
    trial.tell("systemd-analyze verifies both units", verified.stderr if verified.returncode else "")
    exposure = run("systemd-analyze", "security", "--offline=yes", f"--threshold={EXPOSURE_MAX}", service)
    said = exposure.stdout.strip().splitlines()[-1:] or [exposure.stderr]
    trial.tell(f"the service is exposed by at most {EXPOSURE_MAX / 10}",
               said[0] if exposure.returncode else "")


def try_installed(trial):
    missing = [path for path in FILES if not trial.has(path)]
    trial.tell("every file is there", f"without {missing}" if missing else "")
    checked = trial.inside("tidegate", "check", "--strict", "-c", f"/{CONFIG}")
    trial.tell("its configuration is right", checked.stdout + checked.stderr
               if checked.returncode else "")
    unit = (trial.root / "lib/systemd/system/tidegate.service").read_text()
    before = re.search(r"^ExecStartPre=(.*)$", unit, re.MULTILINE)[1].split()
    config = trial.root / CONFIG
    text = config.read_text()
    config.write_text(text + "limit: [1/s]\n")
    trial.tell("a fault in the configuration keeps the service from starting",
               "" if trial.inside(*before).returncode == 1 else "not so")
    config.write_text(text)
    trial.tell("the service is enabled, its socket is not",
               "" if trial.has(WANTED) and not trial.has(
                   "etc/systemd/system/sockets.target.wants/tidegate.socket") else "not so")
    trial.tell("it starts as another user, on loopback", trial.starts())


def main():
    parser = argparse.ArgumentParser(usage=__doc__, add_help=False)
    parser.add_argument("--release", default=platform.freedesktop_os_release().get("VERSION_CODENAME"))
    parser.add_argument("deb", type=pathlib.Path)
    arguments = parser.parse_args()
    deb, release = arguments.deb.resolve(), arguments.release
    with tempfile.TemporaryDirectory(prefix="tidegate-package-") as folder:
        folder = pathlib.Path(folder)
        bare = Trial(folder / "bare")
        unpack(make_base("bare", release, {"ca-certificates"}), bare.root)
        try_apt(bare, deb)
        root = folder / "root"
        unpack(make_base("base", release, needed_by(deb)), root)
        trial = Trial(root)
        trial.failed = bare.failed
        before = trial.files()
        trial.install(deb, "it installs")
        try_installed(trial)
        try_units(trial)
        later = renamed(deb, field(deb, "Version") + "+later", folder)
        copy = Trial(folder / "running")
        subprocess.run(["cp", "-a", root, copy.root], check=True)
        try_systemd(copy, later)
        trial.failed += copy.failed

        config = root / CONFIG
        config.write_text(config.read_text().replace("10/s", "20/s"))
        trial.install(later, "it upgrades")
        trial.tell("an upgrade keeps what the administrator has written",
                   "" if "20/s" in config.read_text() else "not so")
        trial.tell("and the service is enabled", "" if trial.has(WANTED) else "not so")

        trial.dpkg("it is removed", "-r", "tidegate")
        trial.tell("which keeps the configuration",
                   "" if trial.has(CONFIG) and not trial.has("usr/bin/tidegate") else "not so")
        made_by_systemd = ["var/log/private/tidegate", "var/lib/private/tidegate"]
        for folder in made_by_systemd:
            (root / folder).mkdir(parents=True)
        trial.dpkg("it is purged", "-P", "tidegate")
        left = sorted(trial.files() - before)
        left += [folder for folder in made_by_systemd if trial.has(folder)]
        trial.tell("which leaves nothing", f"but {left}" if left else "")
    return 1 if trial.failed else 0


if __name__ == "__main__":
    sys.exit(main())
