"""docs/llm.md: the gateway that it shows, and its commands."""

import os
import re
import subprocess
import sys

from place import HERE, accepts, free_port, need, scenario, until

sys.path.insert(0, str(HERE.parent / "readme"))

import check as readme  # noqa: E402: found by the path above

PAGE = HERE.parent.parent / "docs/llm.md"
SECRET = "example-secret-of-the-gateway-32-bytes"
LINES_MAX = 40


def commands(text):
    """(line, command, expected lines) of the blocks that are marked `llm`."""
    return [step for found in re.finditer(r"^```console llm\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
            for step in readme.steps((text.count("\n", 0, found.start(1)) + 1, found[1].splitlines()))]


@scenario("docs/llm.md: the gateway does as the page says", node=False)
def _(place):
    text = PAGE.read_text(encoding="utf-8")
    files = dict(re.findall(r"^```yaml llm (\S+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))
    need(len(files["gateway.yaml"].splitlines()) <= LINES_MAX, f"the gateway has more than {LINES_MAX} lines")
    folder = place.world.folder
    listen, admin, redis = free_port(), free_port(), place.redis()
    private = {"127.0.0.1:8080": f"127.0.0.1:{listen}", "127.0.0.1:3000": f"127.0.0.1:{place.provider.port}",
               "127.0.0.1:6379": f"127.0.0.1:{redis.port}"}

    def privately(shown):
        return re.sub("|".join(map(re.escape, private)), lambda found: private[found[0]], shown)

    for name, content in files.items():
        (folder / name).write_text(privately(content) + (f"admin: 127.0.0.1:{admin}\n" if name == "gateway.yaml"
                                                         else ""))
    (folder / "jwt.secret").write_text(SECRET)
    (folder / "jwt.secret").chmod(0o600)
    checked = subprocess.run([place.program, "check", "-c", folder / "gateway.yaml"], capture_output=True, text=True,
                             check=False, timeout=60)
    need(re.fullmatch(r"ok: [^\n]*\n", checked.stdout) and not checked.stderr, "check:", checked.stdout, checked.stderr)
    place.world.start([place.program, "run", "-c", folder / "gateway.yaml"],
                      stderr=open(folder / "gateway.err", "wb"), stdout=subprocess.DEVNULL)
    until(lambda: accepts(listen), 20, "the gateway")
    (folder / "bin").mkdir()
    os.symlink(place.program, folder / "bin/tidegate")
    readme.PROGRAM = str(folder / "bin/tidegate")
    shell = readme.Shell(folder)
    try:
        shell.run(f"cd {folder}")
        for number, command, expected in commands(text):
            said = readme.check(shell, privately(command), expected)
            need(said is None, f"{PAGE.name}:{number}: {command}\n  expected:", "\n".join(expected), "\n  but it said:",
                 said)
    finally:
        shell.close()
