#!/usr/bin/env python3
"""10,000 clients that made one request each and then sit there: what each costs the proxy, and
whether new ones are served meanwhile: idle.py PROGRAM
"""

import resource
import socket
import sys
import tempfile
import time

from metrics import Metrics
from world import Failed, Tidegate, Upstream, World, until

CONNECTIONS = 10_000
SPARE_DESCRIPTORS = 500
BYTES_MAX = 2_048  # of resident memory, for each
NEWCOMERS = 50
NEWCOMER_SECONDS_MAX = 0.25
REQUEST = b"GET /fast/ok/x HTTP/1.1\r\nHost: idle.test\r\n\r\n"


def room_for(descriptors):
    """Raises the limit on open files, for this process and its children. False: not allowed."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < descriptors:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
        except (ValueError, OSError):
            return False
    else:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, hard))
    return True


def ask(connection):
    connection.sendall(REQUEST)
    answer = connection.recv(4096)
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise Failed(f"answered {answer[:100]!r}")


def newcomers(port):
    """The longest that a new client waited for its answer, in seconds."""
    slowest = 0.0
    for _ in range(NEWCOMERS):
        begin = time.monotonic()
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            ask(connection)
        slowest = max(slowest, time.monotonic() - begin)
    return slowest


def measure(program):
    with tempfile.TemporaryDirectory(prefix="tidegate-idle-") as folder, World(folder) as world:
        upstream = Upstream(world, "steady")
        upstream.wait()
        tidegate = Tidegate(world, program, f"upstream: http://127.0.0.1:{upstream.port}\n"
                            "limits: [1000000/s]\nthreads: 1\ntimeouts: {client_idle: 10min}\n")
        newcomers(tidegate.port)  # what is there only once is there before
        time.sleep(0.2)
        before = tidegate.rss_kib(), tidegate.pss_kib()
        held = []
        for _ in range(CONNECTIONS):
            connection = socket.create_connection(("127.0.0.1", tidegate.port), timeout=10)
            ask(connection)
            held.append(connection)
        time.sleep(0.2)
        after = tidegate.rss_kib(), tidegate.pss_kib()
        seen = Metrics(tidegate.admin_port).total("tidegate_client_connections")
        if seen != CONNECTIONS:
            raise Failed(f"{CONNECTIONS} connections are held, the metrics say {seen}")
        slowest = newcomers(tidegate.port)
        for connection in held[::1000]:
            ask(connection)  # and they are still good for another request
        for connection in held:
            connection.close()
        until(lambda: Metrics(tidegate.admin_port).total("tidegate_client_connections") == 0, 20,
              "the end of all connections")
        if tidegate.stop() != 0:
            raise Failed("it did not end well:\n" + tidegate.errors())
        return before, after, slowest


def main(program):
    if not room_for(CONNECTIONS + SPARE_DESCRIPTORS):
        print(f"idle: skipped, for no process here may have {CONNECTIONS + SPARE_DESCRIPTORS} "
              "files open (ulimit -Hn)")
        return 0
    before, after, slowest = measure(program)
    rss, pss = ((after[i] - before[i]) * 1024 / CONNECTIONS for i in (0, 1))
    print(f"idle: {CONNECTIONS} connections; "
          f"RSS {before[0]} -> {after[0]} KiB, {rss:.0f} bytes each; "
          f"PSS {before[1]} -> {after[1]} KiB, {pss:.0f} bytes each; "
          f"{NEWCOMERS} new clients waited {slowest * 1000:.1f} ms at most")
    faults = []
    if max(rss, pss) > BYTES_MAX:
        faults.append(f"more than {BYTES_MAX} bytes for a connection")
    if slowest > NEWCOMER_SECONDS_MAX:
        faults.append(f"a new client waited more than {NEWCOMER_SECONDS_MAX} s")
    for fault in faults:
        print(f"VIOLATED: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1]))
    except Failed as failed:
        sys.exit(f"idle: {failed}")
