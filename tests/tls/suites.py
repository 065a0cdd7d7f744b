#!/usr/bin/env python3
"""Suites for hostile TLS against a running Tidegate (scripts/tls-suites says how)."""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SUITES = ("tlsfuzzer", "testssl", "sslscan")
FOLDERS = {"tlsfuzzer": ("tlsfuzzer", "tlslite", "ecdsa"), "testssl": ("testssl",), "sslscan": ()}
PROGRAMS = {"tlsfuzzer": (), "testssl": (), "sslscan": ("sslscan",)}
SCRIPT_SECONDS = 300
TESTSSL_SECONDS = 1800
# Where the suites are from.
SOURCES = {
    "tlsfuzzer": ("TLSFUZZER", "https://github.com/tlsfuzzer/tlsfuzzer"),
    "tlslite": ("TLSLITE_NG", "https://github.com/tlsfuzzer/tlslite-ng"),
    "ecdsa": ("PYTHON_ECDSA", "https://github.com/tlsfuzzer/python-ecdsa"),
    "testssl": ("TESTSSL", "https://github.com/testssl/testssl.sh"),
}
# What testssl.sh says of the certificates made here, of HTTP, and of this machine.
TESTSSL_EXPECTED = re.compile(
    r"cert_(expirationStatus|notAfter|revocation|chain_of_trust|trust|validityPeriod)|HSTS"
    r"|security_headers|engine_problem|QUIC|FS_KEMs|DNS_CAArecord|banner_server|overall_grade"
    r"|scanProblem|grade_cap_reason")
TLS_VERSIONS = {("tls", "1.2"), ("tls", "1.3")}
CIPHER = re.compile(r"TLS_(AES_\d+_GCM|CHACHA20_POLY1305)_SHA\d+"
                    r"|ECDHE-(RSA|ECDSA)-(AES\d+-GCM-SHA\d+|CHACHA20-POLY1305)")
# P-256, P-384, X25519; from OpenSSL 3.5 on SecP256r1MLKEM768 and X25519MLKEM768.
GROUPS = {"0x0017", "0x0018", "0x001d", "0x11eb", "0x11ec"}


@dataclasses.dataclass
class Entry:
    """A line of tlsfuzzer.list."""

    script: str
    options: list  # None: it does not apply
    client: bool  # whether it needs a listener that asks for certificates
    fine: list = dataclasses.field(default_factory=list)  # patterns of what may fail


def read_list():
    """script -> Entry, of tlsfuzzer.list, which says what its lines mean."""
    entries = {}
    for number, line in enumerate((HERE / "tlsfuzzer.list").read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        verb, _, rest = line.partition(" ")
        if verb == "but" and " -- " in rest:
            script, _, pattern = rest.partition(" -- ")[0].partition(" ")
            entries[script].fine.append(pattern)
            continue
        if verb == "not" and ": " in rest:
            entry = Entry(rest.partition(": ")[0], None, False)
        elif verb == "run":
            words = shlex.split(rest)
            entry = Entry(words[0], [word for word in words[1:] if word != "@client"],
                          "@client" in words)
        else:
            sys.exit(f"tlsfuzzer.list:{number}: neither `run`, `but` nor `not`")
        if entry.script in entries:
            sys.exit(f"tlsfuzzer.list:{number}: {entry.script} twice")
        entries[entry.script] = entry
    return entries


# ---- the server

@dataclasses.dataclass
class Target:
    port: int
    client_port: int  # asks for certificates; 0: there is none
    authority: pathlib.Path | None
    process: subprocess.Popen | None

    def is_alive(self):
        if self.process and self.process.poll() is not None:
            return False
        return accepts(self.port)


def accepts(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
        return True
    except OSError:
        return False


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(*command, **more):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True,
                          text=True, **more)


def make_certificates(folder):
    """An authority; of it certificates for localhost with RSA and ECDSA keys, and a client's."""
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "300", "-subj",
        "/CN=suite authority", "-keyout", "ca.key", "-out", "ca.pem", cwd=folder)
    (folder / "names").write_text(
        "subjectAltName=DNS:localhost,DNS:localhost4,IP:127.0.0.1\n"
        "extendedKeyUsage=serverAuth,clientAuth\nkeyUsage=digitalSignature\n")
    kinds = {"rsa": ("rsa:2048",), "client": ("rsa:2048",),
             "ec": ("ec", "-pkeyopt", "ec_paramgen_curve:P-256")}
    for name, kind in kinds.items():
        run("openssl", "req", "-newkey", *kind, "-nodes", "-subj", "/CN=localhost", "-keyout",
            f"{name}.key", "-out", f"{name}.csr", cwd=folder)
        run("openssl", "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-days", "200", "-extfile", "names", "-out", f"{name}.pem", cwd=folder)
        (folder / f"{name}.key").chmod(0o600)


