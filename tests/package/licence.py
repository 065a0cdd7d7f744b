#!/usr/bin/env python3
"""All places that name the licence name the one that LICENSE names by its SPDX identifier.

The owner who chooses another licence changes LICENSE, and this test lists the other files to change. Each
test is a line that begins with `ok  `.
"""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCE = ("LICENSE", r"^SPDX-License-Identifier: (\S+)$")
# packaging/sbom reads LICENSE.
OTHERS = [
    ("README.md", r"^(\S+): \[LICENSE\]\(LICENSE\)"),
    ("debian/copyright", r"^License: (\S+)$"),
    ("docker/Dockerfile", r"org\.opencontainers\.image\.licenses=(\S+)"),
    ("deploy/helm/Chart.yaml", r"^  artifacthub\.io/license: (\S+)$"),
]


def named_in(path, pattern):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return set(re.findall(pattern, file.read(), re.MULTILINE))


def main():
    licence = named_in(*SOURCE)
    if len(licence) != 1:
        sys.exit(f"FAIL LICENSE names {len(licence)} licences by SPDX-License-Identifier, not one")
    failed = False
    for path, pattern in OTHERS:
        named = named_in(path, pattern)
        failed |= named != licence
        print(f"ok   {path} names the licence" if named == licence else
              f"FAIL {path} names {sorted(named) or 'no licence'}, and LICENSE names {sorted(licence)}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
