#!/usr/bin/env python3
"""A provider of models for tests: provider.py PORT

It speaks the dialects of dialects.py over HTTP/1.1 on loopback, takes each word of a prompt for a token, and
knows the true usage of each request. It does what the field `x-trial` of a request says, a list such as
`output=20; cached=3; cut=2`:

    input, cached, cache_write, output, reasoning   tokens; `output` is never above the request's maximum
    no_usage      the answer does not say its usage
    echo          the text is the prompt's last text, in one piece
    deltas        how many `message_delta` a stream of Anthropic has
    fail          the status of an error; with fail_times and name: only the first times for that name
    retry_after   of an error: the value of Retry-After
    drop          the connection is reset: before the answer's head
    cut           the connection is reset: of a stream behind so many events, else behind half of the body
    gzip          the answer is compressed, whatever the request accepts
    pieces        so many bytes are written at a time
    slow          milliseconds between events
    hold          nothing more is sent until /_trial/release?name=...: of a stream after half of its events,
                  else before the head of the answer

/_trial/seen is a list of the requests so far: fields, body, true usage, what became of each. /_trial/forget
empties it, and forgets what was released.
"""

import asyncio
import collections
import gzip
import json
import socket
import struct
import sys
import urllib.parse

from dialects import Answer, Usage, compact, dialect_of

HEAD_MAX = 1 << 20


class Request:
    def __init__(self, method, target, version, fields):
        self.method, self.target, self.version, self.fields = method, target, version, fields
        self.path, _, query = target.partition("?")
        self.query = dict(urllib.parse.parse_qsl(query))
        self.body = b""
        self.usage = None
        self.maximum = None
        self.state = "running"
        settings = (one.partition("=") for one in self.field("x-trial").split(";") if one.strip())
        self.trial = {name.strip(): value.strip() or "1" for name, _, value in settings}

    def field(self, name):
        return next((value for one, value in self.fields if one.lower() == name), "")

    def number(self, name, default=0):
        return int(self.trial.get(name, default))

    def seen(self):
        return {"method": self.method, "target": self.target, "version": self.version, "fields": self.fields,
                "body": self.body.decode("latin-1"), "usage": self.usage and self.usage.kinds(),
                "maximum": self.maximum, "state": self.state}


class Cut(Exception):
    """The request wants its connection to be reset."""


