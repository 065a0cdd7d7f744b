"""Clients that are slow, rude, broken or gone, each counting what came of it.

clients.py PORT SECONDS prints JSON: for each kind `sent` (requests begun), `answered` (by status,
whole), `cut` (answers that broke off), `lost` (no answer, and the connection ended), and `faults`
(what must not happen).
"""

import json
import random
import socket
import struct
import sys
import threading
import time

from ledger import NO_ROUTE
from upstream import BULK_BYTES, HUGE_BYTES

PATIENCE = 20.0
RESET = struct.pack("ii", 1, 0)
FLAKY_MANNERS = ("ok", "ok", "ok", "slow", "cut", "chunkcut", "reset", "mute", "garbage", "bulk")
IDLE_CLOSE_SECONDS = 5.0  # client_idle of the configuration
TOO_MANY_FIELDS = b"".join(b"X-%d: 1\r\n" % i for i in range(150))
NONSENSE = (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n",
            b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n",
            b"GET / HTTP/1.1\nHost: a\n\n", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/2.0\r\n\r\n",
            b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /a/..%2f..%2fb HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\n" + TOO_MANY_FIELDS + b"\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 40_000 + b"\r\n\r\n")


class Lost(Exception):
    """The connection ended before an answer began."""


class Cut(Exception):
    """The answer began and broke off."""


class Ledger:
    """The counts of one thread for one kind."""

    def __init__(self):
        self.sent = 0
        self.answered = {}
        self.cut = 0
        self.lost = 0
        self.faults = []

    def count(self, status):
        self.answered[status] = self.answered.get(status, 0) + 1

    def fault(self, text):
        if len(self.faults) < 5:
            self.faults.append(text)


class Wire:
    """A connection that reads answers."""

    def __init__(self, port, receive_bytes=None):
        self.socket = socket.socket()
        if receive_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect(("127.0.0.1", port))
        self.held = b""
        self.portion, self.pause = 65_536, 0.0

    def close(self, reset=False):
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.socket.close()

    def more(self, fault):
        try:
            data = self.socket.recv(self.portion)
        except OSError as error:
            raise fault from error
        if not data:
            raise fault
        self.held += data
        if self.pause:
            time.sleep(self.pause)

    def answer(self):
        """(status, bytes of the body); raises Lost or Cut."""
        while b"\r\n\r\n" not in self.held:
            self.more(Cut() if self.held else Lost())
        head, _, self.held = self.held.partition(b"\r\n\r\n")
        status = int(head[9:12])
        lower = head.lower()
        if b"\r\ntransfer-encoding: chunked" in lower:
            return status, self.chunks()
        if b"\r\ncontent-length: " not in lower:
            raise ValueError(f"an answer of unknown length: {head!r}")
        length = int(lower.split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0])
        left = length
        while left > len(self.held):
            left -= len(self.held)
            self.held = b""
            self.more(Cut())
        self.held = self.held[left:]
        return status, length

    def chunks(self):
        length = 0
        while True:
            while b"\r\n" not in self.held:
                self.more(Cut())
            line, _, self.held = self.held.partition(b"\r\n")
            size = int(line, 16)
            while len(self.held) < size + 2:
                self.more(Cut())
            self.held = self.held[size + 2:]
            if size == 0:
                return length
            length += size


