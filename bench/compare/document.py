#!/usr/bin/env python3
"""Makes a page of measured figures, and its drawings: document.py [--check] FILE

docs/performance.md; docs/performance-debian13.md, where FILE has rows of Debian 13; or
docs/performance-transport.md, where it has rounds of `--tls`, `--http2`, `--grpc` and `--tunnels` only.
"""

import argparse
import functools
import json
import pathlib
import sys

import debian13
import drawing
from figures import (COLUMNS, HEADINGS, IDLE_EACH, ONCE, TITLES, goals_reached, growth_points,
                     idle_grown_mib, median, rounds_of, rows_in, shown)
from load import IDLE_CLIENTS
from machine import ROOT
from words import (COMMANDS_WORDS, COMPARISON, GROWTH_WORDS, HEAD, HEAD_OF_NEWER_PEERS, HEAD_OF_TRANSPORT,
                   METHOD, METHOD_OF_TRANSPORT, SUMMARY_NOTES, SUMMARY_NOTES_OF_NEWER_PEERS,
                   SUMMARY_NOTES_OF_TRANSPORT, WORDS)

DOCS = ROOT / "docs"
DRAWINGS = DOCS / "performance"

# Tidegate's row, a peer's that does the same or less, in which parts.
RIVALS = (
    ("tidegate", "nginx"), ("tidegate", "haproxy"),
    ("tidegate-memory", "nginx-limit-req"), ("tidegate-memory", "haproxy-stick-table"),
    ("tidegate-redis", "nginx-lua-redis"), ("tidegate-redis", "node-redis"),
    ("tidegate-memory-denied", "nginx-limit-req-denied"),
    ("tidegate-memory-denied", "haproxy-stick-table-denied"),
    ("tidegate-redis-denied", "haproxy-stick-table-denied"),
    ("tidegate-redis-denied", "nginx-lua-redis-denied"),
    ("nginx-tidegate", "nginx-limit-req"), ("nginx-tidegate-denied", "nginx-limit-req-denied"),
    *((f"tidegate-{row}", f"{peer}-{row}") for row in ("tls", "h2", "tunnel", "tunnel-tls")
      for peer in ("nginx", "haproxy")),
)
CLEARLY = 1.03  # by less, neither is called better

# The table that opens the page: of each line its words, and the rows of Tidegate, nginx, HAProxy and
# Express in the first part, each with what it does where that differs.
SUMMARY = (
    ("no limits", "tidegate", "nginx", "haproxy", None),
    ("counted in process", ("tidegate-memory", "2 x 3"), ("nginx-limit-req", "`limit_req`, 2 x 1"),
     ("haproxy-stick-table", "stick tables, 2 x 1"), None),
    ("counted in Redis", ("tidegate-redis", "2 x 3"), ("nginx-lua-redis", "Lua, 2 x 3"), None,
     ("node-redis", "2 x 1")),
    ("all denied, in process", "tidegate-memory-denied", ("nginx-limit-req-denied", "`limit_req`"),
     ("haproxy-stick-table-denied", "stick tables"), None),
    ("all denied, with Redis", "tidegate-redis-denied", ("nginx-lua-redis-denied", "Lua"), None, None),
)
# The same of the other page: part, suffix of the rows, column, unit.
SUMMARY_OF_TRANSPORT = (
    ("new TLS connection with one request", "tls-new", "tls", "proxy_us", "us"),
    ("resumed TLS connection with one request", "tls-resumed", "tls", "proxy_us", "us"),
    ("request over TLS", "tls-kept", "tls", "proxy_us", "us"),
    ("request in HTTP/2, 8 x 10 streams", "h2-wide", "h2", "proxy_us", "us"),
    ("call of gRPC, 8 x 10 streams", "grpc-wide", "grpc", "proxy_us", "us"),
    ("message of a WebSocket, there and back", "tunnel-echo", "tunnel", "proxy_us", "us"),
    ("idle TLS connection", "tls-idle", "tls", "idle_kib", "KiB"),
    ("idle HTTP/2 connection over TLS", "h2-idle", "h2", "idle_kib", "KiB"),
    ("idle WebSocket", "tunnel-idle", "tunnel", "idle_kib", "KiB"),
)


