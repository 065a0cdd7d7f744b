"""Trials that hold Tidegate to other programs share this: an upstream, certificates, and parts that report."""

import argparse
import collections
import pathlib
import subprocess

from world import accepts, free_port, until

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FAULTS_SHOWN = 8


class Part:
    """The expectations that were tried, and those that failed."""

    def __init__(self, name):
        self.name, self.found, self.wrong, self.is_run = name, "", [], True

    def expect(self, holds, *what):
        if not holds:
            self.wrong.append(" ".join(str(one) for one in what))

    def not_run(self, why):
        self.is_run, self.found = False, why
        return self

    def report(self):
        """Prints the part and its most frequent faults. True: it holds."""
        word = "FAIL" if self.wrong else "ok  " if self.is_run else "not run:"
        print(f"{word} {self.name}: {self.found}", flush=True)
        for one, count in collections.Counter(self.wrong).most_common(FAULTS_SHOWN):
            print(f"       {count} times: {one}", flush=True)
        return not self.wrong


def start_echo(world, program):
    """Starts the echo upstream; its port."""
    port = free_port()
    world.start([program, "echo", "--listen", f"127.0.0.1:{port}"], stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)
    until(lambda: accepts(port), 20, "the upstream")
    return port


def make_certificates(folder):
    """Makes an authority and its certificate for localhost: (authority, certificate, key)"""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n", encoding="ascii")
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *kind, "-days", "90", "-subj", "/CN=Authority of the test", "-addext",
            "basicConstraints=critical,CA:TRUE", "-keyout", "ca.key", "-out", "ca.pem")
    openssl("req", *kind, "-subj", "/CN=localhost", "-keyout", "own.key", "-out", "own.csr")
    openssl("x509", "-req", "-in", "own.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "60", "-extfile", "names", "-out", "own.pem")
    (folder / "own.key").chmod(0o600)
    return folder / "ca.pem", folder / "own.pem", folder / "own.key"


def make_parser(description):
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidegate", type=pathlib.Path, default=ROOT / "build/dev/tidegate")
    return parser
