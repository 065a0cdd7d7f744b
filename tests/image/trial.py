#!/usr/bin/env python3
"""Tries an image of Tidegate: trial.py ROOT IMAGE.json, in a network namespace of its own

ROOT is the image's root, which the trial may write to until a program runs in it; IMAGE.json what
`buildah inspect` says. Prints a line for each thing tried, and ends with 1 if one does not hold.
container.py says what this shows of a container and what not.
"""

import fcntl
import json
import os
import pathlib
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE))

from compose import Services, seconds  # noqa: E402
from container import Container, Image  # noqa: E402

MIB = 1 << 20
SIZE_MAX = 50 * MIB


def loopback_up():
    """A new network namespace has a loopback that is down."""
    get_flags, set_flags, is_up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sh", b"lo", 0)
        flags = struct.unpack("16sh", fcntl.ioctl(control, get_flags, request))[1]
        fcntl.ioctl(control, set_flags, struct.pack("16sh", b"lo", flags | is_up))


def get(url):
    """(status, fields, body)"""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers, answer.read()


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def until(condition, patience, what):
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {patience} s"
        time.sleep(0.05)


class Trial:
    """Runs each part, and says how it went."""

    def __init__(self, image, folder):
        self.image = image
        self.folder = pathlib.Path(folder)
        self.failed = 0

    def part(self, what, how):
        try:
            more = how()
            print(f"ok   {what}{': ' + more if more else ''}", flush=True)
        except (AssertionError, OSError, KeyError, ValueError, subprocess.SubprocessError) as error:
            self.failed += 1
            print(f"FAIL {what}: {error!r}" if not str(error) else f"FAIL {what}: {error}",
                  flush=True)

    # What the image is.

    def holds_little(self):
        size = files = 0
        for folder, _, names in os.walk(self.image.root):
            for name in names:
                found = os.lstat(os.path.join(folder, name))
                size += found.st_size
                files += 1
                assert not found.st_mode & (stat.S_ISUID | stat.S_ISGID), f"{name} is setuid"
        assert size <= SIZE_MAX, f"{size / MIB:.1f} MiB, at most {SIZE_MAX / MIB:.0f}"
        shell = [name for name in ("bin/sh", "usr/bin/sh", "bin/bash")
                 if (self.image.root / name).exists()]
        assert not shell, f"there is a shell: {shell}"
        program = (self.image.root / "usr/local/bin/tidegate").stat().st_size
        return f"{size / MIB:.1f} MiB in {files} files, {program / MIB:.1f} of it the program"

    def has_time_zones(self):
        zones = self.image.root / "usr/share/zoneinfo"
        for name in ("Europe/Berlin", "America/New_York", "UTC"):
            assert (zones / name).read_bytes().startswith(b"TZif"), f"no {name}"
        assert not (zones / "right").exists(), "zones that count leap seconds"

    def says_how_to_run(self):
        image = self.image
        assert (image.user, image.group) == ("10001", "10001"), f"user {image.user}:{image.group}"
        assert image.entrypoint == ["tidegate"], image.entrypoint
        assert image.command == ["run", "-c", "/etc/tidegate/tidegate.yaml"], image.command
        assert image.ports == ["8080/tcp", "9901/tcp"], image.ports
        assert image.health[:3] == ["CMD", "tidegate", "health"], f"health check {image.health}"
        return f"user {image.user}, ports {', '.join(image.ports)}"

    def refuses_without_configuration(self):
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n", encoding="ascii")
        container = Container(self.image, self.image.command, hosts)
        try:
            code = container.process.wait(timeout=20)
        finally:
            container.end()
        said = container.output()
        assert code == 1, f"exit code {code}, and it says: {said}"
        assert "/etc/tidegate/tidegate.yaml" in said, said
        assert not accepts(8080) and not accepts(9000), "something listens"

    # What it does, as the Compose file starts it.

    def starts(self, services):
        services.start_all()
        if services.running["tidegate"].process.poll() is not None:
            raise AssertionError(services.running["tidegate"].output())
        until(lambda: accepts(8080) and accepts(9901), 20, "port 8080 and 9901")
        return ", ".join(services.running)

    def is_confined(self, services):
        pid = services.running["tidegate"].pid()
        status = dict(line.split(":", 1) for line in
                      pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines())
        assert status["Uid"].split() == ["10001"] * 4, status["Uid"]
        assert status["Gid"].split() == ["10001"] * 4, status["Gid"]
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0, status["CapEff"]
        assert status["NoNewPrivs"].strip() == "1"
        mounts = pathlib.Path(f"/proc/{pid}/mountinfo").read_text(encoding="utf-8").splitlines()
        ours = {line.split()[4]: line.split()[5].split(",") for line in mounts}
        assert "ro" in ours["/"], f"the root is not read-only: {ours['/']}"
        assert "ro" in ours["/etc/tidegate/tidegate.yaml"]
        return "user 10001, no capability, root read-only"

    def is_healthy(self, services):
        services.await_health("tidegate")
        assert get("http://127.0.0.1:9901/readyz")[0] == 200

    def limits(self):
        """docker/tidegate.yaml admits five requests in ten seconds."""
        statuses = []
        while 429 not in statuses and len(statuses) < 30:
            status, fields, body = get("http://127.0.0.1:8080/")
            statuses.append(status)
        assert statuses == [200] * 5 + [429], statuses
        assert 1 <= int(fields["Retry-After"]) <= 10, fields["Retry-After"]
        assert json.loads(body)["status"] == 429, body
        assert fields["RateLimit"], "no RateLimit"
        return f"200 five times, then 429 with Retry-After {fields['Retry-After']}"

    def counts_in_redis(self, services):
        code, said = services.running["redis"].run(["redis-cli", "dbsize"])
        assert code == 0 and int(said.split()[-1]) > 0, said

    def is_unhealthy_without(self, services):
        """Once Tidegate has stopped. The echo service runs on, and shares its network here."""
        code, said = services.running["echo"].run(services.health_command("tidegate"))
        assert code == 1 and "nsenter" not in said, f"exit code {code}: {said}"

    def stops(self, services):
        grace = seconds(services.services["tidegate"].get("stop_grace_period"), 10)
        begin = time.monotonic()
        code = services.running["tidegate"].stop(grace)
        assert code == 0, \
            f"exit code {code}: {services.running['tidegate'].output()[-500:]}"
        return f"after {time.monotonic() - begin:.1f} s, within {grace:.0f}"


