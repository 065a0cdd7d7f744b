"""The dashboard as a file: its expressions, and the parts that Grafana would not show well."""

import re

PANELS = {"stat", "timeseries", "heatmap", "table"}
WIDTH = 24


def panels_of(dashboard):
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def expressions(dashboard):
    """(title, expression) of every panel."""
    for panel in panels_of(dashboard):
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def other_queries(dashboard):
    """(name, text) of the annotations' expressions."""
    for annotation in dashboard["annotations"]["list"]:
        if "expr" in annotation:
            yield annotation["name"], annotation["expr"]


def metrics_of_variables(dashboard):
    """(name, metric) of the variables that are values of a label."""
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], re.match(r"label_values\((\w+)", variable["definition"])[1]


def faults_of_dashboard(dashboard):
    if dashboard.get("schemaVersion", 0) < 37:
        yield "its schema is older than that of Grafana 9"
    if dashboard.get("id") is not None:
        yield "it has the id of one Grafana's database"
    variables = {one["name"]: one for one in dashboard["templating"]["list"]}
    if variables.get("datasource", {}).get("type") != "datasource":
        yield "it has no variable for the data source"
    if "instance" not in variables:
        yield "it has no variable for the instance"
    numbers = [panel["id"] for panel in dashboard["panels"]]
    if len(set(numbers)) != len(numbers):
        yield "two panels have the same id"
    titles = [panel["title"] for panel in dashboard["panels"]]
    yield from (f"two panels are `{title}`" for title in set(titles) if titles.count(title) > 1)
    for panel in panels_of(dashboard):
        yield from (f"{panel['title']}: {fault}" for fault in faults_of_panel(panel))
    yield from overlaps(dashboard["panels"])


def faults_of_panel(panel):
    if panel["type"] not in PANELS:
        yield f"its type is {panel['type']}"
    if not panel.get("description", "").endswith("."):
        yield "it has no description"
    defaults = panel["fieldConfig"]["defaults"]
    if panel["type"] in ("stat", "timeseries") and not defaults.get("unit"):
        yield "it has no unit"
    if panel["datasource"]["uid"] != "${datasource}":
        yield "its data source is not the variable"
    names = [target["refId"] for target in panel["targets"]]
    if len(set(names)) != len(names) or not names:
        yield "its queries have no names of their own"
    for target in panel["targets"]:
        if target["datasource"]["uid"] != "${datasource}":
            yield "the data source of a query is not the variable"
        if panel["type"] == "timeseries" and target["legendFormat"] in ("", "__auto"):
            yield "a query has no legend"
        if '{job=~"$job", instance=~"$instance"' not in target["expr"]:
            yield "a query does not choose the instance"


def overlaps(panels):
    taken = {}
    for panel in panels:
        place = panel["gridPos"]
        if place["x"] + place["w"] > WIDTH:
            yield f"{panel['title']} is too wide"
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                other = taken.setdefault((x, y), panel["title"])
                if other != panel["title"]:
                    yield f"{panel['title']} lies on {other}"
                    return
