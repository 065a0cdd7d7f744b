"""Many requests at once, on both stores; a Redis that goes away; 10,000 streams that are open."""

import asyncio
import collections
import json
import os
import re
import signal
import subprocess
import threading
import time

from idle import room_for
from place import (DAY, HERE, Failed, Provider, cost_of, estimate, free_port, key_of, limits, need, same, scenario,
                   tokens, until)

CHAT = "/v1/chat/completions"
REQUESTS, FIT = 200, 40
MAXIMUM, OUTPUT = 100, 30
STREAMS = 10_000
FIRST = 500  # of these; memory that is there only once is there with them
SLOW = "slow=4000; output=60"
# Of the proxy's own memory, for each stream and the two connections that it has.
STREAM_BYTES_MAX = 24 * 1024
GROWTH_KIB_MAX = 8 * 1024
BODY = {"model": "gpt-x", "max_tokens": MAXIMUM, "messages": [{"role": "user", "content": "one two three"}]}
TEXT = json.dumps(BODY)
STREAM_TEXT = json.dumps({**BODY, "stream": True, "stream_options": {"include_usage": True}})
RESERVED = estimate(len(TEXT), MAXIMUM, {"input": 1, "output": 1})
ONES = "{reserve: auto, settle: auto}"


async def begin(port, trial, text=TEXT):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write((f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {key_of('alice')}\r\nX-Trial: {trial}\r\n"
                  f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(text)}\r\n\r\n{text}")
                 .encode())
    return reader, writer


async def status_of(port, trial):
    """The status of a request whose answer is read to its end."""
    reader, writer = await begin(port, trial)
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    return int(answer.split(b" ", 2)[1]) if answer else 0


async def open_stream(port):
    """A stream over HTTP/1 whose head is read."""
    reader, writer = await begin(port, SLOW, STREAM_TEXT)
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)
    need(head.startswith(b"HTTP/1.1 200 "), "a stream is refused:", head[:200])
    return writer


def at_once(ports, trial, count=REQUESTS):
    async def all_of_them():
        return await asyncio.gather(*[status_of(ports[number % len(ports)], trial) for number in range(count)])
    return collections.Counter(asyncio.run(all_of_them()))


def never_above(place, gateways):
    """All requests are there at once, and each runs until it is released: no settlement makes room. The
    provider adds up what it was asked for at most."""
    result = {}
    thread = threading.Thread(target=lambda: result.update(at_once([one.port for one in gateways], "hold=crowd")))
    thread.start()
    need_done(place, gateways)
    seen = place.provider.seen()
    asked = sum(request["maximum"] + len(request["body"]) / 4 for request in seen)
    need(asked <= FIT * RESERVED, f"{asked} tokens reach the provider, the budget has {FIT * RESERVED}")
    counted = gateways[0].counted()
    place.provider.release("crowd")
    thread.join()
    same("requests at the provider", len(seen), FIT)
    same("counted while they run", counted, FIT * RESERVED)
    same("statuses", result, {200: FIT, 429: REQUESTS - FIT})
    gateways[0].settles_to(FIT * 10)


def need_done(place, gateways):
    """Waits until each request is refused or at the provider."""
    def done():
        refused = sum(one.metric("tidegate_requests_total", outcome="limited") for one in gateways)
        return refused + len(place.provider.seen()) >= REQUESTS
    until(done, 30, f"the decisions about {REQUESTS} requests")


@scenario("200 at once against a budget for 40, counted in process: never above", node=False)
def _(place):
    never_above(place, [place.gateway(tokens(ONES, quota=FIT * RESERVED))])


@scenario("200 at once against a budget for 40, Redis and two proxies: never above", node=False)
def _(place):
    redis = place.redis()
    store = f"store: {{redis: {{url: \"redis://127.0.0.1:{redis.port}/0\", timeout: 2s}}}}\n"
    gateways = [place.gateway(tokens(ONES, quota=FIT * RESERVED), name=name, more=store) for name in ("a", "b")]
    never_above(place, gateways)


