"""The metrics of Tidegate."""

import collections
import re
import urllib.request


class Metrics:
    """One scrape of /metrics."""

    SERIES = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$', re.MULTILINE)
    LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

    def __init__(self, admin_port):
        with urllib.request.urlopen(f"http://127.0.0.1:{admin_port}/metrics", timeout=10) as reply:
            text = reply.read().decode()
        self._series = [(name, dict(self.LABEL.findall(labels)), float(value))
                        for name, labels, value in self.SERIES.findall(text)]

    def total(self, name, **labels):
        return int(sum(value for series, has, value in self._series if series == name
                       and all(has.get(key) == wanted for key, wanted in labels.items())))

    def requests(self):
        """Counter of (route, code, outcome)."""
        found = collections.Counter()
        for name, has, value in self._series:
            if name == "tidegate_requests_total":
                found[has["route"], has["code"], has["outcome"]] += int(value)
        return found
