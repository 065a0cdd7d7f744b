"""What scripts/test runs, and in which order: run.py --some|--all SECONDS
What scripts/debian13 runs, on another Debian: run.py --plain|--plain-some SECONDS

SECONDS is what installing the packages took. Doctest programs are cut into parts of some cases each,
and some parts run side by side: each test takes ports and files of its own, and most of them wait.

A machine that is busy with some of them can be too slow for a deadline that a test sets. So a part in
which expectations failed, and the recipes, run once more, alone: what passes then is named as unsteady,
with what failed, and is no failure. A report of a sanitizer, a crash and a part that took too long are
never forgiven.

A step that this machine cannot run (its exit code is 77) is neither passed nor failed: a line `skipped: `
says why, and the end says so once more. A part of a step that cannot run is a line `not run: `.

What --all builds, clang-tidy, the image and what runs on Debian 13 have the lowest priority beside the tests,
which mostly wait. Tests that measure run alone.
"""

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

LOGS = "build/test-logs"
# Two cores serve eight parts, as most wait. Builds take what processor time five leave.
AT_ONCE = 8
AT_ONCE_BESIDE_BUILDS = 5
AT_ONCE_OPTIMISED = 6  # what is left of the builds then has little to do
PART_SECONDS_MAX = 600
SKIPPED = 77  # the exit code of a step that this machine cannot run
FAULT = re.compile(r"^FAIL |^not ok |ERROR: |runtime error: |FATAL|Sanitizer|: error:")
COUNT = re.compile(r"^\[doctest\] unskipped test cases .*: (\d+)$", re.MULTILINE)
UNFORGIVEN = re.compile(r"Sanitizer|runtime error: |SIG[A-Z]+ |ended with -?\d+$|does not end$",
                        re.MULTILINE)
SUMMARY = re.compile(
    r"^\[doctest\] test cases: *\d+ \| *\d+ passed \| *(\d+) failed", re.MULTILINE)
# Messages, bodies, limits and identity.
OVER_TLS = ("messages:*,fields:*,framing:*,smuggling:*,cutting:*,both sides:*,half-close:*,"
            "streams:*,bounds:*,slow clients:*,unread:*,answers:*,hostile:*,forwarding:*,drain:*,handover:*,"
            "limits:*,concurrency:*,count by status:*,identity:*,tokens:*,address:*")
# The same, and the other answers of the proxy itself. Cases about HTTP/1's own bytes are not run,
# and cases that say only_over_http1() are skipped.
OVER_H2 = ("messages:*,fields:*,both sides:*,streams:*,bounds:*,slow clients:*,answers:*,"
           "forwarding:*,upstream: whatever*,upstream: an*,upstream: a reset*,upstream: a GET*,"
           "upstream: a POST*,upstream: a client*,upstream: a late*,drain: an answer*,"
           "drain: a request that ends*,handover:*,limits:*,gcra:*,leaky_bucket: b*,leaky_bucket: w*,"
           "leaky_bucket: a*,concurrency:*,count by status:*,costs:*,clients:*,keys:*,shadow:*,"
           "identity:*,forward_as:*,invalid:*,guesses: h*,guesses: at once*,tokens:*,address:*,"
           "tiers:*,cors:*,routes:*,access log:*,explain: it decides*")
# Beside those, cases of many clients and tight times, for which sanitizers and TLS leave no time.
OVER_H2C = OVER_H2 + (",upstream:*,queue:*,algorithms:*,leaky_bucket:*,count all:*,batching:*,"
                      "redis:*,redis failure:*")
# Of rooms with state that threads share.
TSAN_UNITS = ("unit_telemetry", "unit_redis", "unit_store", "unit_ask", "unit_proxy", "unit_identity",
              "unit_balance")