@scenario("a budget in use is never exceeded by requests that settle meanwhile, two proxies", node=False)
def _(place):
    redis = place.redis()
    store = f"store: {{redis: {{url: \"redis://127.0.0.1:{redis.port}/0\", timeout: 2s}}}}\ndeny_cache: off\n"
    # Each takes OUTPUT + 3 in truth.
    quota = 40 * (OUTPUT + 3) + RESERVED
    gateways = [place.gateway(tokens(ONES, quota=quota), name=name, more=store) for name in ("a", "b")]
    statuses = collections.Counter()
    for _ in range(4):
        statuses += at_once([one.port for one in gateways], f"output={OUTPUT}; slow=2", 60)
    same("statuses", set(statuses), {200, 429})
    # What is left is less than a request may take, once all that was reserved is settled.
    status = 200
    while status == 200:
        used = sum(sum(request["usage"].values()) for request in place.provider.seen())
        need(used <= quota, f"{used} tokens are used, the quota is {quota}")
        gateways[0].settles_to(used)
        need(len(place.provider.seen()) < 100, "the budget does not end")
        status = gateways[0].ask(CHAT, BODY, trial=f"output={OUTPUT}").status
    need(quota - used < RESERVED, f"{quota - used} of {quota} are left, and a request was refused")


@scenario("Redis that is away between reserve and settle loses no settlement", node=False)
def _(place):
    redis = place.redis()
    store = (f"store: {{redis: {{url: \"redis://127.0.0.1:{redis.port}/0\", timeout: 200ms, "
             "breaker: {failures: 2, probe_every: 100ms}}}\n")
    gateway = place.gateway(tokens(ONES), more=store)
    results = []
    threads = [threading.Thread(target=lambda name=name: results.append(
        gateway.ask(CHAT, BODY, trial=f"hold={name}; input=300; output=100"))) for name in ("one", "two")]
    for number, thread in enumerate(threads):
        thread.start()
        place.provider.seen(number + 1)
    gateway.settles_to(2 * RESERVED, what="while they run")
    redis.kill()
    for name in ("one", "two"):
        place.provider.release(name)
    for thread in threads:
        thread.join()
    same("statuses while Redis is away", [one.status for one in results], [200, 200])
    same("a request while Redis is away", gateway.ask(CHAT, BODY, trial="input=3; output=20").status, 200)
    redis.start()
    # Redis begins empty: what was reserved is lost with it. What came above that is not, nor what was taken since.
    until(lambda: counted_or_none(gateway) is not None, 15, "Redis")
    least, most = 2 * (400 - RESERVED) + 23, 2 * 400 + 23
    need(wait_for(lambda: gateway.counted() >= least, 15),
         f"{gateway.counted()} counted once Redis is back, at least {least} were taken while it was away")
    need(gateway.counted() <= most, f"{gateway.counted()} counted, {most} were taken in all")


@scenario("Redis that stands still between reserve and settle loses no settlement", node=False)
def _(place):
    redis = place.redis()
    store = (f"store: {{redis: {{url: \"redis://127.0.0.1:{redis.port}/0\", timeout: 200ms, "
             "breaker: {failures: 2, probe_every: 100ms}}}\n")
    gateway = place.gateway(tokens(ONES), more=store)
    result = []
    thread = threading.Thread(target=lambda: result.append(
        gateway.ask(CHAT, {**BODY, "max_tokens": 5}, trial="hold=still; input=400; output=5")))
    thread.start()
    place.provider.seen(1)
    reserved = estimate(len(place.provider.last()["body"]), 5, {"input": 1, "output": 1})
    gateway.settles_to(reserved, what="while it runs")
    redis.process.send_signal(signal.SIGSTOP)
    place.provider.release("still")
    thread.join()
    same("status", result[0].status, 200)
    time.sleep(1)
    redis.process.send_signal(signal.SIGCONT)
    until(lambda: counted_or_none(gateway) is not None, 15, "Redis")
    # The first settlement may have reached Redis or not; a repeated one counts once.
    need(wait_for(lambda: gateway.counted() == 405, 15), gateway.counted(), "counted, 405 is right")
    time.sleep(1)
    same("counted later", gateway.counted(), 405)


@scenario("a hand-over to a new process between reserve and settle changes nothing", node=False)
def _(place):
    redis = place.redis()
    gateway = place.gateway(tokens(ONES), more=f"store: {{redis: {{url: \"redis://127.0.0.1:{redis.port}/0\"}}}}\n")
    thread = threading.Thread(target=gateway.ask, args=(CHAT, BODY), kwargs={"trial": "hold=hand-over; output=20"})
    thread.start()
    place.provider.seen(1)
    gateway.settles_to(RESERVED, what="while it runs")
    gateway.process.send_signal(signal.SIGUSR2)
    taken = until(lambda: re.search(r"process (\d+) has taken over", gateway.errors()), 60, "the hand-over")
    try:
        place.provider.release("hand-over")
        thread.join()
        gateway.settles_to(23)
        same("a request to the new process", gateway.ask(CHAT, BODY, trial="output=20").status, 200)
        gateway.settles_to(46)
    finally:
        os.kill(int(taken[1]), signal.SIGKILL)


