"""Programs of others that speak HTTP/2: h2spec, curl, h2load."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import time
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
SPEC_CASES = 147  # 146, and one of strict mode
SPEC_TIMEOUT_S = 5  # for each case
REQUESTS = 2_000
MEBIBYTE = 1_048_576


# ---- h2spec: not a package of Debian's, so it is used where it is

def excepted():
    """Cases of h2spec.list, which says what its lines mean."""
    lines = (HERE / "h2spec.list").read_text(encoding="utf-8").splitlines()
    return {line.partition(" -- ")[0] for line in lines if line and not line.startswith("#")}


def try_h2spec(place):
    program = os.environ.get("TIDEGATE_H2SPEC") or shutil.which("h2spec")
    # Where HTTP/1 is spoken as well, what does not begin as HTTP/2 does gets an answer in HTTP/1.
    for name, port, tls in (("clear", place.alone, False), ("tls", place.tls, True)):
        part = place.part(f"h2spec {name}")
        if not program:
            yield part.not_run("no program h2spec on the PATH, and TIDEGATE_H2SPEC names none")
            continue
        report = place.logs / f"h2spec-{name}.xml"
        report.unlink(missing_ok=True)
        command = [program, "--strict", "-h", "127.0.0.1", "-p", str(port), "--timeout",
                   str(SPEC_TIMEOUT_S), "-j", str(report), *(["-t", "-k"] if tls else [])]
        with open(place.logs / f"h2spec-{name}.log", "wb") as log:
            subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
        if not report.exists():
            part.expect(False, "h2spec made no report")
            yield part
            continue
        judge_spec(part, report)
        yield part


def judge_spec(part, report):
    cases = list(xml.etree.ElementTree.parse(report).getroot().iter("testcase"))
    fine = excepted()
    passed = set()
    for case in cases:
        title = f"{case.get('package')} {case.get('classname')}"
        if not len(case):
            passed.add(title)
        elif title not in fine:
            part.expect(False, title, (case[0].text or "").strip().replace("\n", "; "))
    part.expect(len(cases) >= SPEC_CASES, "only", len(cases), "cases")
    for title in sorted(fine & passed):
        part.expect(False, "h2spec.list excepts a case that passes:", title)
    part.found = f"{len(passed)} of {len(cases)} cases pass"


# ---- curl

class Curl:
    """The output of `curl` for one transfer."""

    def __init__(self, place, port, *options, scheme="http", path="/", data=None):
        command = ["curl", "-sS", "-i", "--raw", "-m", "30", "--cacert", str(place.authority), "-w",
                   "\n%{http_version} %{http_code} %{size_download} %{exitcode}", *options,
                   f"{scheme}://localhost:{port}{path}"]
        done = subprocess.run(command, input=data, capture_output=True, check=False)
        text, _, said = done.stdout.decode("latin-1").rpartition("\n")
        self.version, status, size, code = said.split() if said else ("", "0", "0", "-1")
        self.status, self.size, self.code = int(status), int(size), int(code)
        # Behind the last head: what came before are interim answers.
        self.head = ""
        while text.startswith("HTTP/"):
            self.head, _, text = text.partition("\r\n\r\n")
            if not re.match(r"HTTP/\S+ 1\d\d", self.head):
                break
        self.body, self.errors = text, done.stderr.decode()

    def echo(self):
        try:
            return json.loads(self.body)
        except ValueError:
            return {"headers": [], "target": "", "method": "", "body_bytes": -1}

    def field(self, name):
        found = re.search(rf"^{name}: (.*)\r?$", self.head, re.MULTILINE | re.IGNORECASE)
        return found[1].strip() if found else ""

    def __str__(self):
        return f"{self.version} {self.status} {self.code} {self.errors} {self.body[:60]!r}"


def try_curl(place):
    for name, scheme, port, tls in place.transports():
        part = place.part(f"curl {name}")
        known = ["--http2"] if tls else ["--http2-prior-knowledge"]

        def curl(*options, known=known, port=port, scheme=scheme, **more):
            return Curl(place, port, *known, *options, scheme=scheme, **more)

        judge_messages(part, curl)
        judge_bodies(part, curl)
        part.found = "requests and bodies in HTTP/2"
        yield part
    part = place.part("curl versions")
    judge_versions(part, place)
    part.found = "each client gets the version that it can speak"
    yield part


def judge_messages(part, curl):
    got = curl(path="/a/b?x=1")
    part.expect((got.version, got.status, got.code) == ("2", 200, 0), "GET:", got)
    part.expect(got.echo()["target"] == "/a/b?x=1", "GET:", got)
    fields = {key.lower(): value for key, value in got.echo()["headers"]}
    part.expect(fields.get("host", "").startswith("localhost:"), "GET: Host is", fields.get("host"))
    part.expect(fields.get("via", "").startswith("2.0 "), "GET: Via is", fields.get("via"))
    part.expect(not any(key.startswith(":") for key in fields), "GET: a pseudo-field as a field")
    got = curl("-I", path="/?bytes=1000")
    part.expect((got.status, got.code, got.size) == (200, 0, 0), "HEAD:", got)
    part.expect(got.field("content-length") == "1000", "HEAD:", got.head)
    for status in (204, 304, 404, 500):
        got = curl(path=f"/?status={status}")
        part.expect((got.version, got.status, got.code) == ("2", status, 0), status, got)
    got = curl("-X", "OPTIONS", "--request-target", "*")
    part.expect((got.status, got.code) in ((200, 0), (404, 0)), "OPTIONS *:", got)
    got = curl("-H", "Cookie: a=1; b=2", "-H", "TE: trailers", "-H", "X-Empty;")
    fields = {key.lower(): value for key, value in got.echo()["headers"]}
    part.expect(fields.get("cookie") == "a=1; b=2", "Cookie:", fields.get("cookie"))
    part.expect(fields.get("x-empty") == "", "an empty field:", fields.get("x-empty"))
    got = curl("-H", "X-Long: " + "x" * 60_000)
    part.expect((got.version, got.status) == ("2", 431), "a head of 60,000 bytes:", got)


def judge_bodies(part, curl):
    got = curl(path=f"/?bytes={8 * MEBIBYTE}")
    part.expect((got.status, got.code, len(got.body)) == (200, 0, 8 * MEBIBYTE), "8 MiB:", got)
    body = b"x" * (4 * MEBIBYTE)
    for how in ([], ["-H", "Expect: 100-continue"], ["-H", "Content-Length:"]):
        got = curl("--data-binary", "@-", *how, data=body)
        part.expect((got.version, got.status, got.code) == ("2", 200, 0), "upload", how, got)
        part.expect(got.echo()["body_bytes"] == len(body), "upload", how, got)
    got = curl("-X", "POST", "--data-binary", "@-", data=b"")
    part.expect(got.echo()["body_bytes"] == 0, "an empty body:", got)


def judge_versions(part, place):
    for options, scheme, port, version in (
            (["--http1.1"], "http", place.clear, "1.1"),
            (["--http1.0"], "http", place.clear, "1.1"),
            # Upgrade: h2c is not taken up.
            (["--http2"], "http", place.clear, "1.1"),
            (["--http1.1"], "https", place.tls, "1.1"),
            (["--http2"], "https", place.tls, "2"),
            (["--no-alpn"], "https", place.tls, "1.1")):
        got = Curl(place, port, *options, scheme=scheme)
        part.expect((got.version, got.status, got.code) == (version, 200, 0), options, scheme, got)
    got = Curl(place, place.clear, "--http2", "--data-binary", "@-", data=b"x" * 100_000)
    part.expect(got.echo()["body_bytes"] == 100_000, "a body behind Upgrade: h2c:", got)


# ---- h2load

def h2load(place, port, scheme, *options):
    """(its last lines, all well)"""
    done = subprocess.run(["h2load", "-n", str(REQUESTS), *options,
                           f"{scheme}://localhost:{port}/?bytes=1000"], capture_output=True,
                          text=True, check=False)
    (place.logs / f"h2load-{scheme}.log").write_text(done.stdout + done.stderr)
    said = re.search(r"^requests: .*$", done.stdout, re.MULTILINE)
    well = f"{REQUESTS} done, {REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout"
    return (said[0] if said else done.stderr[-300:]), well in done.stdout


def try_h2load(place):
    for name, scheme, port, _ in place.transports():
        part = place.part(f"h2load {name}")
        if not shutil.which("h2load"):
            yield part.not_run("no program h2load")
            continue
        for shape in (["-c1", "-m100"], ["-c20", "-m10"], ["-c50", "-m1"], ["-c4", "-m10", "-w10"]):
            said, is_well = h2load(place, port, scheme, *shape)
            part.expect(is_well, shape, said)
        over = threading.Event()
        reloads = threading.Thread(target=reload_until, args=(place.tidegate.process, over))
        reloads.start()
        said, is_well = h2load(place, port, scheme, "-c10", "-m10")
        over.set()
        reloads.join()
        part.expect(is_well, "beside reloads:", said)
        part.found = f"{5 * REQUESTS} requests, {REQUESTS} of them beside reloads"
        yield part


def reload_until(process, over):
    while not over.wait(0.05):
        process.send_signal(signal.SIGHUP)
    time.sleep(0.05)
