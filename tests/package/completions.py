#!/usr/bin/env python3
"""Tries the completions and the manual page of the program that TIDEGATE_PROGRAM names.

bash completes command lines with the script that `tidegate completion bash` prints. zsh and fish read
theirs, and `man` reads the page without a warning, where these programs are installed. Each test is a
line that begins with `ok  `.
"""

import os
import shutil
import subprocess
import sys
import tempfile

PROGRAM = os.path.abspath(os.environ.get("TIDEGATE_PROGRAM", "build/release/tidegate"))
# What bash does when TAB is pressed behind the words $@, the last of which is being written.
COMPLETE = """
source "$SCRIPT"
read -r -a named <<<"$(complete -p tidegate)"
COMP_WORDS=(tidegate "$@")
COMP_CWORD=$#
"${named[2]}" tidegate "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
((${#COMPREPLY[@]})) && printf '%s\\n' "${COMPREPLY[@]}"
exit 0
"""


def program(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=True,
                          timeout=60).stdout


def commands():
    """The commands that `tidegate help` lists."""
    listed = program("help").split("Subcommands:", 1)[1].split("\n\n", 1)[0]
    return [line.split()[0] for line in listed.splitlines()
            if line.startswith("  ") and not line.startswith("   ")]


class Trial:
    def __init__(self, folder):
        self.folder = folder
        self.failed = 0
        self.script = self.write("completion.bash", program("completion", "bash"))
        self.here = os.path.join(folder, "here")
        os.mkdir(self.here)
        for name in ("tidegate.yaml", "two words.yaml"):
            open(os.path.join(self.here, name), "w", encoding="utf-8").close()

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def judge(self, name, fault):
        if fault:
            self.failed += 1
        print(f"FAIL {name}: {fault}" if fault else f"ok   {name}", flush=True)

    def complete(self, *words):
        done = subprocess.run(["bash", "--norc", "-c", COMPLETE, "bash", *words], check=False,
                              capture_output=True, text=True, timeout=60, cwd=self.here,
                              env=dict(os.environ, SCRIPT=self.script))
        return sorted(done.stdout.splitlines()) if not done.stderr else done.stderr

    def expect(self, words, wanted):
        found = self.complete(*words)
        self.judge(f"bash: {' '.join(words)!r}",
                   "" if found == sorted(wanted) else f"{found}, expected {sorted(wanted)}")

    def bash(self):
        self.expect([""], commands())
        self.expect(["ex"], ["explain"])
        self.expect(["--v"], ["--version"])
        self.expect(["run", ""], ["tidegate.yaml", "two words.yaml"])
        self.expect(["run", "-c", "two"], ["two words.yaml"])
        self.expect(["run", "--config", "=", "tide"], ["tidegate.yaml"])
        self.expect(["run", "--ec"], ["--echo"])
        self.expect(["quickstart", "--face", ""], ["check", "forward_auth", "proxy"])
        self.expect(["quickstart", "--face", "="], ["check", "forward_auth", "proxy"])
        self.expect(["explain", "--from", ""], [])
        self.expect(["keys", ""], ["new"])
        self.expect(["keys", "new", "alice", "--t"], ["--tier"])
        self.expect(["completion", ""], ["bash", "fish", "zsh"])
        self.expect(["help", "he"], ["health", "help"])

    def each_option(self):
        """bash knows each option that the help of a command shows, and no other."""
        for command in [name.split() for name in commands()] + [["keys", "new"]]:
            shown = program(*command, "--help").split("Options:", 1)[1].split("\n\n", 1)[0]
            # `--face FACE Excludes: --tls` names another option, too.
            options = {word for line in shown.splitlines() if line.startswith("  -")
                       for word in line.replace(",", " ").split("  ")[1].split()
                       if word.startswith("-")}
            self.expect([*command, "-"], options)

    def other_shells(self):
        for shell, option in (("zsh", "-n"), ("fish", "--no-execute")):
            path = self.write(f"completion.{shell}", program("completion", shell))
            if shutil.which(shell) is None:
                print(f"not run: {shell} is not installed")
                continue
            done = subprocess.run([shell, option, path], check=False, capture_output=True,
                                  text=True, timeout=60)
            self.judge(f"{shell} reads its completions", done.stderr if done.returncode else "")

    def manual(self):
        page = program("man")
        path = self.write("tidegate.1", page)
        missing = [name for name in commands() if f".SS tidegate {name}" not in page]
        self.judge("the manual page has each command", ", ".join(missing))
        if shutil.which("man") is None or shutil.which("groff") is None:
            print("not run: man-db or groff is not installed")
            return
        # As lintian does.
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", path],
                              check=False, capture_output=True, text=True, timeout=60,
                              env=dict(os.environ, LC_ALL="C.UTF-8", MANROFFSEQ="", MANWIDTH="80"))
        self.judge("man reads the page without a warning", done.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(folder)
        trial.bash()
        trial.each_option()
        trial.other_shells()
        trial.manual()
    sys.exit(1 if trial.failed else 0)


if __name__ == "__main__":
    main()
