"""Calls of gRPC of all kinds at once, while their servers are killed and started again.

Google's library for Python is client and server. Each call has to end, with a status that fits what
happened to it; exactly the calls that were admitted are counted; afterwards Tidegate has the memory
and the descriptors that it had after a warm-up.
"""

import asyncio
import collections
import pathlib
import random
import sys
import time

import grpc
from metrics import Metrics
from world import Failed, Tidegate, accepts, free_port, until

HERE = pathlib.Path(__file__).resolve().parent
SERVERS = 3
ADMITTED = 4  # calls with a limit, in an hour, for each second of the run: fewer than come
CHANNELS, CALLERS = 8, 6  # connections, and calls of each at once
PATIENCE = 30  # s: a call that takes longer hangs
HELD = 1_000  # streams of one client at once
PIECE, LARGE = 1 << 20, 100 << 20  # bytes
# What Tidegate may have more afterwards: the heap is not given back to the last page.
GROWTH_KIB = 4 * 1024
LARGE_GROWTH_KIB = 16 * 1024

SETTINGS = """
upstreams:
  api:
    servers: [{servers}]
    max_connections: 2000
    timeouts: {{connect: 2s, idle: 2s}}
    {check}
policies:
  few: {{key: [ip], limits: ["{limit}/h"]}}
  all: {{key: [ip], limits: [10000000/h]}}
routes:
  - {{name: few, match: {{path: "/few/**"}}, upstream: api, policies: [few]}}
  - {{name: all, upstream: api, policies: [all]}}
http2: {{streams: 1000}}
threads: 2
"""
HEALTH = "health_check: {grpc: on, every: 1s, timeout: 1s, unhealthy_after: 1, healthy_after: 1}"
CODES = grpc.StatusCode
# While servers die, any call may find none, or lose its own; INTERNAL is what gRPC makes of an
# answer that breaks off behind its head (RST_STREAM with INTERNAL_ERROR).
LOST = {CODES.UNAVAILABLE}
CUT = LOST | {CODES.INTERNAL}
OPTIONS = [("grpc.enable_retries", 0), ("grpc.use_local_subchannel_pool", 1),
           ("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


class Wrong(Exception):
    """A call that succeeded, with the wrong answer."""


def check(holds, *what):
    if not holds:
        raise Wrong(" ".join(str(one) for one in what))


class Servers:
    """Processes, some of which are killed and started again."""

    def __init__(self, world, logs, count=SERVERS):
        self.world, self.deaths = world, 0
        # The library reports each call that its client has cancelled.
        self.errors = open(logs / "grpc_servers", "ab")
        self.ports = [free_port() for _ in range(count)]
        self.running = [self.start(port) for port in self.ports]
        for port in self.ports:
            until(lambda port=port: accepts(port), 30, "a server of gRPC")

    def start(self, port):
        return self.world.start([sys.executable, HERE / "grpc_server.py", port],
                                stderr=self.errors)

    def urls(self):
        return ", ".join(f'"h2c://127.0.0.1:{port}"' for port in self.ports)

    async def trouble(self, ends):
        """Kills one or all of them, and starts them again, until `ends`."""
        while time.monotonic() < ends:
            await asyncio.sleep(random.uniform(1, 3))
            count = len(self.ports) if random.random() < 0.15 else 1
            dying = random.sample(range(len(self.ports)), count)
            for at in dying:
                self.world.end(self.running[at])
                self.deaths += 1
            await asyncio.sleep(random.uniform(0.1, 1.5))
            for at in dying:
                self.running[at] = self.start(self.ports[at])
        for port in self.ports:
            while not accepts(port):
                await asyncio.sleep(0.1)

    def stop(self):
        for one in self.running:
            self.world.end(one)
        self.errors.close()


# The kinds of calls. Each is given a channel, and returns or raises as gRPC does.

async def unary(channel):
    message = random.randbytes(random.choice((0, 100, 2_000)))
    check(await channel.unary_unary("/all/Echo")(message) == message, "another message came back")


async def large(channel):
    message = b"x" * random.choice((100_000, 1_000_000))
    check(await channel.unary_unary("/all/Echo")(message) == message, "another message came back")


async def compressed(channel):
    message = b"squeeze" * 20_000
    answer = await channel.unary_unary("/all/Echo")(message, compression=grpc.Compression.Gzip)
    check(answer == message, "another message came back")


async def collect(channel):
    count, size = random.randint(0, 20), random.choice((10, 30_000))

    async def pieces():
        for _ in range(count):
            yield b"c" * size
            await asyncio.sleep(0.01)
    answer = await channel.stream_unary("/all/Collect")(pieces())
    check(int(answer) == count * size, "the server got", answer, "bytes of", count * size)


async def serve(channel):
    count, size = random.randint(0, 20), random.choice((10, 30_000))
    got = [len(one) async for one in
           channel.unary_stream("/all/Serve")(f"{count} {size} 0.01".encode())]
    check(got == [size] * count, "messages of", got)


async def chat(channel):
    call = channel.stream_stream("/all/Chat")()
    for at in range(random.randint(1, 20)):
        message = str(at).encode() * random.choice((1, 5_000))
        await call.write(message)
        check(await call.read() in (message, grpc.aio.EOF), "another message came back")
    await call.done_writing()
    check(await call.read() is grpc.aio.EOF, "a message after the last")
    code = await call.code()
    if code != CODES.OK:
        raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(),
                                   await call.details())


async def deadline(channel):
    await channel.unary_unary("/all/Sleep")(b"", timeout=random.uniform(0.05, 0.5))


async def stream_deadline(channel):
    async for _ in channel.unary_stream("/all/Serve")(b"1000 10 0.01", timeout=0.5):
        pass


async def cancelled(call):
    """Ends it as the client does that has changed its mind."""
    await asyncio.sleep(random.uniform(0, 0.2))
    call.cancel()
    # A call may have ended before.
    code = await call.code()
    raise grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), await call.details())