class Provider:
    def __init__(self):
        self.requests = []
        self.releases = collections.defaultdict(asyncio.Event)
        self.failed = collections.Counter()

    async def connection(self, reader, writer):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while request := await self.read(reader, writer):
                await self.answer(request, writer)
                if request.field("connection").lower() == "close":
                    break
        except Cut:
            # So that the peer gets a reset, and no orderly end.
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                                       struct.pack("ii", 1, 0))
            writer.transport.abort()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    async def read(self, reader, writer):
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return None
        lines = head.decode("latin-1").split("\r\n")
        fields = [tuple(part.strip() for part in line.split(":", 1)) for line in lines[1:] if line]
        request = Request(*lines[0].split(" "), fields)
        if not request.path.startswith("/_trial/"):
            self.requests.append(request)
        if request.field("expect"):
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if request.field("transfer-encoding"):
            while size := int(await reader.readuntil(b"\r\n"), 16):
                request.body += await reader.readexactly(size)
                await reader.readexactly(2)
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass
        elif size := int(request.field("content-length") or 0):
            request.body = await reader.readexactly(size)
        return request

    async def answer(self, request, writer):
        try:
            if request.path.startswith("/_trial/"):
                await self.control(request, writer)
            elif dialect := dialect_of(request.path):
                await self.generate(request, dialect, writer)
            else:
                await self.other(request, writer)
            request.state = "answered"
        except Cut:
            request.state = "cut"
            raise
        except (ConnectionError, OSError):
            request.state = "left"
            raise

    async def control(self, request, writer):
        answer = {}
        if request.path == "/_trial/seen":
            answer = [one.seen() for one in self.requests]
        elif request.path == "/_trial/forget":
            self.requests.clear()
            self.releases.clear()
            self.failed.clear()
        elif request.path == "/_trial/release":
            self.releases[request.query["name"]].set()
        await self.send(writer, 200, [("Content-Type", "application/json")], json.dumps(answer).encode())

    async def other(self, request, writer):
        """An application: 200, or the status that the request names."""
        answer = {"path": request.path, "over": request.field("x-tidegate-over")}
        await self.send(writer, request.number("fail", 200), [("Content-Type", "application/json")],
                        json.dumps(answer).encode())

    async def send(self, writer, status, fields, body, cut=False):
        lines = [f"HTTP/1.1 {status} Because", *[f"{name}: {value}" for name, value in fields],
                 f"Content-Length: {len(body)}"]
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if cut:
            writer.write(head + body[:len(body) // 2])
            await writer.drain()
            await asyncio.sleep(0.1)
            raise Cut
        writer.write(head + body)
        await writer.drain()

    async def generate(self, request, dialect, writer):
        try:
            body = json.loads(request.body)
        except ValueError:
            return await self.fail(request, dialect, 400, "We could not parse the JSON body.", writer)
        request.maximum = dialect.maximum(body)
        if request.maximum:
            request.maximum *= dialect.choices(body)
        if "drop" in request.trial:
            raise Cut
        if (status := request.number("fail")) and self.fails(request):
            return await self.fail(request, dialect, status, f"The trial wants {status}.", writer)
        answer = self.make(request, dialect, body)
        if dialect.streams(body, request.path):
            return await self.stream(request, dialect, answer, body, writer)
        if "hold" in request.trial:
            await self.releases[request.trial["hold"]].wait()
        text = compact(dialect.whole(answer)).encode()
        fields = [("Content-Type", dialect.media_type), *dialect.fields()]
        if "gzip" in request.trial:
            text = gzip.compress(text)
            fields.append(("Content-Encoding", "gzip"))
        if size := request.number("pieces"):
            return await self.send_pieces(writer, fields, text, size)
        await self.send(writer, 200, fields, text, "cut" in request.trial)

    async def send_pieces(self, writer, fields, body, size):
        lines = ["HTTP/1.1 200 OK", *[f"{name}: {value}" for name, value in fields], f"Content-Length: {len(body)}"]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        for begin in range(0, len(body), size):
            writer.write(body[begin:begin + size])
            await writer.drain()
            await asyncio.sleep(0)

    def fails(self, request):
        """Always, or as often as the request says for its name."""
        times = request.number("fail_times")
        self.failed[request.trial.get("name")] += 1
        return not times or self.failed[request.trial.get("name")] <= times

    async def fail(self, request, dialect, status, message, writer):
        fields = [("Content-Type", "application/json"), *dialect.fields(), *dialect.error_fields(status)]
        if "retry_after" in request.trial:
            fields.append(("Retry-After", request.trial["retry_after"]))
        await self.send(writer, status, fields, compact(dialect.error(status, message)).encode())

    def make(self, request, dialect, body):
        """The answer to a request; its true usage is that of the request, too."""
        wanted = request.number("output", 7)
        maximum = dialect.maximum(body)
        output = wanted if maximum is None else min(wanted, maximum)
        usage = Usage(input=request.number("input", dialect.prompt(body)), cached=request.number("cached"),
                      cache_write=request.number("cache_write"), output=output,
                      reasoning=min(request.number("reasoning"), output))
        pieces = [f"word{number} " for number in range(output)]
        if "echo" in request.trial:
            pieces = [last_text(body)]
        if body.get("encoding_format"):
            pieces = [body["encoding_format"]]
        choices = dialect.choices(body)
        usage.output *= choices
        request.usage = usage
        return Answer(model=dialect.model(body, request.path), usage=usage, texts=[pieces] * choices,
                      finished=output == wanted, tells_usage="no_usage" not in request.trial,
                      message_deltas=request.number("deltas", 1))

    async def stream(self, request, dialect, answer, body, writer):
        events = list(dialect.events(answer, body))
        media_type = dialect.stream_type
        if dialect.paths.pattern.startswith("^/v1(?:beta)") and request.query.get("alt") != "sse":
            events, media_type = list(dialect.array(answer)), dialect.media_type
        fields = [("Content-Type", media_type), ("Cache-Control", "no-cache"), *dialect.fields(),
                  ("Transfer-Encoding", "chunked")]
        if "gzip" in request.trial:
            fields.append(("Content-Encoding", "gzip"))
            events = [gzip.compress(b"".join(events))]
        lines = ["HTTP/1.1 200 OK", *[f"{name}: {value}" for name, value in fields]]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        for place, data in enumerate(events):
            if "cut" in request.trial and place == request.number("cut"):
                await writer.drain()
                await asyncio.sleep(0.1)  # so that all before it arrives
                raise Cut
            if "hold" in request.trial and place == len(events) // 2:
                await self.wait(request, writer)
            await self.write_event(request, writer, data)
        writer.write(b"0\r\n\r\n")
        await writer.drain()

    async def wait(self, request, writer):
        """Until the release, or until the client has left."""
        await writer.drain()
        while not self.releases[request.trial["hold"]].is_set():
            if writer.transport.is_closing():
                raise ConnectionResetError
            await asyncio.sleep(0.01)

    async def write_event(self, request, writer, data):
        size = request.number("pieces", len(data)) or 1
        for begin in range(0, len(data), size):
            piece = data[begin:begin + size]
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            if size < len(data):
                await asyncio.sleep(0)
        if slow := request.number("slow"):
            await asyncio.sleep(slow / 1000)
        if writer.transport.is_closing():
            raise ConnectionResetError


def last_text(value):
    """The last text of a prompt."""
    if isinstance(value, dict):
        value = [value.get(name) for name in ("contents", "messages", "input", "prompt", "parts", "content", "text")
                 if name in value]
    while isinstance(value, list) and value:
        value = value[-1]
    return last_text(value) if isinstance(value, dict) else value


async def main():
    server = await asyncio.start_server(Provider().connection, "127.0.0.1", int(sys.argv[1]), limit=HEAD_MAX,
                                        backlog=4096)
    print(f"listening on 127.0.0.1:{sys.argv[1]}", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
