#!/usr/bin/env python3
"""Holds docs/code-index.md, which says in which file each behaviour is decided, to what is there: code_index.py

- Each row names one or two files of src, lua or dashboard, and they are there. A function that a row names is in its
  file. A second file has a word before it that says what it does: `key:`, `Redis:`.
- Each row begins with the name of its section, so that a line of grep says enough.
- Each source of src and lua has a row. `x.cpp` stands for `x.hpp` as well.
- Each page of docs, and each heading of a page, is linked at the head of a section ("Described in: ..."), unless
  WITHOUT_CODE says why no file decides what it is about.
- Metrics that rows name are in docs/monitoring.md.
- Sections of a chapter, and rows of a section, are in alphabetic order, and none is there twice.

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
PLACE = re.compile(r"<!-- reference ([^\n]+): begin -->\n(.*?)<!-- reference \1: end -->", re.DOTALL)

# `app/life.cpp: run()`, with the word before it.
FILE = re.compile(r"(?:(?P<word>[A-Z]?[^`:;]+): )?`(?P<path>[^`: ]+)(?:: (?P<function>\w+)\(\))?`")

# Pages and headings about which no file of src or lua decides anything, and why.
WITHOUT_CODE = {
    "README.md": "what the pages say at length",
    "docs/README.md": "the index of pages",
    "docs/code-index.md": "this index",
    "docs/performance.md": "figures, which scripts/bench measures",
    "docs/performance-debian13.md": "figures, which scripts/bench measures",
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
    "docs/llm.md#calls-that-take-no-tokens": "routes of the example",
    "docs/llm.md#what-it-costs": "figures, which scripts/bench measures",
    "docs/llm.md#what-others-promise": "other products",
    "docs/security.md#what-it-does-not-promise": "what Tidegate does not do",
    "docs/security.md#what-the-build-adds": "cmake/hardening.cmake",
    "docs/security.md#how-to-report": "no behaviour",
}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def text_of(path):
    return FENCE.sub("", read(path))


def anchor_of(heading):
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def listed(*patterns):
    done = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
                          capture_output=True, text=True, check=True)
    return [path for path in done.stdout.split() if os.path.exists(path)]


def cells_of(line):
    return [cell.strip() for cell in CELLS.split(line)]


def sections():
    """Number of the line, chapter, name, head and rows of each section; a row is its line's number and its cells."""
    chapter, section = None, None
    for number, line in enumerate(text_of(INDEX).splitlines(), 1):
        cells = cells_of(line)
        if line.startswith("## "):
            chapter = line[3:]
        elif line.startswith("### "):
            if section:
                yield section
            section = (number, chapter, line[4:], [], [])
        elif section and line.startswith("Described in: "):
            section[3].append(line)
        elif section and len(cells) == 5 and cells[3] not in ("File", "---"):
            section[4].append((number, *cells[1:4]))
    if section:
        yield section


def path_of(name):
    return name if name.startswith(("lua/", "dashboard/")) else f"src/{name}"


def unit_of(path):
    """The text of a file, and of its header."""
    stem = os.path.splitext(path)[0]
    return "".join(read(stem + end) for end in (".cpp", ".hpp", ".lua", ".js") if os.path.isfile(stem + end))


def order_of(what):
    return re.sub(r"[^a-z0-9 ]", "", what.lower())


def faults_of_files_of(place, cell, named):
    files = [file.groupdict() for file in FILE.finditer(cell)]
    if not 1 <= len(files) <= 2 or FILE.sub("", cell).strip() not in ("", ";"):
        yield f"{place}: a row names one file, or `one`; and what it does: `another`: {cell}"
    for position, file in enumerate(files):
        path = path_of(file["path"])
        named.add(os.path.splitext(path)[0])
        if not os.path.isfile(path):
            yield f"{place}: there is no file {path}"
        elif file["function"] and not re.search(rf"\b{file['function']}\(", unit_of(path)):
            yield f"{place}: {path} has no function {file['function']}()"
        if bool(file["word"]) != bool(position):
            yield f"{place}: the first file decides; a word says of the second what it does: {cell}"


def faults_of_rows(named):
    last_chapter, last_section = None, None
    for number, chapter, name, head, rows in sections():
        if chapter == last_chapter and order_of(name) <= order_of(last_section):
            yield f"{INDEX}:{number}: the section `{name}` belongs before `{last_section}`"
        if len(head) != 1 or not rows:
            yield f"{INDEX}:{number}: the section `{name}` has a line `Described in: ...`, and rows"
        last_chapter, last_section, last = chapter, name, None
        for line, section, what, files in rows:
            place = f"{INDEX}:{line}"
            if section != name:
                yield f"{place}: the row is of the section `{name}`, not `{section}`"
            if last is not None and order_of(what) < order_of(last):
                yield f"{place}: `{what}` belongs before `{last}`"
            if what == last:
                yield f"{place}: `{what}` is in this section twice"
            yield from faults_of_files_of(place, files, named)
            last = what


def faults_of_files(named):
    for path in listed("src/*.cpp", "src/*.hpp", "lua/*.lua"):
        if os.path.splitext(path)[0] not in named:
            yield f"{INDEX} has no row with {path}: write what a user would ask about it"


def faults_of_pages():
    linked = {os.path.normpath(os.path.join("docs", target)) for section in sections() for head in section[3]
              for target in LINK.findall(head)}
    pages_linked = {target.partition("#")[0] for target in linked}
    unused = set(WITHOUT_CODE)
    for page in ["README.md", *listed("docs/*.md")]:
        if os.path.dirname(page) not in ("", "docs"):
            continue
        if page in WITHOUT_CODE:
            unused.discard(page)
            continue
        if page not in pages_linked:
            yield f"{INDEX} has no section about {page}"
        for heading in HEADING.findall(text_of(page)):
            place = f"{page}#{anchor_of(heading)}"
            if place in WITHOUT_CODE and place not in linked:
                unused.discard(place)
            elif place not in linked:
                yield (f"{INDEX} has no section about `{heading}` of {page}: link it in the line `Described in` of the "
                       "section whose files decide what it says")
    for place in sorted(unused):
        yield f"tests/readme/code_index.py: WITHOUT_CODE: {place}: it is not there, or {INDEX} links it"


def names_of(page, places):
    """The first cells of the tables of a reference."""
    for place, table in PLACE.findall(read(page)):
        if place.split()[0] == places:
            for line in table.splitlines():
                name = re.match(r"\| `([^`]+)` \|", line)
                if name:
                    yield name[1]


def faults_of_names():
    """Metrics that are there no more. That a new name gets a row is left to its author: a change of a metric or a key
    has files enough to touch."""
    known = set(names_of("docs/monitoring.md", "metrics"))
    if not known:
        yield "tests/readme/code_index.py finds no metric in docs/monitoring.md"
    for section in sections():
        if not section[2].startswith("metric"):
            continue
        for row in section[4]:
            for word in CODE.findall(row[2]):
                if re.fullmatch("tidegate_[a-z_]+[a-z]", word) and word not in known:
                    yield f"{INDEX} has a row with the metric `{word}`, which docs/monitoring.md does not have"


def main():
    os.chdir(ROOT)
    named = set()
    found = [*faults_of_rows(named), *faults_of_files(named), *faults_of_pages(), *faults_of_names()]
    rows = sum(len(section[4]) for section in sections())
    print("\n".join(found) if found else f"{rows} rows of {INDEX} name {len(named)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
