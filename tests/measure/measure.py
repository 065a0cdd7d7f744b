"""How the source is cut, and how many files a usual change touches: measure.py [--check | --list ROW]

Prints a line for each row: its value and its bound, from tests/measure/bounds.txt. --check prints what
is wrong: a row that has left its bound, and a sample of touches.py that is no longer there; the exit
code is 1 then. It also hints at bounds that can be tightened, which is no fault. --list prints what a
row counts, where these are files, headers with their user, functions or rows of a table.

source.py and touches.py have the rules by which is counted.
"""

import os
import re
import sys
from collections import namedtuple
from statistics import median

from source import Source, by_hand, files_beginning, rows_by_hand
from touches import SAMPLES, SCHEMA, Touches

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BOUNDS = "tests/measure/bounds.txt"
FILE_LINES_MAX = 700
FUNCTION_LINES_MAX = 70
# How a bound may move, as bounds.txt says it.
MOVES = {
    "falls": "which only falls",
    "features": f"which only a feature raises, in its own commit, with the reason in {BOUNDS}",
    "grows": "which only grows",
}
# A bound that features may raise is worth tightening when the value is so much below it, in percent.
CLEARLY = 1
BY_PROGRAM = "have a program write it"

# `advice`: how the value gets better. `items`: what is counted, where that can be listed.
Row = namedtuple("Row", "name value advice items", defaults=[()])


def counted(name, items, advice):
    return Row(name, len(items), advice, items)


def rows_of_source(source):
    paths = list(source.lines)
    return [
        Row("files in src", len(paths), "put the text into the file of the same idea"),
        Row("lines of src", source.line_count(), "say it once, and shorter"),
        Row("median lines of a file", median(map(len, source.lines.values())),
            "fold small files of one idea"),
        counted("headers with one user", source.headers_with_one_user(),
                "move the text of such a header into its user"),
        Row("frame in headers, percent", source.frame_share(source.headers),
            "fold small headers that are used together"),
        Row("frame in src, percent", source.frame_share(paths), "fold small files of one idea"),
        counted(f"files of more than {FILE_LINES_MAX} lines", source.long_files(FILE_LINES_MAX),
                "cut such a file where its second idea begins"),
        counted(f"functions of more than {FUNCTION_LINES_MAX} lines",
                source.long_functions(FUNCTION_LINES_MAX), "cut such a function into its steps"),
        Row("lines of src/config", source.line_count("src/config/"), "say it once, and shorter"),
    ]


def rows_of_reference():
    return [
        counted("lines of the JSON Schema by hand", by_hand(SCHEMA).splitlines(), BY_PROGRAM),
        counted("rows of keys by hand", rows_by_hand("docs/configuration.md", "| Key | What"),
                BY_PROGRAM),
        counted("rows of metrics by hand", rows_by_hand("docs/monitoring.md", "| Metric |"),
                BY_PROGRAM),
        counted("files of tests/config_bad", files_beginning("tests/config_bad/"),
                "add the case to a file that is there"),
    ]


def rows_of_touches(touches):
    return [
        Row(f"touches: {kind}", touches.count(kind), "say it in fewer of these files",
            [f"{sample}: {path}" for sample, paths in touches.files(kind).items() for path in paths])
        for kind in SAMPLES
    ]


class Bound:
    """A line of bounds.txt: `NAME  VALUE  falls|features|grows  REASON`."""

    def __init__(self, line):
        found = re.fullmatch(rf"(\S.*?)  +([\d.]+)  +({'|'.join(MOVES)})  +\S.*", line)
        if not found:
            sys.exit(f"{BOUNDS}: not a bound: {line}")
        self.name, self.value, self.moves = found[1], float(found[2]), found[3]

    def words(self):
        return f"at {'least' if self.moves == 'grows' else 'most'} {self.value:.10g}"

    def fault(self, row):
        """What is wrong with the row, or nothing."""
        is_left = row.value < self.value if self.moves == "grows" else row.value > self.value
        listed = f". They are listed by: scripts/measure --list '{row.name}'" if row.items else ""
        return (f"{row.name}: {row.value:.10g}, and the bound is {self.value:.10g}, {MOVES[self.moves]}: "
                f"{row.advice}{listed}") if is_left else None

    def hint(self, row):
        """How the bound can be tightened, or nothing."""
        better = row.value - self.value if self.moves == "grows" else self.value - row.value
        slack = self.value * CLEARLY / 100 if self.moves == "features" else 0
        return (f"hint: {row.name}: {row.value:.10g} is better than the bound, {self.value:.10g}: tighten it in "
                f"{BOUNDS}, in the commit that made it better") if better > slack else None


def read_bounds():
    with open(BOUNDS, encoding="utf-8") as file:
        lines = [line.rstrip() for line in file if line.strip() and not line.startswith("#")]
    return {bound.name: bound for bound in map(Bound, lines)}


def check(rows, bounds, touches):
    """Prints what is wrong, and the hints; the exit code."""
    names = {row.name for row in rows}
    faults = [fault for row in rows if row.name in bounds and (fault := bounds[row.name].fault(row))]
    faults += [f"{row.name}: {BOUNDS} has no bound for it: add {row.value:.10g}"
               for row in rows if row.name not in bounds]
    faults += [f"{BOUNDS}: `{name}` is not measured: remove it" for name in bounds if name not in names]
    faults += touches.faults()
    hints = [hint for row in rows if row.name in bounds and (hint := bounds[row.name].hint(row))]
    print("\n".join(faults + hints + ([] if faults else [f"{len(rows)} rows keep their bounds"])))
    return 1 if faults else 0


def list_items(rows, name):
    chosen = [row for row in rows if row.name == name and row.items]
    if not chosen:
        names = "\n".join(row.name for row in rows if row.items)
        sys.exit(f"scripts/measure: nothing to list of {name!r}; there is:\n{names}")
    print("\n".join(chosen[0].items))


def main():
    os.chdir(ROOT)
    touches = Touches()
    rows = [*rows_of_source(Source()), *rows_of_reference(), *rows_of_touches(touches)]
    bounds = read_bounds()
    arguments = sys.argv[1:]
    if arguments == ["--check"]:
        return check(rows, bounds, touches)
    if arguments[:1] == ["--list"] and len(arguments) == 2:
        list_items(rows, arguments[1])
    elif arguments:
        sys.exit(__doc__.strip())
    else:
        for row in rows:
            bound = bounds[row.name].words() if row.name in bounds else "no bound"
            print(f"{row.name:38} {row.value:>9.10g}   {bound}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