# What meets another Redis, and what depends on the libraries of the system.
ON_REDIS = "redis*,doctor*,limits:*,batching:*,settle:*,concurrency:*,inspect*"
ON_LIBRARIES = ON_REDIS + ",upstream tls*,upstream http2*,http2*,listener tls:*,identity*,jwks*,tokens:*,grpc*,config*"
ON_SYSTEM = (ON_LIBRARIES + ",messages:*,framing:*,smuggling:*,both sides:*,upstream:*,names:*,tracing:*,lifecycle:*,"
             "start:*,handover:*,hardening:*,health*,explain:*")
SHELL_SCRIPTS = ("alerts", "apps", "bench", "browser", "build", "certificates", "controllers", "dashboard", "debian13", "deps", "format", "fuzz",
                 "gateways", "helm", "http2", "image", "llm", "measure", "models", "moving", "package", "provider", "reference", "reproduce", "run", "soak", "test", "tidy")


class Report:
    """Prints a line for each step, and says in the end what failed."""

    def __init__(self, seconds):
        self.passed = self.failed = self.processor = 0
        self.failures = []
        self.unsteady = []
        self.skipped = []
        self.lock = threading.Lock()
        self.begin = time.monotonic() - seconds
        shutil.rmtree(LOGS, ignore_errors=True)
        os.makedirs(LOGS)

    def add(self, name, passed, failed, seconds, processor, logs):
        """`processor`: seconds that the processors worked for it, where its processes were waited for."""
        with self.lock:
            self.passed += passed
            self.failed += failed
            self.processor += processor
            print(f"{'FAIL' if failed else 'ok':4} {name:28} {passed:4} passed {failed:3} failed "
                  f"{seconds:4.0f}s {processor:4.0f}s of processors", flush=True)
            if failed:
                self.failures.append(name)
                for log in logs:
                    print("\n".join(faults_in(log)), flush=True)

    def add_skipped(self, name, log):
        """A step that this machine cannot run. The last line of its log says why."""
        why = (text_of(log).strip().splitlines() or ["its log is empty"])[-1].removeprefix("not run: ")
        with self.lock:
            self.skipped.append(f"{name}: {why}")
            print(f"skip {name:28} {why}", flush=True)

    def add_unsteady(self, name, log):
        """A part or a step that failed beside others and passed alone."""
        self.unsteady.append(name)
        print(f"     {name} passed alone after it had failed:", flush=True)
        print("\n".join(faults_in(log)), flush=True)

    @staticmethod
    def tell_left_out(log):
        """Prints the parts of a step that this machine cannot run."""
        for line in text_of(log).splitlines():
            if line.startswith("not run: "):
                print(f"     {line}", flush=True)

    def end(self):
        for name in self.unsteady:
            print(f"unsteady: {name}")
        for what in self.skipped:
            print(f"skipped: {what}")
        for name in self.failures:
            print(f"failed: {name}")
        print(f"{time.monotonic() - self.begin:.0f} seconds, {self.processor:.0f} of processors")
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0


def text_of(log):
    with open(log, encoding="utf-8", errors="replace") as file:
        return file.read()


def faults_in(log):
    """The lines of a log that say why: the faults and the lines behind them, else its end."""
    lines = [line[:400] for line in text_of(log).splitlines()]
    chosen = sorted({number for fault, line in enumerate(lines) if FAULT.search(line)
                     for number in range(fault, min(fault + 9, len(lines)))})
    return [lines[number] for number in chosen[:40]] or lines[-40:]


def run(command, log, settings=None):
    """The exit code of a command that writes to a log, and the seconds that processors worked for it."""
    with open(log, "wb") as file, subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT,
                                                   env=dict(os.environ, **(settings or {}))) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, used.ru_utime + used.ru_stime


