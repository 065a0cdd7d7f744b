#!/usr/bin/env python3
"""Tests what documents show, commands and configurations: check.py README.md...

Blocks fenced as ```yaml test are whole configurations, in which `tidegate check` must find neither a
fault nor anything to warn about. Blocks fenced as ```console test are run, in order, in one shell in
the root of the repository. `tidegate` is the program that TIDEGATE_PROGRAM names:

    $ command                 a command; a line that ends with a backslash goes on in the next
    expected output           what it must print; `...` stands for anything within a line, and
    ...                       alone on a line for any number of lines
    $ command &               runs on until the document ends or `kill %1; wait`; the output that is
    expected output           expected of it is waited for, and must come in this order

What bash says of jobs that ended is left out. Standard error counts as output. A command's exit code is not looked at: its output tells.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time

COMMAND_SECONDS = 600  # the first command may build the program
PROGRAM = os.environ.get("TIDEGATE_PROGRAM", "build/release/tidegate")
MARK = "--end-of-command--"
# `[1]+  Terminated   { ... }`: it may come in the middle of any later command.
JOB_NOTICE = re.compile(
    r"^\[\d+\][-+]? +(Done|Exit \d+|Terminated|Killed|Interrupt|Hangup)\b.*\n", re.MULTILINE)


def blocks(text, language):
    """The lines of each block to be tested, with the number of its first line."""
    found, current = [], None
    for number, line in enumerate(text.splitlines(), start=1):
        if current is None:
            if re.fullmatch(rf"```{language}\s+test\s*", line):
                current = (number + 1, [])
        elif line.startswith("```"):
            found.append(current)
            current = None
        else:
            current[1].append(line)
    if current is not None:
        raise SystemExit(f"line {current[0]}: the block has no end")
    return found


def steps(block):
    """(line number, command, expected lines) of each command of a block."""
    first, lines = block
    found = []
    goes_on = False
    for number, line in enumerate(lines, start=first):
        if goes_on:
            found[-1][1] += "\n" + line
        elif line.startswith("$ "):
            found.append([number, line[2:], []])
        elif found:
            found[-1][2].append(line)
        else:
            raise SystemExit(f"line {number}: output before any command")
        goes_on = (goes_on or line.startswith("$ ")) and line.endswith("\\")
    return found


def line_pattern(line):
    return ".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"[ \t\r]*"


def pattern(expected):
    """A regular expression for all of the expected lines."""
    while expected and not expected[-1].strip():
        expected = expected[:-1]
    parts = [r"(?:.*\n)*?" if line.strip() == "..." else line_pattern(line) + r"\n"
             for line in expected]
    return re.compile("".join(parts) + r"\s*")


class Shell:
    """One bash that runs command after command, and the jobs that it left running."""

    def __init__(self, folder):
        self.folder = folder
        self.background = []
        # A session of its own; job control, so that each background job is a group of its own.
        self.bash = subprocess.Popen(
            ["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, bufsize=1, start_new_session=True,
            env=dict(os.environ, PATH=os.path.dirname(os.path.abspath(PROGRAM)) + ":"
                     + os.environ["PATH"]))
        self.bash.stdin.write("set -m\n")

    def run(self, command):
        output = os.path.join(self.folder, "output")
        self._tell(f"{{ {command}\n}} >'{output}' 2>&1 </dev/null\n")
        return read(output)

    def start(self, command):
        output = os.path.join(self.folder, f"background-{len(self.background)}")
        open(output, "w", encoding="utf-8").close()  # it may be read before the command runs
        # The trap lets a job that is ended go on until what it runs has ended too, so that `wait`
        # means something.
        group = self._tell(
            f"{{ trap : TERM INT; {command}\n}} >'{output}' 2>&1 </dev/null &\n", "$!")
        self.background.append(int(group))
        return output

    def last_runs(self):
        """Whether the command that was started last has not ended."""
        try:
            os.killpg(self.background[-1], 0)
        except ProcessLookupError:
            return False
        return True

    def _tell(self, command, value=""):
        # `jobs` forgets what has ended, as a prompt does: the next job has the number a reader's has.
        self.bash.stdin.write(f"jobs >/dev/null 2>&1\n{command}\necho {MARK}{value}\n")
        signal.alarm(COMMAND_SECONDS)
        for line in self.bash.stdout:
            if line.startswith(MARK):
                signal.alarm(0)
                return line[len(MARK):].strip()
        raise RuntimeError("the shell ended")

    def close(self):
        for group in self.background:
            end_group(group)
        self.bash.kill()
        self.bash.wait()


def end_group(group):
    """TERM, and KILL for processes that do not end."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(group, number)
            for _ in range(100):
                os.killpg(group, 0)
                time.sleep(0.05)
        except ProcessLookupError:
            return


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def wait_for(shell, path, wanted):
    """Whether the output of the command that was started last matches before it ends or its time is over."""
    deadline = time.monotonic() + COMMAND_SECONDS
    while time.monotonic() < deadline:
        goes_on = shell.last_runs()
        if wanted.search(read(path)):
            return True
        if not goes_on:
            return False
        time.sleep(0.1)
    return False


def check(shell, command, expected):
    """None, or the fault."""
    wanted = pattern(expected)
    if re.search(r"(?<!&)&\s*$", command):
        path = shell.start(re.sub(r"&\s*$", "", command))
        return None if not expected or wait_for(shell, path, wanted) else read(path)
    said = shell.run(command).replace("\r\n", "\n")
    if said and not said.endswith("\n"):
        said += "\n"
    said = JOB_NOTICE.sub("", said)
    return None if wanted.fullmatch(said) else said


def check_configurations(found):
    """How many of the configurations are not accepted as they are."""
    failures = 0
    for number, lines in found:
        result = subprocess.run([PROGRAM, "check", "-c", "/dev/stdin"], input="\n".join(lines),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        good = re.fullmatch(r"ok: .*\n", result.stdout) is not None
        print("ok  " if good else "FAIL", f"line {number}: a configuration")
        if not good:
            failures += 1
            print("  but it said:", *result.stdout.splitlines(), sep="\n    ")
    return failures


def check_document(path):
    """How many of its blocks and commands do something else."""
    document = read(path)
    found = blocks(document, "console")
    configurations = blocks(document, "yaml")
    if not found and not configurations:
        sys.exit(f"{path}: no block is marked ```console test or ```yaml test")
    print(path)
    failures = check_configurations(configurations)
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(folder)
        try:
            for block in found:
                for number, command, expected in steps(block):
                    wrong = check(shell, command, expected)
                    print("FAIL" if wrong is not None else "ok  ", f"line {number}: {command}")
                    if wrong is not None:
                        failures += 1
                        print("  expected:", *expected, sep="\n    ")
                        print("  but it said:", *wrong.splitlines(), sep="\n    ")
        finally:
            shell.close()
    return failures


def main():
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("a command does not end"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    failures = sum(check_document(path) for path in sys.argv[1:])
    print(f"{failures} of the blocks and commands failed" if failures else "all did as shown")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