def main():
    root, inspected = sys.argv[1:]
    loopback_up()
    with open(inspected, encoding="utf-8") as file:
        image = Image(root, json.load(file))
    with tempfile.TemporaryDirectory(prefix="image-") as folder:
        # Another user reads the mounted files.
        os.chmod(folder, 0o755)
        trial = Trial(image, folder)
        trial.part("the image holds little", trial.holds_little)
        trial.part("the image has time zones", trial.has_time_zones)
        trial.part("the image says how it is run", trial.says_how_to_run)
        trial.part("without a configuration the container says so and ends",
                   trial.refuses_without_configuration)
        services = None

        def read_compose_file():
            nonlocal services
            services = Services(ROOT / "docker/compose.yaml", image, folder)
            return ", ".join(services.services)

        trial.part("docker-compose accepts the Compose file", read_compose_file)
        if services:
            try:
                trial.part("the services start", lambda: trial.starts(services))
                trial.part("the container is confined", lambda: trial.is_confined(services))
                trial.part("the container is healthy", lambda: trial.is_healthy(services))
                trial.part("the limits hold", trial.limits)
                trial.part("Redis counts", lambda: trial.counts_in_redis(services))
                trial.part("the container stops", lambda: trial.stops(services))
                trial.part("the health check says no then",
                           lambda: trial.is_unhealthy_without(services))
            finally:
                services.end_all()
    return 1 if trial.failed else 0


if __name__ == "__main__":
    sys.exit(main())