async def cancel(channel):
    await cancelled(channel.unary_unary("/all/Sleep")(b""))


async def stream_cancel(channel):
    call = channel.stream_stream("/all/Chat")()
    await call.write(b"x" * 10_000)
    await cancelled(call)


async def limited(channel):
    await channel.unary_unary("/few/Echo")(b"counted")


KINDS = {unary: {CODES.OK} | LOST, large: {CODES.OK} | CUT, compressed: {CODES.OK} | CUT,
         collect: {CODES.OK} | LOST, serve: {CODES.OK} | CUT, chat: {CODES.OK} | CUT,
         deadline: {CODES.DEADLINE_EXCEEDED} | LOST,
         stream_deadline: {CODES.DEADLINE_EXCEEDED} | CUT,
         cancel: {CODES.CANCELLED} | LOST, stream_cancel: {CODES.CANCELLED} | CUT,
         limited: {CODES.OK, CODES.RESOURCE_EXHAUSTED} | LOST}
# Each of their calls reaches Tidegate: the others may end before.
SURE = {unary, large, compressed, collect, serve, limited}


class Load:
    """Clients that call without end; what became of their calls."""

    def __init__(self, part, port):
        self.part, self.port = part, port
        self.ends = collections.defaultdict(collections.Counter)
        self.slowest = 0.0

    async def one(self, kind, channel):
        began, code = time.monotonic(), CODES.OK
        try:
            await asyncio.wait_for(kind(channel), PATIENCE)
        except grpc.aio.AioRpcError as error:
            code = error.code()
            self.judge(kind, error)
        except asyncio.TimeoutError:
            code = "hung"
            self.part.expect(False, kind.__name__, "has not ended in", PATIENCE, "s")
        except Wrong as wrong:
            code = "wrong"
            self.part.expect(False, kind.__name__, wrong)
        except grpc.aio.UsageError as error:
            # The library's word for a write to a call that has ended.
            code = "ended"
            self.part.expect(kind in (chat, stream_cancel), kind.__name__, error)
        else:
            self.part.expect(CODES.OK in KINDS[kind], kind.__name__, "ended with OK")
        self.ends[kind][code] += 1
        self.slowest = max(self.slowest, time.monotonic() - began)

    def judge(self, kind, error):
        self.part.expect(error.code() in KINDS[kind], kind.__name__, "ended with",
                         error.code(), error.details())
        if kind is limited and error.code() == CODES.RESOURCE_EXHAUSTED:
            told = error.trailing_metadata().get("grpc-retry-pushback-ms", "-1")
            self.part.expect(int(told) > 0, "pushback", told)

    async def client(self, ends):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self.port}", options=OPTIONS) as channel:
            async def caller():
                while time.monotonic() < ends:
                    await self.one(random.choice(list(KINDS)), channel)
            await asyncio.gather(*(caller() for _ in range(CALLERS)))

    def run(self, servers, seconds):
        ends = time.monotonic() + seconds

        async def all_of_it():
            await asyncio.gather(servers.trouble(ends),
                                 *(self.client(ends) for _ in range(CHANNELS)))
        asyncio.run(all_of_it())

    def count(self, *kinds):
        return sum(sum(self.ends[kind].values()) for kind in kinds)

    def __str__(self):
        return "; ".join(
            f"{kind.__name__} " + ", ".join(f"{getattr(code, 'name', code)} {count}"
                                            for code, count in found.most_common())
            for kind, found in sorted(self.ends.items(), key=lambda one: one[0].__name__))


def quiet_figures(tidegate):
    """(private memory in KiB, descriptors), once its connections to servers have gone. The library
    keeps those of closed channels until it is used again: as many each time."""
    def is_quiet():
        return Metrics(tidegate.admin_port).total("tidegate_upstream_connections") == 0
    try:
        until(is_quiet, 30, "quiet")
    except Failed:
        pass  # the descriptors say what is left
    # Checks of servers, and our own questions to the admin listener, have some for a moment.
    descriptors = []
    for _ in range(30):
        descriptors.append(tidegate.descriptors())
        time.sleep(0.1)
    return tidegate.private_kib(), min(descriptors)


