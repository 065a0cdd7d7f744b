"""WebSockets through Tidegate: python3-websockets over HTTP/1.1, python3-wsproto over HTTP/2."""

import asyncio
import ssl

import h2.exceptions
import websockets.client
import websockets.exceptions
import wsproto.connection
import wsproto.events
import wsproto.extensions
import wsproto.frame_protocol

from peer import CONNECT_PROTOCOL, Gone, Peer

SIZES = (0, 125, 126, 65_535, 65_536, 2_000_000)
AT_ONCE = 40
NOT_IMPLEMENTED = 501


# ---- HTTP/1.1

async def talk(part, url, tls):
    options = {"ssl": tls, "max_size": None} if tls else {"max_size": None}
    for compression in ("deflate", None):
        async with websockets.client.connect(f"{url}/ws/x", compression=compression,
                                             subprotocols=["chat"], **options) as socket:
            part.expect(socket.subprotocol == "chat", "subprotocol", socket.subprotocol)
            part.expect(bool(socket.extensions) == bool(compression), socket.extensions)
            for size in SIZES:
                for message in ("x" * size, bytes(size)):
                    await socket.send(message)
                    part.expect(await socket.recv() == message, size, "bytes did not come back")
            # A message in several frames, and a ping inside it.
            await socket.send(["one ", "two ", "three"])
            part.expect(await socket.recv() == "one two three", "a message in frames")
            await asyncio.wait_for(await socket.ping(), 20)
    async with websockets.client.connect(f"{url}/ws/close", **options) as socket:
        await socket.send("x")
        await socket.recv()
        try:
            await socket.recv()
            part.expect(False, "no Close")
        except websockets.exceptions.ConnectionClosed as closed:
            part.expect(closed.rcvd is not None and closed.rcvd.code == 4000, closed)
    try:
        async with websockets.client.connect(f"{url}/no", **options):
            part.expect(False, "a tunnel on a route without")
    except websockets.exceptions.InvalidStatusCode as refused:
        part.expect(refused.status_code == 200, refused)

    async def one(i):
        async with websockets.client.connect(f"{url}/ws/{i}", **options) as socket:
            for turn in range(20):
                await socket.send(f"{i} {turn}")
                part.expect(await socket.recv() == f"{i} {turn}", "not its own message")

    await asyncio.gather(*[one(i) for i in range(AT_ONCE)])


def try_http1(place):
    for name, _, port, tls in place.transports():
        part = place.part(f"python3-websockets {name}")
        if tls:
            tls = ssl.create_default_context(cafile=str(place.authority))
        url = f"{'wss' if tls else 'ws'}://localhost:{port}"
        try:
            asyncio.run(asyncio.wait_for(talk(part, url, tls), 120))
        except (OSError, asyncio.TimeoutError, websockets.exceptions.WebSocketException) as error:
            part.expect(False, type(error).__name__, error)
        part.found = f"messages of up to {max(SIZES)} bytes; {AT_ONCE} at once"
        yield part


# ---- HTTP/2 (RFC 8441)

class Tunnel:
    """A WebSocket on a stream of a Peer, with its handshake behind it."""

    def __init__(self, peer, path="/ws/x", fields=(), protocol="websocket", compress=False):
        self.peer, self.taken = peer, 0
        offered = [("sec-websocket-extensions", "permessage-deflate")] if compress else []
        self.stream = peer.begin(
            [(":method", "CONNECT"), (":protocol", protocol), (":scheme", peer.scheme),
             (":authority", "localhost"), (":path", path), ("sec-websocket-version", "13"),
             *offered, *fields], end=False)
        answer = peer.answers[self.stream]
        peer.until(lambda: answer.status or answer.reset is not None, "a tunnel")
        self.answer, self.status = answer, answer.status
        extensions = []
        accepted = answer.field("sec-websocket-extensions")
        if accepted:
            extensions = [wsproto.extensions.PerMessageDeflate()]
            extensions[0].finalize(accepted)
        self.frames = wsproto.connection.Connection(wsproto.connection.CLIENT, extensions)
        self.events = []

    def send(self, event):
        self.peer.send(self.stream, self.frames.send(event))

    def next(self):
        """The next event; None: the stream has ended."""
        while not self.events:
            if self.taken < len(self.answer.body):
                self.frames.receive_data(self.answer.body[self.taken:])
                self.taken = len(self.answer.body)
                self.events = list(self.frames.events())
            elif self.answer.is_whole or self.answer.reset is not None:
                return None
            else:
                self.peer.read()
        return self.events.pop(0)

    def ask(self, message):
        """The answer to it."""
        kind = wsproto.events.TextMessage if isinstance(message, str) else \
            wsproto.events.BytesMessage
        self.send(kind(message))
        found = type(message)()
        while True:
            event = self.next()
            if event is None:
                return None
            if isinstance(event, kind):
                found += event.data
                if event.message_finished:
                    return found


def judge_tunnels(part, port, tls):
    with Peer(port, tls) as peer:
        part.expect(peer.announced(CONNECT_PROTOCOL) == 1, "RFC 8441 is not announced")
        for compress in (False, True):
            tunnel = Tunnel(peer, compress=compress)
            part.expect(tunnel.status == 200, tunnel.answer)
            part.expect(tunnel.answer.field("sec-websocket-accept") == "",
                        "HTTP/2 has no Sec-WebSocket-Accept")
            part.expect(bool(tunnel.answer.field("sec-websocket-extensions")) == compress,
                        tunnel.answer.fields)
            for size in SIZES:
                for message in ("x" * size, bytes(size)):
                    part.expect(tunnel.ask(message) == message, size, "bytes did not come back")
            tunnel.send(wsproto.events.Ping(b"there?"))
            part.expect(isinstance(tunnel.next(), wsproto.events.Pong), "no pong")
            tunnel.send(wsproto.events.CloseConnection(1000))
            closed = tunnel.next()
            part.expect(getattr(closed, "code", None) == 1000, "Close", closed)
            part.expect(tunnel.next() is None and tunnel.answer.is_whole, tunnel.answer)
        judge_more_tunnels(part, peer)


def judge_more_tunnels(part, peer):
    """Beside each other, and beside requests."""
    many = [Tunnel(peer, f"/ws/{i}") for i in range(AT_ONCE)]
    for turn in range(3):
        for i, tunnel in enumerate(many):
            part.expect(tunnel.ask(f"{i} {turn}") == f"{i} {turn}", "not its own message")
        part.expect(peer.ask().status == 200, "a request beside tunnels")
    tunnel = Tunnel(peer, "/ws/close", [("sec-websocket-protocol", "chat")])
    part.expect(tunnel.answer.field("sec-websocket-protocol") == "chat", tunnel.answer.fields)
    tunnel.ask("x")
    closed = tunnel.next()
    part.expect(getattr(closed, "code", None) == 4000, "Close", closed)
    for path, protocol in (("/ws/x", "connect-udp"), ("/no", "websocket")):
        tunnel = Tunnel(peer, path, protocol=protocol)
        part.expect(tunnel.status == NOT_IMPLEMENTED, path, protocol, tunnel.answer)
    part.expect(peer.ask().status == 200, "the connection does not go on")


def try_http2(place):
    for name, _, port, tls in place.transports():
        part = place.part(f"python3-wsproto on python3-h2, {name}")
        try:
            judge_tunnels(part, port, tls)
        except (OSError, Gone, h2.exceptions.ProtocolError) as error:
            part.expect(False, type(error).__name__, error)
        part.found = f"messages of up to {max(SIZES)} bytes; {AT_ONCE} tunnels on one connection"
        yield part