def counted_or_none(gateway):
    try:
        return gateway.counted()
    except (OSError, Failed, ValueError):
        return None


def wait_for(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


@scenario("requests, tokens and money of user and team are one decision in Redis", node=False)
def _(place):
    redis = place.redis()
    (place.world.folder / "prices.yaml").write_text(
        "as_of: 2026-11-01\ncurrency: usd\nmodels:\n  \"gpt-*\": {input: 1, output: 2}\n")
    gateway = place.gateway(
        f"prices: prices.yaml\nstore: {{redis: {{url: \"redis://127.0.0.1:{redis.port}/0\", timeout: 2s}}}}\n"
        f"policies:\n  requests: {{key: [user], limits: {limits(1000)}}}\n"
        f"  tokens: {{key: [user, \"constant:team\"], limits: {limits()}, cost: {ONES}}}\n"
        "  budget:\n    key: [\"constant:team\"]\n"
        f"    limits: [{{quota: 0.002, unit: usd, {DAY}}}]\n    cost: {{reserve: auto, settle: auto, unit: usd}}\n"
        "routes: [{match: {path: \"/**\"}, upstream: models, policies: [requests, tokens, budget]}]\n")
    cost = cost_of({"input": 3, "output": OUTPUT}, {"input": 1, "output": 2})
    admitted = 0
    # Each is settled before the next one asks: what is reserved of two would end the budget sooner.
    while gateway.ask(CHAT, BODY, trial=f"output={OUTPUT}").status == 200:
        admitted += 1
        need(admitted < 100, "the budget does not end")
        gateway.settles_to(admitted * cost / 1_000_000, "constant:team", "budget")
    reserved = estimate(len(TEXT), MAXIMUM, {"input": 1, "output": 2})
    same("admitted", admitted, (2000 - reserved) // cost + 1)
    gateway.settles_to(admitted, "user:alice", "requests")
    gateway.settles_to(admitted * (OUTPUT + 3), "user:alice", "tokens")
    gateway.settles_to(admitted * (OUTPUT + 3), "constant:team", "tokens")
    gateway.settles_to(admitted * cost / 1_000_000, "constant:team", "budget")


async def open_streams(port, writers, count):
    while len(writers) < count:
        writers += await asyncio.gather(*[open_stream(port) for _ in range(min(250, count - len(writers)))])


def open_over_h2(place, port, count):
    process = place.world.start(["node", HERE / "streams.mjs", port, count, key_of("alice"), SLOW, STREAM_TEXT],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    same("the streams over HTTP/2", process.stdout.readline().strip(), "open")
    return process


@scenario("memory is flat at 10,000 open streams, half of them over HTTP/2")
def _(place):
    # The proxy has a connection to the provider for each, and one to each client over HTTP/1.
    if not room_for(STREAMS * 3 // 2 + 1000):
        print(f"not run: {STREAMS} streams: the proxy may not have so many files open", flush=True)
        return
    provider = Provider(place.world)  # with as many descriptors
    port = free_port()
    gateway = place.gateway(tokens("{reserve: 1, settle: auto}", quota=4_000_000_000), upstream=provider.port,
                            listen=f"{{address: \"127.0.0.1:{port}\", http: [h2, http1]}}", more="threads: 2\n")

    async def hold():
        writers = []
        await open_streams(port, writers, FIRST)
        before = gateway.private_kib()
        await open_streams(port, writers, STREAMS // 2)
        others = open_over_h2(place, port, STREAMS // 2)
        await asyncio.sleep(2)
        full = gateway.private_kib()
        same("streams at the provider", len([one for one in provider.seen() if one["state"] == "running"]), STREAMS)
        await asyncio.sleep(15)  # each has some events
        later = gateway.private_kib()
        for writer in writers:
            writer.close()
        place.world.end(others)
        return before, full, later

    before, full, later = asyncio.run(hold())
    each = (full - before) * 1024 / (STREAMS - FIRST)
    said = f"private memory {before}, {full} and 15 s later {later} KiB: {each:.0f} bytes a stream"
    print(f"     {said}", flush=True)
    need(each <= STREAM_BYTES_MAX, said)
    need(later - full <= GROWTH_KIB_MAX, said)
    until(lambda: gateway.metric("tidegate_client_connections") <= 1, 30, "the end of all connections")
    same("requests that are settled", len(gateway.lines(STREAMS)), STREAMS)
