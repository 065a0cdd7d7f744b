"""Counts access log lines by (route, code, outcome) until standard input ends: prints JSON."""

import collections
import json
import re
import sys

# Quotes inside a client's own text are escaped, so these stand only where the log put them.
LINE = re.compile(rb'"route":"([^"]*)".*?"status":(\d+),"outcome":"(\w+)"')


def main():
    counts = collections.Counter()
    lines = 0
    rest = b""
    while block := sys.stdin.buffer.read1(1 << 20):
        whole, newline, rest = (rest + block).rpartition(b"\n")
        lines += whole.count(b"\n") + len(newline)
        counts.update(LINE.findall(whole))
    named = [[(route or b"-").decode(), "-" if status == b"0" else status.decode(),
              outcome.decode(), count] for (route, status, outcome), count in counts.items()]
    json.dump({"lines": lines, "unfinished": len(rest), "counts": named}, sys.stdout)


if __name__ == "__main__":
    main()