def table(headings, rows):
    lines = ["| " + " | ".join(headings) + " |",
             "| --- |" + " ---: |" * (len(headings) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def machine_table(report):
    machine = report["machine"]
    named = {
        "Machine": f"{machine['cpus']} CPUs ({machine['cpu']}), {machine['memory_gib']} GiB, "
                   f"{machine['system']}, Linux {machine['kernel']}",
        "Measured": f"{machine['date']}, load average {machine['load']:.1f} when it began",
        "Versions": ", ".join(f"{name} {version}" for name, version in report["versions"].items()),
    }
    return "".join(f"| {name} | {words} |\n" for name, words in named.items())


def summary_cell(report, what):
    if what is None:
        return "-"
    row, note = what if isinstance(what, tuple) else (what, "")
    rps, cpu = (median(report, "saturated", row, column) for column in ("rps", "proxy_us"))
    if rps is None:
        return "-"
    return f"{rps:,.0f}; {cpu:.1f} us" + (f" ({note})" if note else "")


def summary(report):
    rows = [(words, *(summary_cell(report, what) for what in line)) for words, *line in SUMMARY]
    return table(("", "Tidegate", "nginx", "HAProxy", "Express"), rows)


# Where Redis decides: rows with one I/O thread and with two.
IO_THREADS = (("tidegate-redis", None),
              ("tidegate-redis-debian13", "tidegate-redis-io-threads-debian13"),
              ("tidegate-valkey-debian13", "tidegate-valkey-io-threads-debian13"))


def io_threads_table(report):
    def cells(row):
        found = [median(report, "saturated", row, column) if row else None for column in ("redis_us", "rps")]
        return ["-" if value is None else f"{value:,.{digits}f}{unit}"
                for value, digits, unit in zip(found, (1, 0), (" us", ""))]
    rows = [(report["labels"][plain].split(", ")[1], *cells(plain), *cells(threaded))
            for plain, threaded in IO_THREADS]
    return table(("", "one I/O thread", "req/s", "`io-threads 2`", "req/s"), rows)


def summary_of_transport(report):
    rows = []
    for words, part, suffix, column, unit in SUMMARY_OF_TRANSPORT:
        found = (median(report, part, f"{proxy}-{suffix}", column)
                 for proxy in ("tidegate", "nginx", "haproxy"))
        rows.append((words, *("-" if value is None else f"{value:.1f} {unit}" for value in found)))
    return table(("", "Tidegate", "nginx", "HAProxy"), rows) + SUMMARY_NOTES_OF_TRANSPORT


def goals_section(report):
    """The goals that were met, then, at the end of the page, those that were not."""
    missed = ("not met", "stretch not met")
    return ("\n## What was met\n\nRatios within one run, Tidegate's figure in parts of the "
            "other's.\n\n" + goals_table(report, lambda words: words not in missed)
            + "\n## What was not met\n\n" + goals_table(report, lambda words: words in missed))


def goals_table(report, wanted):
    rows = []
    for goal, value, words in goals_reached(report):
        if not wanted(words):
            continue
        sign = "at most" if goal.at_most else "at least"
        unit = "" if goal.unit == "x" else " " + goal.unit
        must = "-" if goal.must is None else f"{sign} {goal.must:g}{unit}"
        rows.append((goal.what, f"{value:.2f}{unit}", must, f"{goal.stretch:g}{unit}", words))
    return table(("", "measured", "goal", "stretch", ""), rows) if rows else "Nothing.\n"


def figures_table(report, part):
    columns = [column for column in COLUMNS if any(
        median(report, part, row, column) is not None for row in rows_in(report, part))]
    rows = [(report["labels"][row],
             *(shown(column, median(report, part, row, column)) for column in columns))
            for row in rows_in(report, part)]
    return table(("", *(HEADINGS[column] for column in columns)), rows)


def calls_table(report):
    rows = []
    for row in rows_in(report, "calls"):
        found = rounds_of(report, "calls", row)[-1]
        most = sorted(found["by_name"].items(), key=lambda item: -item[1])[:6]
        rows.append((report["labels"][row], f"{found['calls']:.2f}",
                     ", ".join(f"{name} {count:.2f}" for name, count in most)))
    return table(("", "calls", "which"), rows).replace("| ---: | ---: |", "| ---: | --- |")


def idle_table(report):
    rows = []
    for row in rows_in(report, "idle"):
        before, after = (median(report, "idle", row, name) for name in ("before_kib", "after_kib"))
        rows.append((report["labels"][row], f"{before / 1024:.1f}", f"{after / 1024:.1f}",
                     f"{(after - before) * 1024 / IDLE_CLIENTS:,.0f}"))
    return table(("", "MiB before", "MiB with them", "bytes each"), rows)


def checks_table(report):
    rows = [(report["labels"][row],
             f"{median(report, 'checks', row, 'unasked_percent'):.2f}",
             shown("proxy_us", median(report, "checks", row, "proxy_us")))
            for row in rows_in(report, "checks")]
    return table(("", "% of a CPU without requests", "proxy us a request"), rows)


def idle_each_table(report, part):
    rows = [(report["labels"][row], f"{median(report, part, row, 'idle_kib'):.1f}")
            for row in rows_in(report, part)]
    return table(("", "KiB each"), rows)


def figures_better(report, part, own, peer):
    """The figures of a part in which the peer beats Tidegate, each with Tidegate's behind it."""
    found = []
    for column in COLUMNS:
        ours, theirs = (median(report, part, row, column) for row in (own, peer))
        if ours is None or theirs is None or (part, column) == ("steady", "rps"):
            continue
        if (theirs / ours if column == "rps" else ours / theirs) > CLEARLY:
            found.append(f"{HEADINGS[column]} {shown(column, theirs)} ({shown(column, ours)})")
    return found


def idle_better(report, part, own, peer):
    """The same of idle connections, which have one figure."""
    if part == "idle":
        words = "MiB grown"
        ours, theirs = (idle_grown_mib(report, row) if rounds_of(report, part, row) else None
                        for row in (own, peer))
    else:
        words = "KiB each"
        ours, theirs = (median(report, part, row, "idle_kib") for row in (own, peer))
    return [f"{words} {theirs:.1f} ({ours:.1f})"] if ours and theirs and ours > theirs * CLEARLY else []


def peers_better(report):
    """Every figure in which a peer beats Tidegate, with both: a row for each part and peer."""
    rows = []
    for part in TITLES:
        if part in ONCE and part != "idle" and part not in IDLE_EACH:
            continue
        better = idle_better if part in ONCE else figures_better
        for own, peer in debian13.rivals(RIVALS):
            found = better(report, part, own, peer)
            if found:
                rows.append((TITLES[part], report["labels"][peer], report["labels"][own],
                             ", ".join(found)))
    return table(("", "peer", "Tidegate's row", "figures (Tidegate's)"), rows).replace(
        " ---: |", " --- |") if rows else "In nothing that was measured, by more than 3 in 100.\n"


# ---- growth

# Of fewer names than connections, requests of one name meet and are decided together.
MANY = 100
# What must hold of (series, column): "flat", or "linear" from the middle of its points on;
# with what words, and from which x on.
GROWTH = (
    ("identifiers-memory", "proxy_us", "flat", "CPU of the proxy a request, in process, by names"),
    ("identifiers-redis", "proxy_us", "flat", "CPU of the proxy a request, with Redis, by names",
     MANY),
    ("identifiers-redis", "redis_us", "flat", "CPU of Redis a request, by names", MANY),
    ("identifiers-memory", "grown_kib", "linear", "memory in process, by names"),
    ("identifiers-redis", "grown_kib", "linear", "memory of Redis, by names"),
    ("idle-tidegate", "grown_kib", "linear", "memory, by idle connections"),
    ("routes", "proxy_us", "flat", "CPU a request, by routes"),
    ("limits-memory", "proxy_us", "linear", "CPU of the proxy a request, in process, by limits"),
    ("limits-redis", "proxy_us", "linear", "CPU of the proxy a request, with Redis, by limits"),
    ("limits-redis", "redis_us", "linear", "CPU of Redis a request, by limits"),
    ("downloads-tidegate", "proxy_us", "linear", "CPU a body, by its bytes, from upstream"),
    ("downloads-haproxy", "proxy_us", "linear", "the same of HAProxy"),
    ("downloads-haproxy-splice", "proxy_us", "linear",
     "the same of HAProxy with `option splice-response`"),
    ("uploads-tidegate", "proxy_us", "linear", "CPU a body, by its bytes, to upstream"),
    ("uploads-haproxy", "proxy_us", "linear", "the same of HAProxy"),
    ("uploads-haproxy-splice", "proxy_us", "linear",
     "the same of HAProxy with `option splice-request`"),
    ("threads-memory", "proxy_us", "flat", "CPU a request, in process, by threads"),
    ("threads-redis", "proxy_us", "flat", "CPU of the proxy a request, with Redis, one name, by threads"),
    ("threads-redis", "redis_us", "flat", "CPU of Redis a request, one name, by threads"),
    ("threads-redis-two-names", "redis_us", "flat", "CPU of Redis a request, two names, by threads"),
    ("threads-redis", "upstream_us", "flat", "CPU of the upstream a request, one name, by threads"),
    ("threads-redis-two-names", "upstream_us", "flat",
     "CPU of the upstream a request, two names, by threads"),
)
FLAT = 1.25  # the most that the largest may cost, of what the smallest does: caches get colder
LINEAR = 1.3  # the most that a unit may cost more at the largest than in the middle


def growth_row(report, series, column, kind, words, least=0):
    """A line of the table: from where to where, and whether it is as it must be."""
    points = [point for point in growth_points(report, series, column) if point[0] >= least]
    if len(points) < 2:
        return None
    (first_x, first), (last_x, last) = points[0], points[-1]
    span = f"{first_x:,} to {last_x:,}", f"{amount(column, first)} to {amount(column, last)}"
    if kind == "flat":
        grown = last / first
        return words, *span, f"{grown:.2f} times", "flat" if grown <= FLAT else "**not flat**"
    # What one more costs shows only where it is more than what is there without any.
    middle_x, middle = points[(len(points) + 1) // 2]
    grown = last / middle
    by = last_x / middle_x
    good = grown <= by * LINEAR
    return words, *span, f"{grown:.1f} times for the last {by:.3g}-fold", \
        ("linear or less" if good else "**worse than linear**")


def amount(column, value):
    return f"{value / 1024:,.1f} MiB" if column.endswith("_kib") else f"{value:,.1f} us"


BY_THREADS = {"threads-redis": "one name", "threads-redis-two-names": "two names"}


def commands_section(report):
    """How many decisions share a command to Redis, by threads; empty when that was not measured."""
    found = {words: dict(growth_points(report, series, "scripts"))
             for series, words in BY_THREADS.items()}
    found = {words: points for words, points in found.items() if points}
    if not found:
        return ""
    rows = [(str(x), *(f"{1 / points[x]:.1f}" if x in points else "-" for points in found.values()))
            for x in sorted(set().union(*found.values()))]
    return COMMANDS_WORDS + table(("threads", *found), rows)


def growth_section(report, drawings):
    rows = [row for row in (growth_row(report, *what) for what in GROWTH) if row]
    if not rows:
        return ""
    lines = [GROWTH_WORDS, table(("", "from, to", "it takes", "growth", ""), rows),
             commands_section(report)]
    lines += [f"\n![Growth: {name}](performance/{name}.svg)\n"
              for name in drawing.DRAWINGS if f"{name}.svg" in drawings]
    return "".join(lines)


# ---- all of it

def drawn(report):
    """The drawings by file name."""
    found = {"comparison.svg": drawing.comparison(report)}
    for name in drawing.DRAWINGS:
        made = drawing.growth(report, name)
        if made:
            found[f"{name}.svg"] = made
    return found


TABLES = {"calls": calls_table, "idle": idle_table, "checks": checks_table,
          **{part: functools.partial(idle_each_table, part=part) for part in IDLE_EACH}}
TRANSPORT_PREFIXES = ("tls-", "h2-", "grpc-", "rls", "tunnel-")


def rounds(report, parts):
    """How many rounds the rows had, but for those that are measured once."""
    made = [max(len(rounds_of(report, part, row)) for row in rows_in(report, part))
            for part in parts if part not in ONCE]
    least, most = min(made, default=0), max(made, default=0)
    return str(most) if least == most else f"{least} to {most}"


def page(report, drawings, head, method):
    measured = [part for part in TITLES if rows_in(report, part)]
    parts = [head, "| | |\n| --- | --- |\n", machine_table(report),
             f"| Rounds | {rounds(report, measured)}, of {report['seconds']} s for each row |\n"]
    for part in measured:
        made = TABLES[part](report) if part in TABLES else figures_table(report, part)
        picture = COMPARISON if drawings and part == "saturated" else ""
        parts += [f"\n## {TITLES[part]}\n", WORDS[part], picture, "\n", made]
    parts += [growth_section(report, drawings),
              "\n## Where peers are better\n\nEvery figure in which a peer is ahead of Tidegate's "
              "row that does the same, or more, by\nmore than 3 in 100:\n\n", peers_better(report),
              method, left_out(report), goals_section(report)]
    return "".join(parts)


def left_out(report):
    rows = [f"- `{place}`: {why.strip().splitlines()[0]}\n"
            for place, why in report["left_out"].items()]
    return "\n## What was left out\n\n" + "".join(rows) if rows else ""


def files(figures):
    """Contents by path of the page that is made of `figures`, a report's text."""
    report = json.loads(figures)
    kinds = {found["part"].startswith(TRANSPORT_PREFIXES) for found in report["rounds"]}
    if kinds == {True, False}:
        sys.exit("scripts/bench: the figures are of two pages: measure --tls, --http2, --grpc and "
                 "--tunnels into a file of their own")
    if kinds == {True}:
        return {DRAWINGS / "transport.json": figures,
                DOCS / "performance-transport.md": page(
                    report, {}, HEAD_OF_TRANSPORT + summary_of_transport(report),
                    METHOD_OF_TRANSPORT)}
    if any(row.endswith(debian13.SUFFIX) for row in report["labels"]):
        head = HEAD_OF_NEWER_PEERS + summary(report) + SUMMARY_NOTES_OF_NEWER_PEERS
        return {DRAWINGS / "debian13.json": figures,
                DOCS / "performance-debian13.md": page(
                    report, {}, head + io_threads_table(report) + "\n", "")}
    drawings = drawn(report)
    return {DRAWINGS / "measured.json": figures,
            DOCS / "performance.md": page(report, drawings, HEAD + summary(report) + SUMMARY_NOTES, METHOD),
            **{DRAWINGS / name: svg for name, svg in drawings.items()}}


def main():
    parser = argparse.ArgumentParser(prog="scripts/bench --document")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    chosen = parser.parse_args()
    wanted = files(chosen.file.read_text())
    if not chosen.check:
        DRAWINGS.mkdir(parents=True, exist_ok=True)
        for path, content in wanted.items():
            path.write_text(content)
    stale = [path.name for path, content in wanted.items()
             if not path.exists() or path.read_text() != content]
    # The other page has none.
    if any(path.suffix == ".svg" for path in wanted):
        stale += sorted({path.name for path in DRAWINGS.glob("*.svg")}
                        - {path.name for path in wanted})
    if stale:
        sys.exit("docs/performance is not what scripts/bench makes: " + ", ".join(stale))


if __name__ == "__main__":
    main()