def check_counts(part, tidegate, load, limit):
    """Exactly the admitted calls of the limit; each call is one request of the metrics."""
    figures = Metrics(tidegate.admin_port)
    admitted = figures.total("tidegate_decisions_total", policy="few", outcome="admitted")
    denied = figures.total("tidegate_decisions_total", policy="few", outcome="denied")
    of_limit = load.ends[limited]
    part.expect(admitted == min(limit, load.count(limited)), "admitted", admitted)
    part.expect(denied == of_limit[CODES.RESOURCE_EXHAUSTED], "denied", denied, "and clients saw",
                of_limit[CODES.RESOURCE_EXHAUSTED])
    requests = sum(figures.requests().values())
    sure, most = load.count(*SURE), load.count(*KINDS)
    part.expect(sure <= requests <= most, "requests:", requests, "of", sure, "to", most)
    part.expect(figures.total("tidegate_requests_in_flight") == 0, "requests are left")


def start(place, servers, name, limit=1, check=""):
    port = free_port()
    settings = SETTINGS.format(servers=servers.urls(), limit=limit, check=check)
    listen = f"{{address: '127.0.0.1:{port}', http: h2}}"
    return Tidegate(place.world, place.program, settings, listen=listen, name=name), port


def try_killed(place):
    part = place.part("killed")
    warm_up = min(60.0, max(10.0, place.seconds / 5))
    limit = int(ADMITTED * (warm_up + place.seconds))
    servers = Servers(place.world, place.logs)
    tidegate, port = start(place, servers, "killed", limit, HEALTH)
    load = Load(part, port)
    load.run(servers, warm_up)
    before = quiet_figures(tidegate)
    load.run(servers, place.seconds)
    after = quiet_figures(tidegate)
    part.expect(after[0] <= before[0] + GROWTH_KIB, "memory has grown from", before[0], "KiB to",
                after[0])
    part.expect(after[1] <= before[1], "descriptors were", before[1], "and are", after[1],
                tidegate.open_files())
    check_counts(part, tidegate, load, limit)
    stop(part, tidegate, servers)
    part.found = (f"{load.count(*KINDS)} calls, {servers.deaths} servers killed, the longest call "
                  f"{load.slowest:.1f} s, private memory {before[0]} to {after[0]} KiB, "
                  f"descriptors {before[1]} to {after[1]}: {load}")
    yield part


def stop(part, tidegate, servers):
    """Tidegate ends as it should, and so do the servers."""
    code = tidegate.stop()
    part.expect(code == 0 and "Sanitizer" not in tidegate.errors(), "Tidegate ended with", code)
    servers.stop()


async def hold_streams(part, tidegate, port):
    """Opens streams until all are there at once; each then has a message both ways."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        method = channel.stream_stream("/all/Chat")
        calls = [method() for _ in range(HELD)]
        for turn in (b"first", b"last"):
            await asyncio.gather(*(call.write(turn) for call in calls))
            heard = await asyncio.gather(*(call.read() for call in calls))
            part.expect(heard == [turn] * HELD, heard.count(turn), "streams heard", turn)
        figures = Metrics(tidegate.admin_port)
        connections = figures.total("tidegate_client_connections")
        memory = tidegate.private_kib()
        await asyncio.gather(*(call.done_writing() for call in calls))
        ends = await asyncio.gather(*(call.code() for call in calls))
        part.expect(ends == [CODES.OK] * HELD, "streams ended with", set(ends))
        part.expect(connections == 1, "connections of the client:", connections)
        return memory


async def send_large(part, tidegate, port):
    """A message as large as many, and many that are as large together, both ways. The most private
    memory that Tidegate had."""
    most, done = 0, asyncio.Event()

    async def watch():
        nonlocal most
        while not done.is_set():
            most = max(most, tidegate.private_kib())
            await asyncio.sleep(0.05)

    async def pieces():
        for _ in range(LARGE // PIECE):
            yield b"p" * PIECE
    watching = asyncio.create_task(watch())
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=OPTIONS) as channel:
        got = await channel.stream_unary("/all/Collect")(pieces(), timeout=120)
        part.expect(int(got) == LARGE, "the server got", got, "bytes in pieces")
        back = 0
        async for one in channel.stream_stream("/all/Chat")(pieces(), timeout=120):
            back += len(one)
        part.expect(back == LARGE, "the client got back", back, "bytes in pieces")
        whole = await channel.unary_unary("/all/Echo")(b"w" * LARGE, timeout=120)
        part.expect(len(whole) == LARGE, "the message came back with", len(whole), "bytes")
    done.set()
    await watching
    return most


def try_large(place):
    part = place.part("large calls")
    servers = Servers(place.world, place.logs, 1)
    tidegate, port = start(place, servers, "large")
    idle = tidegate.private_kib()
    held = asyncio.run(hold_streams(part, tidegate, port))
    before = quiet_figures(tidegate)
    most = asyncio.run(send_large(part, tidegate, port))
    part.expect(most <= before[0] + LARGE_GROWTH_KIB, "memory has grown from", before[0],
                "KiB to", most)
    stop(part, tidegate, servers)
    part.found = (f"{HELD} streams of a connection at once (private memory {idle} KiB, then "
                  f"{held}), 100 MiB in pieces and as one message ({before[0]} KiB, at most "
                  f"{most})")
    yield part
