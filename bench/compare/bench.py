#!/usr/bin/env python3
"""Runs the comparison: bench.py TIDEGATE CLIENTS ... (scripts/bench says the rest)."""

import argparse
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

import debian13
import drawing
import figures
import growth
import grpc_calls
import http2
import machine
import sizing
import tls
import tunnels
import usage
from grpc_calls import GrpcMeasuring
from http2 import Http2Measuring
from load import Loads, write_heads
from machine import ROOT, Missing, Wrong
from measure import Measuring
from rows import ELSEWHERE, PARTS, all_rows
from sizing import SizeMeasuring
from tls import TlsMeasuring
from tunnels import TunnelMeasuring
from usage import UsageMeasuring

BUILD = ROOT / "build" / "bench"
NODE = BUILD / "node"
# What may be measured instead: each has PARTS and all_rows().
INSTEAD = {"tls": tls, "http2": http2, "grpc": grpc_calls, "tunnels": tunnels,
           "size": sizing, "usage": usage}


def names(text):
    return text.split(",")


def options():
    parser = argparse.ArgumentParser(prog="scripts/bench", usage="see scripts/bench --help",
                                     add_help=False)
    # scripts/bench asks for this one before it installs and builds anything.
    parser.add_argument("--check-options", action="store_true")
    parser.add_argument("program")
    parser.add_argument("clients", type=pathlib.Path)  # the folder with bench_rate and the others
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rows", type=names)
    parser.add_argument("--parts", type=names)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seconds", type=int, default=None)
    parser.add_argument("--add", action="store_true")
    parser.add_argument("--debian13", action="store_true")
    instead = parser.add_mutually_exclusive_group()
    for name in INSTEAD:
        instead.add_argument(f"--{name}", dest="instead", action="store_const", const=name)
    instead.add_argument("--growth", nargs="?", const=[], type=names)
    parser.add_argument("--json", type=pathlib.Path, default=BUILD / "bench.json")
    parser.add_argument("--plot", type=pathlib.Path)
    chosen = parser.parse_args()
    if chosen.debian13 and (chosen.growth is not None or chosen.instead in ("size", "usage")):
        parser.error("--growth, --size and --usage have no rows of the peers of Debian 13")
    # Counting system calls takes half a minute, and what checks cost two.
    known = parts_of(chosen)
    slow = ("calls", "checks") if chosen.quick else ()
    chosen.parts = chosen.parts or [part for part in known if part not in slow]
    unknown = set(chosen.parts) - set(known)
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen.rounds = chosen.rounds or (1 if chosen.quick else 3 if chosen.growth is not None else 5)
    chosen.seconds = chosen.seconds or 1
    check_rows(parser, chosen)
    fault = growth.fault_in(chosen.growth or ())
    if fault:
        parser.error(fault)
    return chosen


def check_rows(parser, chosen):
    known = [row.name for row in rows_here(chosen)]
    if chosen.debian13:
        known += [name for row in rows_here(chosen) for name in debian13.names(row.name).values()]
    unknown = set(chosen.rows or ()) - set(known)
    if unknown:
        parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(known)}")


def rows_here(chosen):
    """The rows of the programs of this machine."""
    return (INSTEAD[chosen.instead].all_rows(chosen.program) if chosen.instead
            else all_rows(chosen.program, NODE))


def parts_of(chosen):
    """The rows of each part."""
    return INSTEAD[chosen.instead].PARTS if chosen.instead else PARTS


def rows_of(chosen, part, rows):
    wanted = parts_of(chosen)[part]
    return [row for row in rows
            if (row.kind not in ELSEWHERE if wanted is None else row.kind in wanted)]


def run_parts(chosen, measuring, rows, report):
    """Rounds of all rows take turns; after each the report is written. A row that fails twice
    in a round is left out from then on."""
    for part in chosen.parts:
        rounds = 1 if part in figures.ONCE else chosen.rounds
        done = max((found["round"] for found in report["rounds"] if found["part"] == part),
                   default=0)
        for number in range(done + 1, done + rounds + 1):
            for row in rows_of(chosen, part, rows):
                measure(measuring, part, number, row, report)
            write(chosen.json, report)


def measure(measuring, part, number, row, report):
    place = f"{part}/{row.name}"
    for last_try in (False, True):
        if place in report["left_out"]:
            return
        try:
            found = measuring.round(part, row)
        except (Missing, Wrong, subprocess.TimeoutExpired) as fault:
            print(f"{place}: {fault}", file=sys.stderr, flush=True)
            if last_try or isinstance(fault, Missing):
                report["left_out"][place] = str(fault)
            continue
        report["rounds"].append({"part": part, "round": number, "row": row.name, **found})
        return


def rows_chosen(chosen):
    rows = rows_here(chosen)
    if chosen.debian13:
        rows = debian13.beside(rows, machine.versions(chosen.program, NODE))
    return [row for row in rows if not chosen.rows or row.name in chosen.rows]


def report_begun(chosen, rows):
    """The facts known before any measurement, and the results of earlier ones."""
    report = {"machine": machine.description(), "versions": {}, "seconds": chosen.seconds,
              "labels": {row.name: row.label for row in rows}, "left_out": {}, "rounds": [],
              "growth": []}
    if (chosen.add or chosen.growth is not None) and chosen.json.exists():
        earlier = json.loads(chosen.json.read_text())
        earlier["labels"].update(report["labels"])
        report = {**report, **earlier, "machine": report["machine"]}
    return report


def write(path, report):
    """JSON with a line for each round and point."""
    def shown(value):
        if not isinstance(value, list):
            return json.dumps(value)
        return "[\n" + ",\n".join(map(json.dumps, map(rounded, value))) + "\n]"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(f'"{name}": {shown(value)}'
                                       for name, value in report.items()) + "\n}\n")


def rounded(figures):
    return {name: round(value, 3) if isinstance(value, float) else value
            for name, value in figures.items()}


def measuring_of(chosen, loads, folder):
    if chosen.instead == "tunnels":
        return TunnelMeasuring(chosen.clients / "bench_tunnel",
                               chosen.clients / "bench_tunnel_echo", chosen.seconds)
    if chosen.instead == "usage":
        return UsageMeasuring(chosen.clients / "bench_usage", loads, folder, chosen.seconds)
    heads = write_heads(folder)
    if chosen.instead:
        made = {"tls": TlsMeasuring, "http2": Http2Measuring, "grpc": GrpcMeasuring,
                "size": SizeMeasuring}
        return made[chosen.instead](chosen.clients / "bench_tls", loads, heads, chosen.seconds)
    return Measuring(loads, heads, chosen.seconds)


def main():
    chosen = options()
    if chosen.check_options:
        return
    rows = rows_chosen(chosen)
    report = report_begun(chosen, rows)
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name:
        folder, loads = pathlib.Path(name), Loads(chosen.clients / "bench_rate")
        if chosen.growth is not None:
            growth.run(growth.Growth(chosen.program, loads, folder, chosen.seconds),
                       chosen.growth, chosen.rounds, report,
                       lambda: write(chosen.json, report))
        else:
            run_parts(chosen, measuring_of(chosen, loads, folder), rows, report)
    # Now, for npm's packages may have come only in the run.
    report["versions"] = machine.versions(chosen.program, NODE)
    if chosen.debian13:
        report["versions"] |= debian13.versions()
    write(chosen.json, report)
    print(figures.text(report))
    if chosen.plot:
        chosen.plot.write_text(drawing.comparison(report))


if __name__ == "__main__":
    # So that what was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        main()
    except Wrong as fault:
        sys.exit(f"scripts/bench: {fault}")