@contextlib.contextmanager
def started(program, folder, logs):
    """A Tidegate with an echo behind it."""
    make_certificates(folder)
    echo_port, port, client_port = free_port(), free_port(), free_port()
    certificates = ", ".join(f"{{certificate: {name}.pem, key: {name}.key}}"
                             for name in ("rsa", "ec"))
    (folder / "tidegate.yaml").write_text(f"""
listen:
  - {{address: 127.0.0.1:{port}, tls: {{certificates: [{certificates}]}}}}
  - address: 127.0.0.1:{client_port}
    tls: {{certificates: [{certificates}], client_auth: optional, client_ca: ca.pem}}
admin: off
upstream: http://127.0.0.1:{echo_port}
limits: [1000000/s]
log: {{access: off}}
threads: 1
""")
    with open(logs / "tidegate.log", "wb") as log, \
            subprocess.Popen([program, "echo", "--listen", f"127.0.0.1:{echo_port}"],
                             stdout=log, stderr=log) as echo, \
            subprocess.Popen([program, "run", "-c", "tidegate.yaml"], cwd=folder, stdout=log,
                             stderr=log) as tidegate:
        try:
            deadline = time.monotonic() + 20
            while not (accepts(port) and accepts(client_port)):
                if tidegate.poll() is not None or time.monotonic() > deadline:
                    sys.exit(f"Tidegate did not start: {(logs / 'tidegate.log').read_text()}")
                time.sleep(0.05)
            yield Target(port, client_port, folder / "ca.pem", tidegate)
        finally:
            tidegate.terminate()
            echo.terminate()


# ---- the suites: each yields what it found, a line each

def path_of(chosen, name):
    return getattr(chosen, name) or os.environ.get(SOURCES[name][0])


def folder_of(chosen, name):
    return pathlib.Path(path_of(chosen, name)).resolve()


def missing(chosen):
    """The missing programs of the chosen suites, and how to get them; a line each."""
    programs = ["openssl", *(name for suite in chosen.only for name in PROGRAMS[suite])]
    for name in programs:
        if not shutil.which(name):
            yield f"{name} is missing: apt-get install {name}"
    for suite in chosen.only:
        for name in FOLDERS[suite]:
            variable, url = SOURCES[name]
            path = path_of(chosen, name)
            if not path:
                yield (f"{suite} needs --{name} DIR or {variable}=DIR: "
                       f"git clone --depth 1 {url} DIR")
            elif not pathlib.Path(path).is_dir():
                yield f"{suite}: {path} is no folder"


def tlsfuzzer(chosen, target, logs):
    folder = folder_of(chosen, "tlsfuzzer")
    paths = [folder, folder_of(chosen, "tlslite"), folder_of(chosen, "ecdsa") / "src"]
    environment = {**os.environ, "PYTHONPATH": ":".join(map(str, paths))}
    entries = read_list()
    there = {path.name for path in (folder / "scripts").glob("test-*.py")}
    for script in sorted(there - set(entries)):
        yield f"tlsfuzzer.list does not say whether {script} applies"
    wanted = [entry for name, entry in sorted(entries.items())
              if entry.options is not None and name in there and chosen.scripts in name
              and (target.client_port or not entry.client)]

    def one(entry):
        port = target.client_port if entry.client else target.port
        files = {"CLIENT_KEY": "client.key", "CLIENT_CERTIFICATE": "client.pem"}
        options = [str(target.authority.parent / files[word]) if word in files else word
                   for word in entry.options]
        log = logs / f"{entry.script}.log"
        command = [sys.executable, str(HERE / "aead.py"), f"scripts/{entry.script}", "-h",
                   "127.0.0.1", "-p", str(port), *options]
        with open(log, "w") as output:
            try:
                done = subprocess.run(command, cwd=folder, env=environment, stdout=output,
                                      stderr=subprocess.STDOUT, timeout=SCRIPT_SECONDS)
            except subprocess.TimeoutExpired:
                return f"{entry.script}: not done within {SCRIPT_SECONDS} s"
        if done.returncode == 0:
            return None
        text = log.read_text(errors="replace")
        failed = re.findall(r"^\t['\"](.*)['\"]$", text.partition("\nFAILED:")[2], re.MULTILINE)
        bad = [name for name in failed
               if not any(re.fullmatch(pattern, name) for pattern in entry.fine)]
        if failed and not bad:
            return None
        failed = bad
        names = "; ".join(failed[:5]) + ("; ..." if len(failed) > 5 else "")
        return f"{entry.script}: {names or 'it ended without a result'} ({log})"

    with concurrent.futures.ThreadPoolExecutor(chosen.jobs) as pool:
        yield from filter(None, pool.map(one, wanted))
    print(f"tlsfuzzer: {len(wanted)} scripts")