class Step:
    """A command that must succeed: one test, or as many as its log has lines that match. `again`: a run
    that fails beside others, and finds no crash, is followed by one alone."""

    def __init__(self, name, *command, settings=None, counted=None, again=False):
        self.name, self.command = name, command
        self.settings, self.counted, self.again = settings, counted, again

    def run(self, log=None):
        begin = time.monotonic()
        self.log = log or f"{LOGS}/{self.name}.log"
        code, self.processor = run(self.command, self.log, self.settings)
        self.skipped = code == SKIPPED
        self.failed = 1 if code and not self.skipped else 0
        self.seconds = time.monotonic() - begin
        return self

    def passed(self):
        if not self.counted:
            return 1 - self.failed
        return sum(1 for line in text_of(self.log).splitlines() if re.search(self.counted, line))

    def run_again(self, report):
        first = self.log
        if not (self.failed and self.again) or UNFORGIVEN.search(text_of(first)):
            return
        if not self.run(f"{LOGS}/{self.name}.again.log").failed:
            report.add_unsteady(self.name, first)

    def tell(self, report):
        if self.skipped:
            report.add_skipped(self.name, self.log)
            return
        report.add(self.name, self.passed(), self.failed, self.seconds, self.processor, [self.log])
        report.tell_left_out(self.log)


def step(report, *command, **how):
    Step(*command, **how).run().tell(report)


class Program:
    """A doctest program: as many tests as it has cases, to be run in parts of some."""

    def __init__(self, name, path, part=1000, settings=None, cases=None):
        self.name, self.part, self.settings = name, part, settings
        self.command = [*fixed_addresses(), path, "--no-colors=true"]
        if cases:
            self.command.append("--test-case=" + cases)
        self.passed = self.failed = self.seconds = self.processor = 0
        self.bad_parts = []  # (first case, last case, how many failed, log)

    def parts(self):
        """(first case, last case) of each part."""
        listed = subprocess.run([*self.command, "--count"], capture_output=True, text=True,
                                check=False, env=dict(os.environ, **(self.settings or {})))
        found = COUNT.search(listed.stdout)
        count = int(found[1]) if found else 0
        # A program without tests, or that does not run, is one part, which fails.
        return [(first, min(first + self.part - 1, count))
                for first in range(1, count + 1, self.part)] or [(1, 0)]

    def run_part(self, first, last):
        begin = time.monotonic()
        log = f"{LOGS}/{self.name}.{first}.log"
        failed = self.failures_of(first, last, log)
        count = max(last - first + 1, failed)
        self.passed += count - failed
        self.failed += failed
        self.seconds += time.monotonic() - begin
        if failed:
            self.bad_parts.append((first, last, failed, log))

    def failures_of(self, first, last, log):
        """How many cases of a part fail; 1 if it died before its summary, or had nothing to test."""
        code, processor = run(["timeout", "--kill-after=10", str(PART_SECONDS_MAX), *self.command,
                    f"--first={first}", f"--last={last}"], log, self.settings)
        self.processor += processor
        summary = SUMMARY.search(text_of(log))
        failed = int(summary[1]) if summary else 0
        is_bad = code != 0 or first > last or not summary
        return max(failed, 1) if is_bad else failed

    def run_again(self, report):
        """Runs the parts in which only expectations failed once more, by themselves."""
        for part in list(self.bad_parts):
            first, last, failed, log = part
            text = text_of(log)
            if not SUMMARY.search(text) or UNFORGIVEN.search(text):
                continue
            again = log.replace(".log", ".again.log")
            if self.failures_of(first, last, again) == 0:
                self.bad_parts.remove(part)
                self.failed -= failed
                self.passed += failed
                report.add_unsteady(f"{self.name}.{first}", log)


class Beside:
    """Steps that run one after another beside others, in the processor time that those leave."""

    def __init__(self, report):
        self.report = report
        self.pool = ThreadPoolExecutor(1)
        self.steps = {}

    def begin(self, name, *command, counted=None):
        self.steps[name] = self.pool.submit(step, self.report, name, "nice", "-n", "19", *command,
                                            counted=counted)

    def wait_for(self, name):
        self.steps[name].result()

    def wait(self):
        for name in self.steps:
            self.wait_for(name)


