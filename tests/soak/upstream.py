"""An upstream that counts what it sees and misbehaves when asked: upstream.py PORT COUNTERS

The path says how to answer: /KIND/MANNER/..., where MANNER is one of those in `answer_for`. One
thread, one loop; it lives until it is killed.
"""

import select
import socket
import struct
import sys
import time

from ledger import KINDS, SharedCounters

READ_BYTES = 262_144
BULK_BYTES = 300_000
HUGE_BYTES = 4_000_000
SLOW_SECONDS = 0.3
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: on, for no time


def answer(body, status=b"200 OK"):
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


SMALL = answer(b"x" * 100)
BULK = answer(b"b" * BULK_BYTES)
HUGE = answer(b"h" * HUGE_BYTES)
# Less than it announces; a chunk without its end; a malformed head; nothing.
CUT = BULK[:20_000]
CUT_CHUNK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n400\r\nand no"
GARBAGE = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"

# What to send, and whether to close (or reset) behind it.
MANNERS = {b"ok": (SMALL, None), b"slow": (SMALL, None), b"bulk": (BULK, None),
           b"huge": (HUGE, None), b"cut": (CUT, "close"), b"chunkcut": (CUT_CHUNK, "close"),
           b"reset": (CUT, "reset"), b"mute": (b"", "close"), b"garbage": (GARBAGE, "close")}


class Peer:
    def __init__(self, connection):
        self.connection = connection
        self.input = b""
        self.output = memoryview(b"")
        self.body_left = 0  # of the request's; -1: chunked, until its end has been seen
        self.tail = b""  # the last bytes of a chunked body
        self.manner = None
        self.ending = None


class Upstream:
    def __init__(self, port, counters):
        self.counters = counters
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.listener.setblocking(False)
        self.poll = select.epoll()
        self.poll.register(self.listener.fileno(), select.EPOLLIN)
        self.peers = {}
        self.late = []  # (when, descriptor): slow answers, the earliest first

    def run(self):
        while True:
            patience = max(0, self.late[0][0] - time.monotonic()) if self.late else -1
            for descriptor, events in self.poll.poll(patience):
                if descriptor == self.listener.fileno():
                    self.accept()
                    continue
                peer = self.peers.get(descriptor)
                if peer is None:
                    continue
                try:
                    if events & select.EPOLLOUT:
                        self.send(peer)
                    elif events & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
                        self.receive(peer)
                except OSError:
                    self.drop(peer)
            self.send_what_is_due()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except BlockingIOError:
                return
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A thousand answers that clients do not read must not fill this machine's buffers from
            # here.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 131_072)
            self.peers[connection.fileno()] = Peer(connection)
            self.poll.register(connection.fileno(), select.EPOLLIN)

    def drop(self, peer):
        self.peers.pop(peer.connection.fileno(), None)
        peer.connection.close()

    def receive(self, peer):
        data = peer.connection.recv(READ_BYTES)
        if not data:
            return self.drop(peer)
        # The common case: one whole request and nothing else.
        if not peer.input and peer.manner is None and data.startswith(b"GET /fast/"):
            if data.endswith(b"\r\n\r\n"):
                self.counters.add(0)
                peer.connection.send(SMALL)
                return
        peer.input += data
        if peer.manner is None and not self.begin(peer):
            return
        self.read_body(peer)

    def begin(self, peer):
        head, end, rest = peer.input.partition(b"\r\n\r\n")
        if not end:
            return False
        peer.input = rest
        _, kind, manner = head.split(b" ", 2)[1].split(b"/", 3)[:3]
        self.counters.add(KINDS.index(kind.decode()))
        peer.manner = manner
        lower = head.lower()
        if b"\r\ntransfer-encoding: chunked" in lower:
            peer.body_left, peer.tail = -1, b""
        elif b"\r\ncontent-length: " in lower:
            peer.body_left = int(lower.split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0])
        else:
            peer.body_left = 0
        return True

    def read_body(self, peer):
        if peer.body_left < 0:
            # The clients' bodies hold no such bytes, and nothing follows them.
            peer.tail = (peer.tail + peer.input)[-5:]
            peer.input = b""
            if peer.tail != b"0\r\n\r\n":
                return
            peer.body_left = 0
        taken = min(peer.body_left, len(peer.input))
        peer.input = peer.input[taken:]
        peer.body_left -= taken
        if peer.body_left == 0:
            self.reply(peer)

    def reply(self, peer):
        manner, peer.manner = peer.manner, None
        data, peer.ending = MANNERS[manner]
        peer.output = memoryview(data)
        if manner == b"slow":
            self.late.append((time.monotonic() + SLOW_SECONDS, peer.connection.fileno(), peer))
        else:
            self.send(peer)

    def send_what_is_due(self):
        while self.late and self.late[0][0] <= time.monotonic():
            _, descriptor, peer = self.late.pop(0)
            if self.peers.get(descriptor) is not peer:
                continue
            try:
                self.send(peer)
            except OSError:
                self.drop(peer)

    def send(self, peer):
        while peer.output:
            try:
                peer.output = peer.output[peer.connection.send(peer.output):]
            except BlockingIOError:
                self.poll.modify(peer.connection.fileno(), select.EPOLLOUT)
                return
        self.poll.modify(peer.connection.fileno(), select.EPOLLIN)
        if peer.ending == "reset":
            peer.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        if peer.ending is not None:
            self.drop(peer)


if __name__ == "__main__":
    Upstream(int(sys.argv[1]), SharedCounters(sys.argv[2])).run()