def testssl(chosen, target, logs):
    folder = folder_of(chosen, "testssl")
    found, stubs = logs / "testssl.json", logs / "bin"
    found.unlink(missing_ok=True)
    # It wants a program that looks up names, and has no name to look up.
    stubs.mkdir(exist_ok=True)
    (stubs / "host").write_text("#!/bin/sh\nexit 1\n")
    (stubs / "host").chmod(0o755)
    command = ["bash", folder / "testssl.sh", "--quiet", "--color", "0", "--warnings", "batch",
               "--nodns", "none", "--ip", "127.0.0.1", "--assume-http", "--openssl",
               shutil.which("openssl"), "--jsonfile", found]
    if target.authority:
        command += ["--add-ca", target.authority]
    with open(logs / "testssl.log", "w") as output:
        subprocess.run([*map(str, command), f"https://localhost:{target.port}"], cwd=folder,
                       stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                       timeout=TESTSSL_SECONDS, env={**os.environ, "TERM": "dumb",
                                                     "PATH": f"{stubs}:{os.environ['PATH']}"})
    if not found.exists():
        yield f"testssl.sh found nothing at all ({logs / 'testssl.log'})"
        return
    findings = json.loads(found.read_text())
    for finding in findings:
        if finding["severity"] in ("OK", "INFO") or TESTSSL_EXPECTED.match(finding["id"]):
            continue
        yield f"testssl.sh: {finding['severity']} {finding['id']}: {finding['finding']}"
    if not any(finding["id"] == "TLS1_3" for finding in findings):
        yield "testssl.sh did not get to the end"
    print(f"testssl.sh: {len(findings)} answers")


def sslscan(_, target, logs):
    path = logs / "sslscan.xml"
    run("sslscan", "--no-colour", f"--xml={path}", "--sni-name=localhost",
        f"127.0.0.1:{target.port}", timeout=300)
    scan = xml.etree.ElementTree.parse(path).getroot().find("ssltest")
    spoken = {(item.get("type"), item.get("version")) for item in scan.findall("protocol")
              if item.get("enabled") == "1"}
    if spoken != TLS_VERSIONS:
        yield f"sslscan: versions {sorted(spoken)}"
    for item in scan.findall("cipher"):
        if not CIPHER.fullmatch(item.get("cipher")):
            yield f"sslscan: cipher {item.get('cipher')}"
    for item in scan.findall("group"):
        if item.get("id") not in GROUPS:
            yield f"sslscan: group {item.get('name')}"
    if any(item.get("supported") == "1" for item in scan.findall("renegotiation")):
        yield "sslscan: renegotiation"
    if any(item.get("supported") == "1" for item in scan.findall("compression")):
        yield "sslscan: compression"
    if any(item.get("vulnerable") == "1" for item in scan.findall("heartbleed")):
        yield "sslscan: heartbleed"
    print(f"sslscan: {len(scan.findall('cipher'))} ciphers")


def options():
    parser = argparse.ArgumentParser(prog="scripts/tls-suites")
    parser.add_argument("--tidegate", type=pathlib.Path)
    parser.add_argument("--port", type=int)
    parser.add_argument("--needs", action="store_true")  # only says what is absent
    for name in SOURCES:
        parser.add_argument(f"--{name}")
    parser.add_argument("--only", type=lambda text: text.split(","), default=SUITES)
    parser.add_argument("--scripts", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--logs", type=pathlib.Path, default=ROOT / "build" / "tls-suites")
    chosen = parser.parse_args()
    unknown = set(chosen.only) - set(SUITES)
    if unknown:
        parser.error(f"no suite {', '.join(sorted(unknown))}; there are {', '.join(SUITES)}")
    if not chosen.tidegate and not chosen.port:
        parser.error("name --tidegate or --port")
    return chosen


def main():
    chosen = options()
    absent = list(missing(chosen))
    if absent:
        print(*absent, "--only runs the other suites: " + ", ".join(SUITES), sep="\n",
              file=sys.stderr)
        return 2
    if chosen.needs:
        return 0
    logs = chosen.logs.resolve()
    logs.mkdir(parents=True, exist_ok=True)
    found = []
    with tempfile.TemporaryDirectory(prefix="tidegate-tls-") as name:
        server = (contextlib.nullcontext(Target(chosen.port, 0, None, None)) if chosen.port
                  else started(chosen.tidegate.resolve(), pathlib.Path(name), logs))
        with server as target:
            if not target.is_alive():
                print(f"no server answers on 127.0.0.1:{target.port}", file=sys.stderr)
                return 1
            for suite in (globals()[name] for name in chosen.only):
                for line in suite(chosen, target, logs):
                    print(line, flush=True)
                    found.append(line)
                if not target.is_alive():
                    print(f"the server is gone after {suite.__name__}")
                    return 1
    print(f"{len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
