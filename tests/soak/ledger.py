"""Kinds of request, and counters of them that outlive the counting process."""

import mmap
import os

# Kinds of request. Each has a route of its own, named like it, which its path begins with.
KINDS = ("fast", "patient", "pipeline", "bulk", "flaky", "reset", "leave_up", "leave_down",
         "unread", "silent")
NO_ROUTE = "-"  # the label of requests that were refused before a route was chosen


class SharedCounters:
    """A number for each kind, in a file: the counts of a process outlive its SIGKILL."""

    def __init__(self, path):
        size = 8 * len(KINDS)
        if not os.path.exists(path):
            with open(path, "wb") as file:
                file.write(bytes(size))
        with open(path, "r+b") as file:
            self._cells = memoryview(mmap.mmap(file.fileno(), size)).cast("Q")

    def add(self, kind_index):
        self._cells[kind_index] += 1

    def by_kind(self):
        return dict(zip(KINDS, self._cells))