def head(method, kind, manner, fields=b""):
    person = random.randrange(2000)
    return (b"%s /%s/%s/x HTTP/1.1\r\nHost: soak.test\r\nX-Forwarded-For: 10.9.%d.%d\r\n"
            b"X-User-Id: odd-%d\r\n%s\r\n") % (method, kind.encode(), manner.encode(),
                                               person // 250, person % 250, person, fields)


def ask(wire, ledger, request):
    """One request and its answer. False: the connection is of no more use."""
    ledger.sent += 1
    try:
        wire.socket.sendall(request)
    except OSError:
        pass  # it may have answered all the same
    try:
        status, length = wire.answer()
    except Lost:
        ledger.lost += 1
        return None
    except Cut:
        ledger.cut += 1
        return None
    ledger.count(status)
    return status, length


def patient(port, ledger):
    """Sends and reads a few bytes at a time, and is served like other clients."""
    wire = Wire(port, receive_bytes=4096)
    wire.portion, wire.pause = 2_000, 0.002
    body = b"p" * 2_000
    request = head(b"POST", "patient", "bulk" if random.random() < 0.1 else "ok",
                   b"Content-Length: %d\r\n" % len(body)) + body
    ledger.sent += 1
    step = random.choice((7, 64, 400))
    for at in range(0, len(request), step):
        wire.socket.sendall(request[at:at + step])
        time.sleep(0.5 * step / len(request))
    ledger.count(wire.answer()[0])
    wire.close()


def pipeline(port, ledger):
    """Many requests in one write; the answers come in order."""
    wire = Wire(port)
    for _ in range(10):
        count = random.randint(2, 40)
        ledger.sent += count
        wire.socket.sendall(b"".join(head(b"GET", "pipeline", "ok") for _ in range(count)))
        for _ in range(count):
            ledger.count(wire.answer()[0])
        time.sleep(0.01)
    wire.close()


def bulk(port, ledger):
    """Large bodies both ways, with a length and in chunks, all of them whole."""
    wire = Wire(port)
    for chunked in (False, True):
        if chunked:
            piece = b"8000\r\n" + b"c" * 0x8000 + b"\r\n"
            request = head(b"POST", "bulk", "bulk", b"Transfer-Encoding: chunked\r\n")
            request += piece * random.randint(1, 12) + b"0\r\n\r\n"
        else:
            size = random.randrange(400_000)
            request = head(b"PUT", "bulk", "bulk", b"Content-Length: %d\r\n" % size) + b"l" * size
        got = ask(wire, ledger, request)
        if got is None or (got[0] == 200 and got[1] != BULK_BYTES):
            ledger.fault(f"a large answer came as {got}")
        if got is None or got[0] != 200:
            break
    wire.close()
    time.sleep(0.05)


def flaky(port, ledger):
    """The upstream breaks off, says nonsense, dies; the client never leaves."""
    wire = Wire(port)
    for _ in range(20):
        manner = random.choice(FLAKY_MANNERS)
        if random.random() < 0.3:
            request = head(b"POST", "flaky", manner, b"Content-Length: 9\r\n") + b"some body"
        else:
            request = head(b"GET", "flaky", manner)
        got = ask(wire, ledger, request)
        if got is None:
            break
        if got[0] == 200 and manner in ("cut", "chunkcut", "reset", "mute", "garbage"):
            ledger.fault(f"a whole answer where the upstream sent none: {manner}")
        time.sleep(0.002)
    wire.close()


def reset(port, ledger):
    """Asks and is gone, at any moment."""
    wire = Wire(port)
    ledger.sent += 1
    wire.socket.sendall(head(b"GET", "reset", random.choice(("ok", "slow", "bulk"))))
    time.sleep(random.random() * 0.01)
    wire.close(reset=random.random() < 0.8)
    time.sleep(0.002)


def leave_up(port, ledger):
    """Leaves in the middle of an upload."""
    wire = Wire(port)
    ledger.sent += 1
    try:
        wire.socket.sendall(head(b"POST", "leave_up", "ok", b"Content-Length: 1000000\r\n"))
        wire.socket.sendall(b"u" * random.randrange(400_000))
    except OSError:
        pass
    wire.close(reset=random.random() < 0.5)
    time.sleep(0.05)


def leave_down(port, ledger):
    """Leaves in the middle of a download."""
    wire = Wire(port)
    ledger.sent += 1
    wire.socket.sendall(head(b"GET", "leave_down", "huge"))
    wanted = random.randrange(HUGE_BYTES // 4)
    try:
        while wanted > 0:
            data = wire.socket.recv(65_536)
            if not data:
                break
            wanted -= len(data)
    except OSError:
        pass
    wire.close(reset=random.random() < 0.5)
    time.sleep(0.05)


def unread(port, ledger):
    """Asks for much, reads nothing, stays."""
    wire = Wire(port, receive_bytes=4096)
    ledger.sent += 1
    wire.socket.sendall(head(b"GET", "unread", "huge"))
    time.sleep(3.0)
    wire.close()


def silent(port, ledger):
    """One request and then nothing: closed by the other side, without a word."""
    wire = Wire(port)
    if ask(wire, ledger, head(b"GET", "silent", "ok")) is None:
        ledger.fault("no answer")
    begin = time.monotonic()
    try:
        said = wire.socket.recv(100)
    except OSError as error:
        said = error
    if said != b"" or not IDLE_CLOSE_SECONDS - 1 < time.monotonic() - begin < PATIENCE:
        ledger.fault(f"an idle connection ended after {time.monotonic() - begin:.1f} s: {said!r}")
    wire.close()


def garbage(port, ledger):
    """Malformed bytes get one answer that says so, and the connection ends."""
    wire = Wire(port)
    if random.random() < 0.5:
        request = random.choice(NONSENSE)
    else:
        request = random.randbytes(random.randrange(1, 3000)).replace(b"\n", b"") + b"\r\n\r\n"
    got = ask(wire, ledger, request)
    if got is None or got[0] < 400:
        ledger.fault(f"{request[:60]!r} was answered {got}")
    wire.close()
    time.sleep(0.02)


def stalled(port, ledger):
    """A head that never ends: 408."""
    wire = Wire(port)
    got = ask(wire, ledger, b"GET /patient/ok/x HTTP/1.1\r\nHost: a\r\nX-")
    if got is None or got[0] != 408:
        ledger.fault(f"a head without an end was answered {got}")
    wire.close()


# Kind (the route under which Tidegate counts it), what a client does, how many at once.
CLIENTS = (("patient", patient, 6), ("pipeline", pipeline, 1), ("bulk", bulk, 1),
           ("flaky", flaky, 3), ("reset", reset, 2), ("leave_up", leave_up, 1),
           ("leave_down", leave_down, 1), ("unread", unread, 2), ("silent", silent, 2),
           (NO_ROUTE, garbage, 1), (NO_ROUTE, stalled, 1))


def repeat(behave, port, ledger, until):
    while time.monotonic() < until:
        try:
            behave(port, ledger)
        except (Lost, Cut, OSError, ValueError) as error:
            ledger.fault(f"{behave.__name__}: {error!r} after {error.__cause__!r}")
            time.sleep(0.1)


def summed(ledgers):
    answered = {}
    for ledger in ledgers:
        for status, count in ledger.answered.items():
            answered[status] = answered.get(status, 0) + count
    return {"sent": sum(ledger.sent for ledger in ledgers), "answered": answered,
            "cut": sum(ledger.cut for ledger in ledgers),
            "lost": sum(ledger.lost for ledger in ledgers),
            "faults": [fault for ledger in ledgers for fault in ledger.faults][:5]}


def main(port, seconds):
    until = time.monotonic() + seconds
    ledgers, threads = {}, []
    for kind, behave, count in CLIENTS:
        for _ in range(count):
            ledger = Ledger()
            ledgers.setdefault(kind, []).append(ledger)
            threads.append(threading.Thread(target=repeat, args=(behave, port, ledger, until)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    json.dump({kind: summed(of_kind) for kind, of_kind in ledgers.items()}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
