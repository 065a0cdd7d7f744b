"""Starts the services of a Compose file as Compose would, in the order that they depend on each
other: those of an image that was built here in that image; Redis as a program of this machine, with
the command and the health check of the file, for its image is in a registry."""

import pathlib
import re
import shutil
import subprocess
import time

import yaml

from container import Container

PROGRAMS_OF_THIS_MACHINE = ("redis",)


def resolved(path):
    """What docker-compose makes of the file: it holds it to the schema of the Compose
    specification, and fails with what it objects to."""
    done = subprocess.run(["/usr/bin/docker-compose", "-f", path, "config"], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise AssertionError(f"docker-compose objects to {path}:\n{done.stderr}")
    return yaml.safe_load(done.stdout)["services"]


def seconds(text, default):
    """`1m30s`, as Compose writes it."""
    if not text:
        return default
    units = {"h": 3600, "m": 60, "s": 1, "ms": 0.001}
    return sum(float(number) * units[unit]
               for number, unit in re.findall(r"([0-9.]+)(ms|h|m|s)", str(text)))


def order(services):
    """Each service after those that it depends on."""
    done = []
    while len(done) < len(services):
        ready = [name for name, service in services.items()
                 if name not in done and all(other in done for other in dependencies(service))]
        if not ready:
            raise AssertionError("services depend on each other in a circle")
        done += ready
    return done


def dependencies(service):
    """{service: condition}"""
    needed = service.get("depends_on", {})
    if isinstance(needed, list):
        return {name: "service_started" for name in needed}
    return {name: how["condition"] for name, how in needed.items()}


class MachineProgram:
    """A service whose image is not built here."""

    def __init__(self, command, folder):
        self.process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)

    def run(self, command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=30, check=False)
        return done.returncode, done.stdout

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Services:
    """The services of the file, each with a loopback address that the others know by its name."""

    def __init__(self, path, image, folder):
        self.image = image
        self.folder = pathlib.Path(folder)
        self.services = resolved(path)
        self.hosts = self.folder / "hosts"
        self.running = {}
        lines = ["127.0.0.1 localhost", "::1 localhost"]
        lines += [f"127.0.1.{i} {name}" for i, name in enumerate(self.services, start=1)]
        self.hosts.write_text("\n".join(lines) + "\n", encoding="ascii")

    def start(self, name):
        service = self.services[name]
        for other, condition in dependencies(service).items():
            if condition == "service_healthy":
                self.await_health(other)
        environment = dict(service.get("environment") or {})
        if name in PROGRAMS_OF_THIS_MACHINE:
            command = [shutil.which(service["command"][0]), *service["command"][1:]]
            self.running[name] = MachineProgram(command, self.folder)
            return
        volumes = []
        for volume in service.get("volumes", []):
            source, target, mode = volume.split(":")
            if mode != "ro":
                raise AssertionError(f"{name}: {target} is not mounted read-only")
            volumes.append((source, target))
        self.running[name] = Container(
            self.image, service.get("command", self.image.command), self.hosts, volumes,
            environment, service.get("ulimits", {}).get("nofile"))

    def start_all(self):
        for name in order(self.services):
            self.start(name)

    def health_command(self, name):
        test = (self.services[name].get("healthcheck") or {}).get("test")
        if not test and name not in PROGRAMS_OF_THIS_MACHINE:
            test = self.image.health
        if not test or test[0] != "CMD":
            raise AssertionError(f"{name} has no health check that a program answers: {test}")
        return test[1:]

    def health(self, name):
        """The exit code of the service's health check, and what it said."""
        return self.running[name].run(self.health_command(name))

    def await_health(self, name):
        check = self.services[name].get("healthcheck") or {}
        tries = int(check.get("retries", 15))
        for _ in range(tries):
            code, said = self.health(name)
            if code == 0:
                return
            time.sleep(min(seconds(check.get("interval"), 1), 1))
        raise AssertionError(f"{name} is not healthy after {tries} tries; its check says: {said}")

    def end_all(self):
        for container in reversed(self.running.values()):
            container.end()