def run_programs(report, programs, steps=(), at_once=AT_ONCE_BESIDE_BUILDS):
    """Runs parts and steps side by side, then what failed once more, alone. Nothing that measures may be
    among them; the longest should come first."""
    parts = [(program, part) for program in programs for part in program.parts()]
    with ThreadPoolExecutor(at_once) as pool:
        for done in [*[pool.submit(one.run) for one in steps],
                     *[pool.submit(program.run_part, *part) for program, part in parts]]:
            done.result()
    for one in steps:
        one.run_again(report)
        one.tell(report)
    for program in programs:
        program.run_again(report)
        report.add(program.name, program.passed, program.failed, program.seconds, program.processor,
                   [log for *_, log in program.bad_parts])


def fixed_addresses():
    """GCC 12's sanitizers do not know kernels that place memory more freely than they expect."""
    fixed = ["setarch", "-R"]
    works = subprocess.run([*fixed, "true"], capture_output=True, check=False).returncode == 0
    return fixed if works else []


def tests_of(folder):
    """The test programs of a build."""
    listed = subprocess.run(["ctest", "--test-dir", folder, "-N"], capture_output=True, text=True,
                            check=True).stdout
    return re.findall(r"^ *Test +#\d+: (\S+)", listed, re.MULTILINE)


def integration(name, kind, settings, cases=None, tests="tests"):
    """The integration tests of one build against the program of one build."""
    return Program(name, f"build/{tests}/integration", part=10, cases=cases,
                   settings={"TIDEGATE_PROGRAM": os.path.abspath(f"build/{kind}/tidegate"),
                             **settings})


def some(report, beside=None):
    """The tests for every change. `beside` builds what --all has more, once all of this is built."""
    step(report, "format", "scripts/format", "--check")
    step(report, "shellcheck", "shellcheck", *[f"scripts/{name}" for name in SHELL_SCRIPTS],
         ".ci/run", "docker/collect")
    step(report, "measure", "scripts/measure", "--check")
    step(report, "build-tests", "scripts/build", "tests")
    step(report, "build-sanitize", "scripts/build", "sanitize")
    if beside:
        begin_builds(beside)
    units = [name for name in tests_of("build/sanitize") if name != "store_conformance"]
    sanitized = {"TIDEGATE_PROGRAM": "build/sanitize/tidegate"}
    run_programs(report, [
        integration("integration", "sanitize", {"TIDEGATE_SANITIZED": "1"}),
        integration("integration-tls", "sanitize",
                    {"TIDEGATE_SANITIZED": "1", "TIDEGATE_TRANSPORT": "tls"}, cases=OVER_TLS),
        integration("integration-h2", "sanitize",
                    {"TIDEGATE_SANITIZED": "1", "TIDEGATE_TRANSPORT": "h2"}, cases=OVER_H2),
        # Each kind of trace, not every one of them: --all plays the others.
        Program("store_conformance", "build/sanitize/store_conformance", part=4, settings={
            "TIDEGATE_CHARGES": "100000", "TIDEGATE_TRACES": "1000",
            "TIDEGATE_MEMORY_TRACES": "10000", "TIDEGATE_CLUSTER_TRACES": "300"}),
        *[Program(name, f"build/sanitize/{name}") for name in units]],
        steps=[Step("recipes", "python3", "tests/recipes/check.py", counted="^ok  ",
                    settings=sanitized, again=True)],
        at_once=AT_ONCE_BESIDE_BUILDS if beside else AT_ONCE)
    step(report, "documents", "python3", "tests/readme/check.py", "docs/limits.md",
         "docs/configuration.md", "docs/commands.md", "docs/faces.md",
         "docs/check-api.md", "docs/envoy-grpc.md", "docs/tunnels.md", "docs/http2.md",
         "docs/running.md", "docs/simulate.md", "docs/sizing.md",
         "docs/timeouts.md", "docs/tracing.md",
         counted="^ok  ",
         settings=sanitized)
    step(report, "links", "python3", "tests/readme/links.py")
    step(report, "code-index", "python3", "tests/readme/code_index.py")
    step(report, "reference", "python3", "tests/readme/reference.py", settings=sanitized)
    step(report, "stored-keys", "python3", "tests/readme/stored_keys.py", settings=sanitized)
    step(report, "costs", "scripts/bench", "--costs", "--check", "docs/performance/sizing.json")
    step(report, "completions", "python3", "tests/package/completions.py", counted="^ok  ",
         settings=sanitized)
    step(report, "schema", "/usr/bin/python3", "tests/package/schema.py", counted="^ok  ",
         settings=sanitized)
    step(report, "licence", "python3", "tests/package/licence.py", counted="^ok  ")
    step(report, "options", "python3", "tests/package/options.py", counted="^ok  ")
    step(report, "install", "python3", "tests/package/install.py", "build/sanitize",
         counted="^ok  ")
    step(report, "plots", "scripts/plots", "--check", "build/sanitize/arrivals")
    for figures in ("measured", "transport", "debian13"):
        step(report, f"performance-{figures}", "scripts/bench", "--document",
             f"docs/performance/{figures}.json", "--check")


