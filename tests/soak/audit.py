"""Holds what clients, upstreams, metrics and log say of a run against each other.

What has to be equal is equal to the last request. Where somebody left or died on the way, it cannot
be known which side of a count the request fell on, and the bound says how many that may be.
"""

import collections
import math
import statistics

from ledger import KINDS, NO_ROUTE, SharedCounters

# Kinds whose clients wait for each answer, over an upstream that behaves: all must come whole.
FAITHFUL = ("patient", "pipeline", "bulk", "silent")
# Kinds whose clients read to the end, but whose answers may break off.
ATTENTIVE = FAITHFUL + ("flaky", NO_ROUTE)
REFUSED = ("limited", "rejected", "unavailable")
# Requests of `fast` and of `flaky` that can be on the way at once.
FAST_AT_ONCE, FLAKY_AT_ONCE = 48, 3
# Of load.lua: how many clients it plays, and how many requests of each pass in ten seconds.
PEOPLE, QUOTA, WINDOW_SECONDS = 1000, 120, 10
# Growth over the last half that is noise, and what the process may have at all.
RSS_NOISE_KIB, RSS_NOISE_SHARE, RSS_MAX_KIB = 3_072, 0.05, 131_072
SANITIZED_FACTOR = 10


class Result:
    """The figures of a run when it is over."""

    def __init__(self, store, seconds, sanitized):
        self.store, self.seconds, self.sanitized = store, seconds, sanitized

    def requests_of(self, route, **wanted):
        return sum(count for (name, code, outcome), count in self.metrics.requests().items()
                   if name == route and wanted.get("code", code) == code
                   and (outcome in wanted["outcomes"] if "outcomes" in wanted else True))

    def rss_growth(self):
        """Of the medians of the third and the last quarter."""
        rss = [sample[0] for sample in self.samples]
        quarter = max(1, len(rss) // 4)
        third, last = rss[-2 * quarter:-quarter], rss[-quarter:]
        return statistics.median(third), statistics.median(last)


def sum_by_kind(*upstreams):
    seen = collections.Counter()
    for upstream in upstreams:
        seen.update(SharedCounters(upstream.counters_file).by_kind())
    return seen


def violations(result):
    found = []
    for check in (check_process, check_memory, check_leftovers, check_sums, check_wrk, check_limits,
                  check_clients, check_upstreams, check_decisions, check_log):
        found += check(result)
    return found


def check_process(result):
    if result.exit_code != 0:
        yield f"exit code {result.exit_code} on TERM"
    for word in ("Sanitizer", "runtime error:", "Assertion", "exception"):
        if word in result.errors:
            yield f"it said `{word}`:\n{result.errors[-4000:]}"


def check_memory(result):
    factor = SANITIZED_FACTOR if result.sanitized else 1
    third, last = result.rss_growth()
    allowed = max(RSS_NOISE_KIB, third * RSS_NOISE_SHARE) * factor
    if last - third > allowed:
        yield f"RSS grows: {third:.0f} KiB in the third quarter, {last:.0f} KiB in the last"
    peak = max(sample[0] for sample in result.samples)
    if peak > RSS_MAX_KIB * factor:
        yield f"RSS reached {peak} KiB"


def check_leftovers(result):
    if result.descriptors_after != result.descriptors_before:
        yield (f"{result.descriptors_after} descriptors are open at the end, "
               f"{result.descriptors_before} were at the beginning:\n    "
               + "\n    ".join(result.open_files_after))
    for gauge in ("tidegate_client_connections", "tidegate_upstream_connections"):
        if left := result.metrics.total(gauge):
            yield f"{gauge} says {left} when all is over"


def check_sums(result):
    for kind in KINDS:
        counted = result.requests_of(kind)
        timed = result.metrics.total("tidegate_request_seconds_count", route=kind)
        if counted != timed:
            yield f"{kind}: {counted} requests have an outcome, {timed} a duration"


def check_wrk(result):
    """Each of its connections may have had one request on the way when it stopped."""
    wrk = result.wrk
    if wrk["socket_errors"] or wrk["other"]:
        yield f"good requests failed: {wrk}"
    for code in ("200", "429"):
        if wrk[code] > result.requests_of("fast", code=code):
            yield f"fast: wrk got {wrk[code]} answers {code}, metrics say less"
    begun, answered = result.requests_of("fast"), wrk["200"] + wrk["429"]
    if not 0 <= begun - answered <= FAST_AT_ONCE:
        yield f"fast: wrk had {answered} answers, but metrics say {begun} requests"


def check_limits(result):
    """In process, where nothing is lost: no window admits more than its quota."""
    windows = math.ceil(result.seconds / WINDOW_SECONDS) + 1
    most = PEOPLE * QUOTA * windows
    admitted = result.requests_of("fast", outcomes=("forwarded", "failed", "aborted"))
    if result.store == "memory" and admitted > most:
        yield f"fast: {admitted} admitted, but {PEOPLE} clients may have {most}"


def check_clients(result):
    for kind, said in result.clients.items():
        for fault in said["faults"]:
            yield f"{kind}: {fault}"
        counted = result.requests_of(kind)
        if counted > said["sent"] or (kind in ATTENTIVE and counted < said["sent"]):
            yield f"{kind}: clients sent {said['sent']} requests, metrics say {counted}"
        if kind in ATTENTIVE:
            yield from check_answers(result, kind, said)


def check_answers(result, kind, said):
    """Log and metrics know of each answer whether it came whole."""
    unanswered = said["cut"] + said["lost"]
    if said["sent"] != sum(said["answered"].values()) + unanswered:
        yield f"{kind}: clients lost count: {said}"
    for code, count in said["answered"].items():
        # A failure under 200 is an answer that broke off.
        outcomes = ("forwarded", *REFUSED, *(("failed",) if code != "200" else ()))
        whole = result.requests_of(kind, code=code, outcomes=outcomes)
        if count != whole:
            yield f"{kind}: clients got {count} answers {code}, metrics say {whole}"
    broken = result.requests_of(kind, code="200", outcomes=("failed",)) if kind == "flaky" else 0
    if unanswered != broken:
        yield (f"{kind}: {said['cut']} answers broke off and {said['lost']} never came, metrics "
               f"say {broken}")


def check_upstreams(result):
    """An admitted request reached an upstream once, unless its client or server went away."""
    for kind in KINDS:
        begun = result.requests_of(kind)
        admitted = begun - result.requests_of(kind, outcomes=REFUSED)
        forwarded = result.requests_of(kind, outcomes=("forwarded",))
        seen = result.seen[kind]
        most = admitted
        if kind == "flaky":
            # A request that met the death of a server, or got no byte of an answer, may have been
            # sent again, once.
            most += result.trouble.upstream_deaths * FLAKY_AT_ONCE
            most += result.requests_of(kind, code="502")
        if not forwarded <= seen <= most:
            yield f"{kind}: {forwarded} forwarded of {admitted} admitted, upstreams saw {seen}"
        if kind in FAITHFUL and not forwarded == seen == admitted:
            yield f"{kind}: {admitted} admitted, {forwarded} forwarded, upstreams saw {seen}"


def check_decisions(result):
    """Each limit judged each identifier of each request that got so far, once."""
    judged = sum(result.requests_of(kind) for kind in KINDS)
    unjudged = sum(result.requests_of(kind, outcomes=("rejected", "unavailable"))
                   for kind in KINDS)
    for limit in ("1s", "10s"):
        said = result.metrics.total("tidegate_decisions_total", policy="soak", limit=limit)
        if not 2 * (judged - unjudged) <= said <= 2 * judged:
            yield f"limit {limit}: {said} decisions of two identifiers in {judged} requests"


def check_log(result):
    log, requests = result.log, result.metrics.requests()
    dropped = result.metrics.total("tidegate_access_log_dropped_total")
    total = sum(requests.values())
    if log["unfinished"]:
        yield f"the log's last line breaks off after {log['unfinished']} bytes"
    if log["lines"] + dropped != total:
        yield f"{log['lines']} log lines and {dropped} dropped, but {total} requests"
    known = 0
    for route, code, outcome, count in log["counts"]:
        known += count
        if count > requests[route, code, outcome]:
            yield f"{count} log lines say {route} {code} {outcome}, metrics say less"
    if known != log["lines"]:
        yield f"{log['lines'] - known} log lines are not what they should be"


def table(result):
    requests = collections.Counter()
    for (route, code, outcome), count in result.metrics.requests().items():
        requests[route, outcome] += count
    outcomes = ("forwarded", "limited", "rejected", "unavailable", "failed", "aborted")
    total = sum(requests.values())
    trouble = result.trouble
    lines = [f"{result.store}: {result.seconds:.0f} s, {total} requests, "
             f"{total / result.seconds:.0f} a second; upstream killed {trouble.upstream_deaths} "
             f"times, Redis killed {trouble.redis_deaths} and paused {trouble.redis_pauses} times",
             f"  {'route':<11}" + "".join(f"{name:>12}" for name in outcomes)
             + f"{'clients':>12}{'upstreams':>12}"]
    for route in (*KINDS, NO_ROUTE):
        said = result.clients.get(route, {"answered": result.wrk})
        answers = (sum(said["answered"].values()) if route != "fast"
                   else result.wrk["200"] + result.wrk["429"])
        lines.append(f"  {route:<11}" + "".join(f"{requests[route, name]:>12}" for name in outcomes)
                     + f"{answers:>12}{result.seen[route]:>12}")
    rss = [sample[0] for sample in result.samples]
    third, last = result.rss_growth()
    dropped = result.metrics.total("tidegate_access_log_dropped_total")
    lines += [f"  RSS KiB: {rss[0]} at first, {max(rss)} at most, medians of the third and last "
              f"quarter {third:.0f} and {last:.0f}, {result.rss_after} after",
              f"  descriptors: {result.descriptors_before} at first, "
              f"{max(sample[1] for sample in result.samples)} at most, "
              f"{result.descriptors_after} after",
              f"  log: {result.log['lines']} lines + {dropped} dropped = {total} requests; "
              f"exit code {result.exit_code}"]
    return "\n".join(lines)
