#!/usr/bin/env python3
"""Holds docs/code-index.md, which says in which file each behaviour is decided, to what is there: code_index.py

- Each row names one or two files of src, lua or dashboard, and they are there.
- Each source of src and lua has a row. `x.cpp` stands for `x.hpp` as well.
- Each page of docs, and each heading of a page, is linked in the column of sections, unless WITHOUT_CODE
  says why no file decides what it is about.
- The rows of a section are in alphabetic order, and none is there twice.

That a row names the right file no program can tell. A change that moves a behaviour to another file changes its row.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INDEX = "docs/code-index.md"
FENCE = re.compile(r"```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#{2,6} +(.*?) *$", re.MULTILINE)
LINK = re.compile(r"\]\(([^()\s]+)\)")
CELLS = re.compile(r"(?<!\\)\|")
CODE = re.compile(r"`([^`]+)`")

# Pages and headings about which no file of src or lua decides anything, and why.
WITHOUT_CODE = {
    "README.md": "what the pages say at length",
    "docs/README.md": "the index of pages",
    "docs/code-index.md": "this index",
    "docs/performance.md": "figures, which scripts/bench measures",
    "docs/performance-transport.md": "figures, which scripts/bench measures",
    "docs/testing.md": "tests and scripts",
    "docs/moving.md": "settings of other products, which tests/moving compares",
    "docs/controllers.md#what-is-checked": "scripts/controllers",
    "docs/getting-started.md#what-else-there-is": "links",
    "docs/install.md#where-to-go-from-here": "links",
    "docs/kubernetes.md#installing": "the chart in deploy/helm",
    "docs/kubernetes.md#ingress-and-gateway-api": "the chart in deploy/helm",
    "docs/kubernetes.md#the-pods": "the chart in deploy/helm",
    "docs/kubernetes.md#who-reaches-them": "the chart in deploy/helm",
    "docs/kubernetes.md#an-upgrade": "the chart in deploy/helm",
    "docs/llm.md#from-nothing-to-a-gateway": "an example of the sections behind it",
    "docs/llm.md#what-it-costs": "figures, which scripts/bench measures",
    "docs/llm.md#what-others-promise": "other products",
    "docs/security.md#what-it-does-not-promise": "what Tidegate does not do",
    "docs/security.md#what-the-build-adds": "cmake/hardening.cmake",
    "docs/security.md#how-to-report": "no behaviour",
}


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return FENCE.sub("", file.read())


def anchor_of(heading):
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def listed(*patterns):
    done = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
                          capture_output=True, text=True, check=True)
    return [path for path in done.stdout.split() if os.path.exists(path)]


def rows():
    """Number of the line, cell of sections, what, and files of each row."""
    for number, line in enumerate(text_of(INDEX).splitlines(), 1):
        cells = [cell.strip() for cell in CELLS.split(line)]
        if len(cells) == 5 and cells[3] not in ("File", "---"):
            yield number, cells[1], cells[2], CODE.findall(cells[3])


def path_of(name):
    return name if name.startswith(("lua/", "dashboard/")) else f"src/{name}"


def order_of(what):
    return re.sub(r"[^a-z0-9 ]", "", what.lower())


def faults_of_rows(named):
    last, seen = None, set()
    for number, section, what, files in rows():
        place = f"{INDEX}:{number}"
        if section:
            last, seen = None, set()
        if not 1 <= len(files) <= 2:
            yield f"{place}: a row names one file, or two: {what}"
        for name in files:
            if not os.path.isfile(path_of(name)):
                yield f"{place}: there is no file {path_of(name)}"
            named.add(os.path.splitext(path_of(name))[0])
        if last is not None and order_of(what) < order_of(last):
            yield f"{place}: `{what}` belongs before `{last}`"
        for term in what.split("; "):
            if term in seen:
                yield f"{place}: `{term}` is in this section twice"
            seen.add(term)
        last = what


def faults_of_files(named):
    for path in listed("src/*.cpp", "src/*.hpp", "lua/*.lua"):
        if os.path.splitext(path)[0] not in named:
            yield f"{INDEX} has no row with {path}: write what a user would ask about it"


def faults_of_pages():
    linked = {os.path.normpath(os.path.join("docs", target)) for _, section, _, _ in rows()
              for target in LINK.findall(section)}
    pages_linked = {target.partition("#")[0] for target in linked}
    unused = set(WITHOUT_CODE)
    for page in ["README.md", *listed("docs/*.md")]:
        if os.path.dirname(page) not in ("", "docs"):
            continue
        if page in WITHOUT_CODE:
            unused.discard(page)
            continue
        if page not in pages_linked:
            yield f"{INDEX} has no row about {page}"
        for heading in HEADING.findall(text_of(page)):
            place = f"{page}#{anchor_of(heading)}"
            if place in WITHOUT_CODE and place not in linked:
                unused.discard(place)
            elif place not in linked:
                yield (f"{INDEX} has no row about `{heading}` of {page}: link it in the column of sections, beside "
                       "the files that decide what it says")
    for place in sorted(unused):
        yield f"tests/readme/code_index.py: WITHOUT_CODE: {place}: it is not there, or {INDEX} links it"


def main():
    os.chdir(ROOT)
    named = set()
    found = [*faults_of_rows(named), *faults_of_files(named), *faults_of_pages()]
    print("\n".join(found) if found else f"{sum(1 for _ in rows())} rows of {INDEX} name {len(named)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