def begin_builds(beside):
    """The further builds of --all."""
    beside.begin("build-release", "scripts/build", "release", "tidegate", "store_conformance")
    beside.begin("build-tsan", "scripts/build", "tsan", "tidegate", "store_conformance", *TSAN_UNITS)
    beside.begin("build-fuzz", "scripts/build", "fuzz", "fuzz_targets")
    beside.begin("tidy", "scripts/tidy")
    beside.begin("arm64", "scripts/arm64", counted="^ok ")


def optimised(report, beside):
    """The program that users run."""
    beside.wait_for("build-release")
    run_programs(report, [
        integration("integration-h2c", "release",
                    {"TIDEGATE_SANITIZED": "0", "TIDEGATE_TRANSPORT": "h2c"}, cases=OVER_H2C),
        integration("integration-release", "release",
                    {"TIDEGATE_SANITIZED": "0", "TIDEGATE_LARGE_MIB": "100"}),
        Program("store_conformance-release", "build/release/store_conformance", part=4)],
        steps=[
            Step("package", "scripts/package", "--build", "build/release", counted="^ok "),
            Step("llm", "scripts/llm", counted="^ok "),
            Step("provider", "scripts/provider", counted="^ok "),
            Step("models", "scripts/models"),
            Step("training", "python3", "-B", "bench/compare/training.py",
                 "build/release/tidegate"),
            Step("helm", "scripts/helm", counted="^ok "),
            Step("controllers", "scripts/controllers", counted="^ok "),
            Step("alerts", "scripts/alerts", counted="^ok "),
            Step("http2", "scripts/http2", counted="^ok "),
            Step("gateways", "scripts/gateways", counted="^ok "),
            Step("browser", "scripts/browser", counted="^ok "),
            Step("dashboard", "scripts/dashboard", counted="^ok "),
            Step("apps", "scripts/apps")],
        at_once=AT_ONCE_OPTIMISED)
    beside.wait()
    # Alone: they measure.
    step(report, "fault-matrix", "scripts/matrix", "--program", "build/tests/fault_matrix",
         settings={"TIDEGATE_PROGRAM": os.path.abspath("build/release/tidegate")})
    step(report, "idle-connections", "scripts/soak", "--idle")
    # The README's commands and the image's services use the ports that users will use: one at a time.
    step(report, "readme", "python3", "tests/readme/check.py", "README.md",
         "docs/getting-started.md")
    # It compares which clients are admitted at which time.
    step(report, "moving", "scripts/moving", counted="^ok ")


