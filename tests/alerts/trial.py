#!/usr/bin/env python3
"""The alerts and the dashboard: are they right, and is what they ask for there?

    tests/alerts/trial.py [--tidegate build/dev/tidegate]

promtool checks and tests deploy/prometheus. Each alert has a test in which it fires and one in which it
does not, and a paragraph in docs/alerts.md. Then a Prometheus on loopback reads a Tidegate that serves
clients: each expression of the alerts and of deploy/grafana has to give no error, name only metrics that
this Tidegate shows, and, in the dashboard, have a result. The exit code is 1 when one part does not hold.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent / "soak")]
sys.dont_write_bytecode = True

from dashboard import (expressions, faults_of_dashboard, metrics_of_variables,
                       other_queries)  # noqa: E402
from metered import Metered, Prometheus  # noqa: E402
from world import World  # noqa: E402

ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
TESTS = ROOT / "deploy/prometheus/alerts_test.yaml"
DASHBOARD = ROOT / "deploy/grafana/tidegate.json"
PAGE = ROOT / "docs/alerts.md"
SEVERITIES = {"critical", "warning", "info"}
# What Grafana puts in place of its variables.
VARIABLES = {"$__rate_interval": "10s", "$job": "tidegate", "$instance": ".*"}
NAME = re.compile(r"\b(?:tidegate|process)_[a-z0-9_]+\b")


class Trial:
    def __init__(self):
        self.failed = 0

    def tell(self, what, wrong):
        print(f"{'FAIL' if wrong else 'ok  '} {what}", flush=True)
        for one in wrong:
            print(f"     {one}")
        self.failed += bool(wrong)


def promtool(*arguments):
    """The faults that promtool finds."""
    ran = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    return [ran.stdout + ran.stderr] if ran.returncode else []


def alerts():
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def faults_of_alert(rule, tests, headings):
    """The parts that an alert lacks, beside its expression."""
    name = rule["alert"]
    severity = rule.get("labels", {}).get("severity")
    if severity not in SEVERITIES:
        yield f"its severity is {severity}"
    for annotation in ("summary", "description"):
        if not rule.get("annotations", {}).get(annotation):
            yield f"it has no {annotation}"
    if rule.get("annotations", {}).get("runbook") != f"docs/alerts.md#{name.lower()}":
        yield "its runbook is not its heading in docs/alerts.md"
    if name not in headings:
        yield "docs/alerts.md has no heading for it"
    elif len(headings[name]) < 80:
        yield "docs/alerts.md has no paragraph for it"
    expected = [test["exp_alerts"] for test in tests if test["alertname"] == name]
    if not any(expected):
        yield "alerts_test.yaml has no test in which it fires"
    if all(expected):
        yield "alerts_test.yaml has no test in which it does not fire"


def paragraphs():
    """What docs/alerts.md says of each alert."""
    parts = re.split(r"^#{1,6} +(.*?) *$", PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], map(str.strip, parts[2::2])))


def try_alerts(trial):
    trial.tell("promtool check rules", promtool("check", "rules", ALERTS))
    trial.tell("promtool test rules", promtool("test", "rules", TESTS))
    tests = [one for test in yaml.safe_load(TESTS.read_text())["tests"] for one in test["alert_rule_test"]]
    headings = paragraphs()
    names = [rule["alert"] for rule in alerts()]
    for rule in alerts():
        trial.tell(f"{rule['alert']} has a severity, texts, tests and a paragraph",
                   list(faults_of_alert(rule, tests, headings)))
    trial.tell("docs/alerts.md describes no other alerts",
               [name for name in headings if re.fullmatch(r"Tidegate[A-Z]\w+", name) and name not in names])


def substituted(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def faults_of_expression(prometheus, expression, shown, needs_result):
    """The faults of an expression that a real Prometheus finds."""
    asked = substituted(expression)
    if "$" in asked:
        yield f"a variable that the dashboard does not have: {asked}"
        return
    unknown = set(NAME.findall(asked)) - shown
    if unknown:
        yield f"Tidegate does not show {', '.join(sorted(unknown))}"
    answer = prometheus.query(asked)
    if answer["status"] != "success":
        yield f"{answer.get('error')}: {asked}"
    elif answer.get("warnings"):
        yield f"{answer['warnings']}: {asked}"
    elif needs_result and not answer["data"]["result"]:
        yield f"no result: {asked}"


def try_expressions(trial, program):
    dashboard = json.loads(DASHBOARD.read_text())
    trial.tell("the dashboard is complete", list(faults_of_dashboard(dashboard)))
    with tempfile.TemporaryDirectory() as folder, World(folder) as world:
        metered = Metered(world, program)
        prometheus = Prometheus(world, metered.tidegate.admin_port, ALERTS)
        with metered.clients():
            prometheus.wait_for_scrapes(12)
            metered.lose_redis()
            prometheus.wait_for_scrapes(8)
            shown = metered.metric_names()
            for rule in alerts():
                trial.tell(f"{rule['alert']}: its expression",
                           list(faults_of_expression(prometheus, rule["expr"], shown, False)))
            for title, expression in expressions(dashboard):
                trial.tell(f"panel {title}: {expression[:60]}",
                           list(faults_of_expression(prometheus, expression, shown, True)))
            for name, expression in other_queries(dashboard):
                trial.tell(f"annotation {name}",
                           list(faults_of_expression(prometheus, expression, shown, False)))
            for name, metric in metrics_of_variables(dashboard):
                trial.tell(f"variable {name}",
                           [] if metric in shown else [f"Tidegate does not show {metric}"])
            trial.tell("Prometheus evaluates the alerts without an error", prometheus.faults_of_rules())
            trial.tell("TidegateStoreDown waits for its minute",
                       [] if prometheus.is_pending("TidegateStoreDown") else ["it is not pending"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidegate", default="build/release/tidegate")
    program = os.path.abspath(parser.parse_args().tidegate)
    trial = Trial()
    try_alerts(trial)
    try_expressions(trial, program)
    return 1 if trial.failed else 0


if __name__ == "__main__":
    sys.exit(main())
