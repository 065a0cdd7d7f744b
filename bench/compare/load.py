"""The load: wrk, or bench_rate at a constant rate; and the requests that they send."""

import base64
import hashlib
import hmac
import json
import re
import socket
import subprocess
import time

from machine import HERE, Wrong, need
from peers import BATCH, QUESTION, SECRET, check_item

USERS = 10_000
CONNECTIONS = 64
STEADY_RATE = 5_000  # requests a second: below the limit of each row with a steady rate
IDLE_CLIENTS = 9_900


def head(user, extra=""):
    """The request of user number `user`; each has an address and a name of its own."""
    return (f"GET / HTTP/1.1\r\nHost: bench.test\r\n"
            f"X-Forwarded-For: 10.0.{user // 250}.{user % 250}\r\n"
            f"X-User-Id: user-{user:08}\r\n{extra}\r\n")


def check_call(call):
    body = json.dumps(call)
    return (f"POST /v1/check HTTP/1.1\r\nHost: bench.test\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}")


def item_of(user):
    """A check of the same address and name as head() has."""
    return check_item(f"10.0.{user // 250}.{user % 250}", f"user-{user:08}")


def _base64(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def token(user):
    """A token as Tidegate's configuration in peers.py wants it."""
    claims = {"sub": user, "iss": "bench", "aud": "bench", "exp": int(time.time()) + 86_400}
    text = ".".join(_base64(json.dumps(part).encode())
                    for part in ({"alg": "HS256", "typ": "JWT"}, claims))
    return text + "." + _base64(hmac.digest(SECRET.encode(), text.encode(), hashlib.sha256))


def write_heads(folder):
    """The files of requests, by name."""
    texts = {
        "users": "".join(map(head, range(USERS))),
        "hot": head(0),
        "tokens": "".join(head(user, f"Authorization: Bearer {token(f'user-{user}')}\r\n")
                          for user in range(USERS)),
        "questions": "".join(head(user, "".join(f"{name}: {value}\r\n"
                                                for name, value in QUESTION.items()))
                             for user in range(USERS)),
        "checks": "".join(check_call(item_of(user)) for user in range(USERS)),
        "batches": "".join(check_call({"each": [item_of(user) for user in range(at, at + BATCH)]})
                           for at in range(0, USERS, BATCH)),
    }
    files = {}
    for name, text in texts.items():
        files[name] = folder / f"{name}.heads"
        files[name].write_text(text)
    return files


class Loads:
    def __init__(self, rate_client):
        self.rate_client = rate_client

    def wrk(self, world, port, heads, seconds, connections=CONNECTIONS, path="/", body_bytes=0,
            scheme="http", unfinished=False):
        """Full speed from one thread, for a whole number of seconds. `unfinished`: no answer need
        have ended by then."""
        said = _run(world.on_cpus("load", [
            need("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s",
            "-s", HERE / "wrk.lua", f"{scheme}://127.0.0.1:{port}{path}", "--", heads, body_bytes]),
            seconds + 30)
        result = json.loads(said[said.rindex("{"):])
        if result["socket_errors"] or not result["bytes" if unfinished else "requests"]:
            raise Wrong(f"wrk: {result}")
        return result

    def steady(self, world, port, heads, seconds, rate=0, connections=CONNECTIONS,
               requests=10_000_000, numbers=1):
        """bench_rate: `rate` requests a second, or (0) as fast as answers come."""
        result = json.loads(_run(world.on_cpus("load", [
            self.rate_client, "--port", port, "--heads", heads, "--seconds", seconds,
            "--rate", rate, "--connections", connections, "--requests", requests,
            "--numbers", numbers]), seconds + 30))
        if any(result[fault] for fault in ("lost_connections", "unanswered", "unsent")) \
                or not result["requests"]:
            raise Wrong(f"bench_rate: {result}")
        result["refused"] = sum(count for status, count in result["statuses"].items()
                                if int(status) >= 400)
        return result


def transfer(port, request_head, sent, received, times):
    """One client that sends and receives large bodies, so often; seconds that each took."""
    block = memoryview(bytes(min(max(sent, received), 1_000_000)))
    took = []
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        for _ in range(times):
            begin = time.monotonic()
            connection.sendall(request_head)
            for at in range(0, sent, len(block)):
                connection.sendall(block[:sent - at])
            _receive(connection, received)
            took.append(time.monotonic() - begin)
    return took


def _receive(connection, least):
    """An answer of status 200 with at least so long a body, to its end."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        got = connection.recv(65_536)
        if not got:
            raise Wrong("a large transfer was cut off")
        answer += got
    answer_head, _, body = answer.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)\r\ncontent-length: *(\d+)", answer_head)[1])
    if not answer_head.startswith(b"HTTP/1.1 200") or length < least:
        raise Wrong(f"a large transfer was answered {answer_head[:80]!r}")
    room, left = bytearray(1_000_000), length - len(body)
    while left > 0:
        got = connection.recv_into(room, min(left, len(room)))
        if not got:
            raise Wrong("a large transfer was cut off")
        left -= got


def _run(command, patience):
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience)
    if done.returncode != 0:
        raise Wrong(f"{command[0]}: {done.stdout}{done.stderr}")
    return done.stdout