def threads(report, beside):
    """Code that crosses threads, under the thread sanitizer: it needs threads, not many traces."""
    beside.begin("image", "scripts/image", counted="^ok ")
    beside.begin("debian13", "scripts/debian13", "--some", counted="^ok ")
    run_programs(report, [
        integration("integration-tsan", "tsan", {"TIDEGATE_SANITIZED": "1"},
                    cases="limits:*,redis*,batching:*,lifecycle:*,admin:*,identity*,rotation:*,"
                          "discovery:*,check API*,forward_auth*,settle:*,queue:*,health:*,"
                          "listener tls:*,listener tls clients:*,listener tls reload:*,"
                          "tracing:*,dashboard:*"),
        Program("store_conformance-tsan", "build/tsan/store_conformance", part=4, settings={
            "TIDEGATE_CHARGES": "100000", "TIDEGATE_TRACES": "300",
            "TIDEGATE_MEMORY_TRACES": "2000"}),
        *[Program(f"{name}-tsan", f"build/tsan/{name}") for name in TSAN_UNITS]])
    beside.wait()


def valkey_as_redis():
    """Settings under which what tests start as Redis is Valkey."""
    folder = os.path.abspath("build/valkey")
    os.makedirs(folder, exist_ok=True)
    for name in ("server", "cli"):
        link = os.path.join(folder, f"redis-{name}")
        if not os.path.lexists(link):
            os.symlink(shutil.which(f"valkey-{name}"), link)
    return {"PATH": folder + ":" + os.environ["PATH"]}


def plain(report, is_whole):
    """Compiles without optimisation and with warnings as errors, then runs what meets the libraries of the
    system, its Redis and its Valkey. Of less than the whole, no unit test is compiled: the program is, which is
    nearly all that is in them. It runs beside other tests."""
    targets = ["fault_matrix", "all"] if is_whole else []
    step(report, "build-plain", "scripts/build", "plain", "tidegate", "store_conformance", "integration", *targets)
    units = [name for name in tests_of("build/plain") if is_whole and name not in ("store_conformance", "integration")]
    few = {"TIDEGATE_CHARGES": "100000", "TIDEGATE_TRACES": "300", "TIDEGATE_MEMORY_TRACES": "3000",
           "TIDEGATE_CLUSTER_TRACES": "100"}
    valkey = valkey_as_redis()
    slow = {"TIDEGATE_SANITIZED": "1"}  # it has more time, as it is not optimised either
    run_programs(report, [
        integration("integration", "plain", slow, cases=ON_SYSTEM if is_whole else ON_LIBRARIES, tests="plain"),
        integration("integration-valkey", "plain", {**slow, **valkey}, cases=ON_REDIS, tests="plain"),
        Program("store_conformance", "build/plain/store_conformance", part=4, settings=few),
        Program("store_conformance-valkey", "build/plain/store_conformance", part=4,
                settings={**few, **valkey}),
        *[Program(name, f"build/plain/{name}") for name in units]],
        at_once=AT_ONCE if is_whole else AT_ONCE_BESIDE_BUILDS)
    if not is_whole:
        return
    program = {"TIDEGATE_PROGRAM": os.path.abspath("build/plain/tidegate")}
    matrix = ["scripts/matrix", "--program", "build/plain/fault_matrix"]
    step(report, "fault-matrix", *matrix, settings=program)
    step(report, "fault-matrix-valkey", *matrix, "redis: ", settings={**program, **valkey})


def main():
    how, seconds = sys.argv[1:]
    os.environ.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")
    os.environ.setdefault("ASAN_OPTIONS", "strict_string_checks=1")
    report = Report(float(seconds))
    report.add("packages", 0, 0, float(seconds), 0, [])
    if how in ("--plain", "--plain-some"):
        plain(report, is_whole=how == "--plain")
    elif how == "--all":
        beside = Beside(report)
        some(report, beside)
        optimised(report, beside)
        threads(report, beside)
        step(report, "fuzz", "scripts/fuzz", "5", counted=": 5s, nothing found$")
    else:
        some(report)
    sys.exit(report.end())


if __name__ == "__main__":
    main()
