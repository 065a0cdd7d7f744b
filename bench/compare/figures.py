"""Medians of the rounds, ratios in one run, and whether the requirements are met."""

import dataclasses
import statistics
from typing import Callable, Optional

import grpc_calls
import http2
import sizing
import tunnels
import usage
from load import CONNECTIONS, IDLE_CLIENTS, STEADY_RATE
from peers import BATCH, BUSY_POLL, CHECKED_EVERY, SERVERS

COLUMNS = ("rps", "p50_us", "p99_us", "p999_us", "proxy_us", "redis_us", "rss_kib")


def rounds_of(report, part, row):
    return [found for found in report["rounds"] if found["part"] == part and found["row"] == row]


def median(report, part, row, column):
    """None where there is no such figure."""
    values = [found[column] for found in rounds_of(report, part, row) if column in found]
    return statistics.median(values) if values else None


def ratio(report, part, row, other, column):
    """The median over the rounds of a row's figure in parts of another's, in the same round."""
    others = {found["round"]: found[column] for found in rounds_of(report, part, other)
              if column in found}
    ratios = [found[column] / others[found["round"]] for found in rounds_of(report, part, row)
              if column in found and found["round"] in others]
    return statistics.median(ratios) if ratios else None


def rows_in(report, part):
    seen = {found["row"] for found in report["rounds"] if found["part"] == part}
    return [name for name in report["labels"] if name in seen]


def growth_points(report, series, column):
    """[(x, median of the rounds)], the least x first."""
    found = {}
    for point in report.get("growth", ()):
        if point["series"] == series and point.get(column) is not None:
            found.setdefault(point["x"], []).append(point[column])
    return [(x, statistics.median(values)) for x, values in sorted(found.items())]


# ---- what must be reached

@dataclasses.dataclass(frozen=True)
class Goal:
    what: str
    value: Callable  # (report) -> number or None
    must: Optional[float]
    stretch: float  # what was to be tried for
    at_most: bool = True
    unit: str = "x"

    def reached(self, value, wanted):
        return value <= wanted if self.at_most else value >= wanted


def _ratio(part, row, other, column):
    return lambda report: ratio(report, part, row, other, column)


def idle_grown_mib(report, row):
    """What idle clients take in all; None when that was not measured."""
    after, before = (median(report, "idle", row, name) for name in ("after_kib", "before_kib"))
    return None if after is None else (after - before) / 1024


def redis_cpu_grown(report):
    """CPU of Redis a request with 32 threads, divided by that with one; None when not measured."""
    found = dict(growth_points(report, "threads-redis-two-names", "redis_us"))
    return found[32] / found[1] if {1, 32} <= found.keys() else None


def checks_percent(report):
    """CPU that checks take; None when that was not measured."""
    with_checks, without = (median(report, "checks", row, "unasked_percent")
                            for row in ("tidegate-checked", "tidegate-servers"))
    return None if with_checks is None or without is None else with_checks - without


# nginx + Lua + Redis with one sub-bucket a window, and doing what Tidegate does.
LUA_PEERS = (("nginx-lua-redis", "nginx + Lua + Redis"),
             ("nginx-lua-redis-fine", "the same with windows as fine"))

PEER_NAMES = {"nginx": "nginx", "haproxy": "HAProxy"}

# Of parts of HTTP/2 over TLS.
HTTP2_WORDS = {part: f"h2 TLS, {connections} x {streams}" + (" streams" if streams > 1 else "")
               for part, (connections, streams) in http2.LOADS.items()}

# Of calls of gRPC that are forwarded.
GRPC_WORDS = {part: f"gRPC, {connections} x {streams}" + (" streams" if streams > 1 else "")
              for part, (connections, streams) in grpc_calls.FORWARDED.items()}

# How the document describes the part in which the proxy shares a CPU with its upstream alone.
BOUND = ", the proxy as the bottleneck"


