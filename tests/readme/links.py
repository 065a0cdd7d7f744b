#!/usr/bin/env python3
"""Follows the links between the documents of the repository: links.py

Each link to a file must lead to one that is there, and each `#heading` to a heading of that document,
spelled as GitHub makes anchors of headings. Links to the web are not followed. The index, docs/README.md,
must have a link to every page of docs.
"""

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INDEX = "docs/README.md"
LINK = re.compile(r"\]\(([^()\s]+)\)")
HEADING = re.compile(r"#{1,6} +(.*?) *")
FENCE = re.compile(r"```.*?^```", re.MULTILINE | re.DOTALL)


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return FENCE.sub("", file.read())


def anchors(path):
    """The anchors of a document's headings."""
    found = set()
    for line in text_of(path).splitlines():
        heading = HEADING.fullmatch(line)
        if heading:
            words = re.sub(r"[^\w\- ]", "", heading[1].lower())
            found.add(words.replace(" ", "-"))
    return found


def faults(path):
    for target in LINK.findall(text_of(path)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
        if not os.path.exists(file):
            yield f"{path}: {target}: no such file"
        elif anchor and anchor not in anchors(file):
            yield f"{path}: {target}: {file} has no such heading"


def faults_of_index(pages):
    """Pages of docs that the index does not have."""
    linked = {target.partition("#")[0] for target in LINK.findall(text_of(INDEX))}
    for page in pages:
        folder, name = os.path.split(page)
        if folder == "docs" and page != INDEX and name not in linked:
            yield f"{INDEX} has no link to {page}"


def main():
    os.chdir(ROOT)
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
                            capture_output=True, text=True, check=True).stdout.split()
    there = [path for path in listed if os.path.exists(path)]
    found = [*(fault for path in there for fault in faults(path)), *faults_of_index(there)]
    print("\n".join(found) if found else f"the links of {len(listed)} documents lead somewhere")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
