"""The files of the source, and how they are cut. All paths are relative to the root.

- A header has one user if exactly one file of src includes it beside its own .cpp. Tests and
  benchmarks are no users: they include what they test.
- Frame is a line that says nothing about the program: blank, #include, #pragma, `using`, the begin
  and the end of a namespace.
- A function's lines are those from its name to its closing brace. What its lambdas hold belongs to it.
- Written by hand is what no program writes. A file that a program writes has the words `Written by
  scripts/NAME` in its first six lines (a JSON file in `$comment`), and a page has what a program writes
  between `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
"""

import glob
import os
import re
from bisect import bisect_right
from collections import defaultdict

INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)
FRAME = re.compile(r"\s*$|\s*#\s*(include|pragma)\b|\s*(inline )?namespace\b|\s*using\b"
                   r"|\}+\s*// (anonymous )?namespace")
WRITTEN_FILE = re.compile(r"[Ww]ritten by `?scripts/")
WRITTEN_PART = re.compile(r"<!-- ([^\n]*): begin -->.*?<!-- \1: end -->", re.DOTALL)
# What may hold braces that are none of the code's. A quote between digits is part of a number.
NO_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"
                     |(?<!\w)'(?:\\.|[^'\\\n])*'|^[ \t]*\#[^\n]*""",
                     re.DOTALL | re.MULTILINE | re.VERBOSE)
NAME_OF_FUNCTION = re.compile(r"([\w:~]+|operator\W+)\s*\(")
NO_FUNCTION = re.compile(r"\b(class|struct|enum|union|namespace)\b(?![^<]*>)")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def files_beginning(place):
    """Every file whose path begins like that, in order."""
    found = [path for path in glob.glob(place + "*") if os.path.isfile(path)]
    for folder in glob.glob(place + "*"):
        found += [os.path.join(where, name) for where, _, names in os.walk(folder) for name in names]
    return sorted(found)


def by_hand(path):
    """What is written by hand of a file."""
    text = read(path)
    if WRITTEN_FILE.search("\n".join(text.splitlines()[:6])):
        return ""
    return WRITTEN_PART.sub("", text) if path.endswith(".md") else text


def rows_by_hand(path, heading):
    """The rows of the tables of a page whose first line begins with `heading`."""
    rows, is_counted, before = [], False, ""
    for line in by_hand(path).splitlines():
        if line.startswith("|") and not before.startswith("|"):
            is_counted = line.startswith(heading)
        elif line.startswith("|") and is_counted and not line.startswith("| ---"):
            rows.append(line)
        before = line
    return rows


class Source:
    """The .cpp and .hpp files of src."""

    def __init__(self):
        self.texts = {path: read(path) for path in files_beginning("src/")
                      if path.endswith((".cpp", ".hpp"))}
        self.lines = {path: text.splitlines() for path, text in self.texts.items()}
        self.headers = [path for path in self.texts if path.endswith(".hpp")]

    def line_count(self, folder="src/"):
        return sum(len(lines) for path, lines in self.lines.items() if path.startswith(folder))

    def headers_with_one_user(self):
        """`HEADER < USER` of each."""
        users = defaultdict(set)
        for path, text in self.texts.items():
            for included in INCLUDE.findall(text):
                users["src/" + included].add(path)
        found = []
        for header in self.headers:
            others = users[header] - {header.removesuffix(".hpp") + ".cpp"}
            if len(others) == 1:
                found.append(f"{header} < {others.pop()}")
        return found

    def frame_share(self, paths):
        """Of the lines of these files, in percent."""
        lines = [line for path in paths for line in self.lines[path]]
        return round(100 * sum(1 for line in lines if FRAME.match(line)) / len(lines), 1)

    def long_files(self, lines_max):
        return [f"{path}: {len(lines)} lines" for path, lines in self.lines.items()
                if len(lines) > lines_max]

    def long_functions(self, lines_max):
        """But for the tables of keys, which are functions to C++ alone."""
        return [f"{path}:{first}: {name}, {lines} lines" for path, text in self.texts.items()
                for first, name, lines in functions(text)
                if lines > lines_max and not name.endswith("_keys")]


def functions(text):
    """(line, name, lines) of each function that is defined in a text."""
    code = NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), text)
    line_ends = [end.start() for end in re.finditer("\n", code)]
    head = parentheses = 0
    around = []  # of each open block: how many parentheses are open around it
    function = None  # (open blocks around its body, where its name is, its name)
    for token in re.finditer(r"[(){};]", code):
        here = token.start()
        if token[0] in "()":
            parentheses += 1 if token[0] == "(" else -1
            continue
        if token[0] == "{":
            name = name_of_function(code[head:here]) if not (function or parentheses) else None
            if name:
                function = (len(around), head + name.start(), name[1])
            around.append(parentheses)
            parentheses = 0
            continues = around[-1]
        elif token[0] == "}" and around:
            parentheses = continues = around.pop()
            if function and function[0] == len(around):
                _, begin, name = function
                first = bisect_right(line_ends, begin) + 1
                yield first, name, bisect_right(line_ends, here) + 2 - first
                function = None
        else:
            continues = parentheses
        if not continues:
            head = here + 1


def name_of_function(head):
    """Where a block of a namespace or a class has its name, if it is a function's body."""
    found = NAME_OF_FUNCTION.search(head)
    if not found or "=" in head[:found.start()] or NO_FUNCTION.search(head[:found.start()]):
        return None
    if found[1].isupper():  # a macro
        return None
    return found