def _goals():
    for logged, words in (("", ""), ("-logged", ", with an access log")):
        yield Goal(f"plain proxying{words}: CPU a request, of HAProxy",
                   _ratio("saturated", f"tidegate{logged}", "haproxy", "proxy_us"), 0.95, 0.88)
        yield from _redis_goals(f"tidegate-redis{logged}", f"Redis decisions{words}")
        denied = f"tidegate-redis-denied{logged}"
        yield Goal(f"everything denied{words}: requests a second, of nginx + Lua + Redis",
                   _ratio("saturated", denied, "nginx-lua-redis-denied", "rps"), 2.2, 2.2,
                   at_most=False)
        yield Goal(f"everything denied{words}: requests a second, of HAProxy's stick tables",
                   _ratio("saturated", denied, "haproxy-stick-table-denied", "rps"), None, 1.0,
                   at_most=False)
    yield Goal(f"plain proxying{BOUND}: CPU a request, of HAProxy",
               _ratio("pinned", "tidegate", "haproxy", "proxy_us"), 0.95, 0.88)
    yield from _redis_goals("tidegate-redis", f"Redis decisions{BOUND}", "pinned")
    yield Goal("one connection: median time, of nginx + Lua + Redis",
               _ratio("single", "tidegate-redis", "nginx-lua-redis", "p50_us"), 0.65, 0.60)
    yield Goal(f"one connection, {BUSY_POLL}: median time, of nginx + Lua + Redis",
               _ratio("single", "tidegate-redis-busy", "nginx-lua-redis", "p50_us"), 0.65, 0.60)
    yield Goal("Redis decisions, 32 threads: CPU of Redis a request, of that with one thread",
               redis_cpu_grown, 1.25, 1.10)
    yield Goal(f"{IDLE_CLIENTS:,} idle connections: memory grown",
               lambda report: idle_grown_mib(report, "tidegate"), 16, 14, unit="MiB")
    yield from _tls_goals()
    yield from _http2_goals()
    yield from _grpc_goals()
    yield from _tunnel_goals()
    yield from _usage_goals()
    for row, words in (("tidegate-auth", "admitted"), ("tidegate-auth-denied", "denied")):
        yield Goal(f"forward_auth, {words}: CPU a question, of a request that the proxy denies",
                   _ratio("faces", row, "tidegate-memory-denied", "proxy_us"), 1.0, 0.95)
    yield Goal(f"{SERVERS} servers checked every {CHECKED_EVERY} s: CPU of the checks, of one core",
               checks_percent, 0.1, 0.05, unit="%")
    yield Goal("top, denials and tracing: CPU a request of the proxy, of none of them",
               _ratio("observation", "tidegate-observed", "tidegate-unobserved", "proxy_us"),
               1.03, 1.02)
    yield Goal(f"check API: CPU a call of {BATCH} checks, of a call of one",
               _ratio("faces", "tidegate-check-batch", "tidegate-check", "proxy_us"), 25, 20)


def _tls_goals():
    for part, what, peer, must, stretch in (
            ("tls-new", "new TLS connection and request", "nginx", 0.90, 0.80),
            ("tls-resumed", "resumed TLS connection and request", "nginx", 0.90, 0.80),
            ("tls-kept", "request over TLS", "haproxy", 0.95, 0.90)):
        yield Goal(f"{what}: CPU of the proxy, of {PEER_NAMES[peer]}",
                   _ratio(part, "tidegate-tls", f"{peer}-tls", "proxy_us"), must, stretch)
    yield _idle_goal("idle TLS connection", "tls-idle", "tidegate-tls", 15.5, 14.7)


def _idle_goal(what, part, row, must, stretch):
    return Goal(f"{what}: private memory",
                lambda report: median(report, part, row, "idle_kib"), must, stretch, unit="KiB")


def _http2_goals():
    wide, narrow = (f"{words}: CPU a request, of " for words in HTTP2_WORDS.values())
    yield Goal(f"{wide}nginx", _ratio("h2-wide", "tidegate-h2", "nginx-h2", "proxy_us"),
               0.90, 0.90)
    yield Goal(f"{wide}HAProxy", _ratio("h2-wide", "tidegate-h2", "haproxy-h2", "proxy_us"),
               None, 1.0)
    yield Goal(f"{narrow}nginx", _ratio("h2-narrow", "tidegate-h2", "nginx-h2", "proxy_us"),
               0.95, 0.85)
    yield _idle_goal("idle h2 TLS connection", "h2-idle", "tidegate-h2", 42, 26)


def _grpc_goals():
    for part, words in GRPC_WORDS.items():
        for peer in ("nginx", "haproxy"):
            yield Goal(f"{words}: CPU a call, of {PEER_NAMES[peer]}",
                       _ratio(part, "tidegate-grpc", f"{peer}-grpc", "proxy_us"), None, 1.0)
    yield Goal("ShouldRateLimit: CPU a call, without the decision",
               lambda report: median(report, "rls", grpc_calls.UNLIMITED, "proxy_us"), 6, 6,
               unit="us")


def _tunnel_goals():
    for tls, words, must, stretch in (("", "in the clear", 3.5, 2.5), ("-tls", "TLS", 17, 16)):
        yield Goal(f"64-byte echo through a tunnel, {words}: CPU of the proxy, of nginx",
                   _ratio("tunnel-echo", f"tidegate-tunnel{tls}", f"nginx-tunnel{tls}",
                          "proxy_us"), 0.95, 0.85)
        yield _idle_goal(f"idle tunnel, {words}", "tunnel-idle", f"tidegate-tunnel{tls}",
                         must, stretch)


def _usage_goals():
    """Of the same route without costs."""
    for part, row, what, must, stretch in usage.GOALS:
        kind = row.rpartition("-")[2]
        without = row.removesuffix(kind) + dict(usage.PAIRS)[kind]
        yield Goal(f"{what}: CPU of the proxy, of the same without costs",
                   _ratio(part, row, without, "proxy_us"), must, stretch)
        if "-redis-" in row and part != "usage-paced":
            yield Goal(f"{what}: CPU of Redis, of the same without costs",
                       _ratio(part, row, without, "redis_us"), None, stretch)
    for row, words in usage.PARSED.items():
        yield Goal(f"{words}: read on one core",
                   lambda report, row=row: median(report, "usage-parsed", row, "gib_s"),
                   None if row == "json_answer" else 1.0, 1.0, at_most=False, unit="GiB/s")


def _redis_goals(own, words, part="saturated"):
    yield Goal(f"{words}: CPU a request of the proxy, of HAProxy without limits",
               _ratio(part, own, "haproxy", "proxy_us"), 1.0, 1.0)
    for peer, name in LUA_PEERS:
        yield Goal(f"{words}: CPU a request of the proxy, of {name}",
                   _ratio(part, own, peer, "proxy_us"), 0.45, 0.40)
        yield Goal(f"{words}: CPU a request of Redis, of {name}",
                   _ratio(part, own, peer, "redis_us"), 0.22, 0.18)
        yield Goal(f"{words}: requests a second, of {name}",
                   _ratio(part, own, peer, "rps"), 2.2, 2.4, at_most=False)


GOALS = tuple(_goals())


def goals_reached(report):
    """[(goal, value, words)] of the goals that were measured."""
    found = []
    for goal in GOALS:
        value = goal.value(report)
        if value is None:
            continue
        if goal.reached(value, goal.stretch):
            words = "met, stretch too"
        elif goal.must is None:
            words = "stretch not met"
        else:
            words = "met" if goal.reached(value, goal.must) else "not met"
        found.append((goal, value, words))
    return found


# ---- as text

HEADINGS = {"rps": "req/s", "p50_us": "p50 ms", "p99_us": "p99 ms", "p999_us": "p99.9 ms",
            "proxy_us": "proxy us", "redis_us": "Redis us", "rss_kib": "RSS MiB"}


def shown(column, value):
    if value is None:
        return "-"
    if column == "rps":
        return f"{value:,.0f}"
    if column == "rss_kib":
        return f"{value / 1024:.1f}"
    if column in ("proxy_us", "redis_us"):
        return f"{value:.1f}"
    return f"{value / 1000:.2f}" if value >= 1000 else f"{value / 1000:.3f}"

# Parts that have one figure, the memory of one that is idle.
IDLE_EACH = ("tls-idle", "h2-idle", "tunnel-idle", *sizing.ONCE)
# Parts of one round: memory is the same in each.
ONCE = ("calls", "idle", "checks", *IDLE_EACH)

TITLES = {
    "saturated": f"{CONNECTIONS} connections, as fast as answers come",
    "steady": f"{STEADY_RATE:,} requests a second, timed from when each was due",
    "single": "One connection",
    "pinned": "Proxy and upstream on one CPU, all else on another",
    "calls": "System calls a request",
    "idle": f"{IDLE_CLIENTS:,} idle connections",
    "faces": "Questions of gateways and calls of programs",
    "checks": f"Health checks of {SERVERS} servers, every {CHECKED_EVERY} s",
    "observation": f"{CONNECTIONS} connections, with and without top, denials and tracing",
    "tls-new": "New TLS 1.3 connections, ECDSA, with one request each",
    "tls-resumed": "Resumed TLS 1.3 connections with one request each",
    "tls-kept": f"{CONNECTIONS} TLS connections, as fast as answers come",
    "tls-idle": f"{IDLE_CLIENTS:,} idle TLS connections, private memory of each",
    **{part: f"{words}, as fast as answers come" for part, words in HTTP2_WORDS.items()},
    "h2-idle": f"{IDLE_CLIENTS:,} idle h2 TLS connections, private memory of each",
    **{part: f"{words}, as fast as answers come" for part, words in GRPC_WORDS.items()},
    "rls": "ShouldRateLimit, 8 connections x 8 streams",
    "tunnel-echo": f"{tunnels.OPEN} WebSockets, 64-byte echoes as fast as they come back, "
                   "each a request",
    **sizing.TITLES,
    **usage.TITLES,
    "tunnel-idle": f"{tunnels.IDLE:,} idle WebSockets, private memory of each",
}


def text(report):
    lines = []
    for part, title in TITLES.items():
        rows = rows_in(report, part)
        if not rows:
            continue
        lines += ["", title + ":"]
        width = max(len(report["labels"][row]) for row in rows)
        if part == "idle":
            for row in rows:
                lines.append(f"  {report['labels'][row]:{width}}  "
                             f"{idle_grown_mib(report, row):.1f} MiB")
        elif part in IDLE_EACH:
            for row in rows:
                lines.append(f"  {report['labels'][row]:{width}}  "
                             f"{median(report, part, row, 'idle_kib'):.1f} KiB")
        elif part == "usage-parsed":
            for row in rows:
                lines.append(f"  {report['labels'][row]:{width}}  "
                             f"{median(report, part, row, 'gib_s'):.2f} GiB/s")
        elif part == "checks":
            for row in rows:
                lines.append(f"  {report['labels'][row]:{width}}  "
                             f"{median(report, part, row, 'unasked_percent'):.2f} %, "
                             f"{median(report, part, row, 'proxy_us'):.1f} us a request")
        elif part == "calls":
            for row in rows:
                lines.append(f"  {report['labels'][row]:{width}}  "
                             f"{median(report, part, row, 'calls'):.2f}")
        else:
            lines.append("  " + " " * width
                         + "".join(f"{HEADINGS[column]:>10}" for column in COLUMNS))
            for row in rows:
                lines.append(f"  {report['labels'][row]:{width}}" + "".join(
                    f"{shown(column, median(report, part, row, column)):>10}"
                    for column in COLUMNS))
    for place, why in report["left_out"].items():
        lines.append(f"left out: {place}: {why}")
    lines.append("")
    for goal, value, words in goals_reached(report):
        sign = "<=" if goal.at_most else ">="
        must = "" if goal.must is None else f"{sign} {goal.must}, "
        lines.append(f"  {words:18} {value:6.2f} {goal.unit:4} ({must}stretch {goal.stretch})  "
                     f"{goal.what}")
    return "\n".join(lines)
