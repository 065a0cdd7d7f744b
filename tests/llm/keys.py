"""Limits by what a body holds, and bodies of every kind: long, in pieces, compressed, over HTTP/2."""

import gzip
import json
import math
import socket
import subprocess
import threading
import time

from place import (DAY, JWT_SECRET, MAX_TOKENS, WEIGHTS, Leaver, cost_of, estimate, free_port, key_of, limits, need, same, scenario,
                   token_of, tokens, until)

CHAT = "/v1/chat/completions"
TURN = [{"role": "user", "content": "one two three"}]
FORM = "application/x-www-form-urlencoded"


def by(key, quota=2, more="", route=""):
    return (f"policies:\n  named: {{key: [{key}], limits: {limits(quota)}{more}}}\n"
            f"routes: [{{name: all, match: {{path: \"/**\"}}, upstream: models, policies: [named]{route}}}]\n")


def statuses(gateway, path, bodies, **more):
    return [gateway.ask(path, body, user=None, **more).status for body in bodies]


@scenario("a login is limited by its account, whatever its case and address", node=False)
def _(place):
    gateway = place.gateway(by("\"body_lower:/email\""))
    same("statuses", statuses(gateway, "/login", [
        {"email": "Alice@Example.com", "password": "a"}, {"password": "b", "email": "alice@example.com"},
        {"email": "ALICE@EXAMPLE.COM"}, {"email": "bob@example.com"}]), [200, 200, 429, 200])
    same("another spelling in JSON", gateway.ask("/login", b'{"email":"\\u0061lice@example.com"}', user=None).status,
         429)


@scenario("a form body is limited by a field", node=False)
def _(place):
    gateway = place.gateway(by("\"form:email\""))
    same("statuses", statuses(gateway, "/login", [
        b"email=alice%40example.com&password=a", b"password=b&email=alice@example.com",
        b"email=%61lice%40example.com", b"email=bob%40example.com"], media_type=FORM), [200, 200, 429, 200])
    same("the field twice", statuses(gateway, "/login", [b"email=a&email=b"], media_type=FORM), [400])
    same("the body at the application", place.provider.last()["body"], "email=bob%40example.com")


@scenario("GraphQL is limited by operationName", node=False)
def _(place):
    gateway = place.gateway(by("\"body:/operationName\""))
    query = {"query": "query Dear { a } query Cheap { b }"}
    same("statuses", statuses(gateway, "/graphql", [
        {**query, "operationName": "Dear"}, {**query, "operationName": "Dear"}, {**query, "operationName": "Dear"},
        {**query, "operationName": "Cheap"}]), [200, 200, 429, 200])
    same("without a name", gateway.ask("/graphql", query, user=None).status, 400)


@scenario("a body key with on_missing: skip counts only bodies that have it", node=False)
def _(place):
    gateway = place.gateway(by("\"body:/operationName\"", 1, ", on_missing: skip"))
    same("statuses", statuses(gateway, "/graphql", [{"a": 1}, {"a": 1}, {"operationName": "A"}, {"operationName": "A"},
                                                    b"no json", b""]), [200, 200, 200, 429, 200, 200])


@scenario("a model is counted by itself, a number as it is compared", node=False)
def _(place):
    gateway = place.gateway(tokens(key="[user, \"body:/model\"]"))
    gateway.chat(model="gpt-x", trial="input=10; output=5")
    gateway.chat(model="gpt-y", trial="input=10; output=6")
    gateway.settles_to(cost_of({"input": 20, "output": 11}))
    gateway.settles_to(cost_of({"input": 10, "output": 5}), "body:/model=gpt-x")
    gateway.settles_to(cost_of({"input": 10, "output": 6}), "body:/model=gpt-y")
    numbers = place.gateway(by("\"body:/n\""), name="numbers")
    same("1, 1.0 and 1e0", statuses(numbers, "/n", [b'{"n":1}', b'{"n":1.0}', b'{"n":1e0}', b'{"n":"2"}']),
         [200, 200, 429, 200])


@scenario("a name twice is refused where it is a key, and counts as the larger maximum", node=False)
def _(place):
    gateway = place.gateway(by("\"body:/model\"", 10))
    same("a key twice", statuses(gateway, CHAT, [b'{"model":"a","model":"b"}', b'{"model":"a","mode\\u006c":"b"}',
                                                 b'{"model":"a","Model":"b"}']), [400, 400, 400])
    for number, twice in enumerate((b'"max_tokens":5,"max_tokens":2000,"max_tokens":6',
                                    b'"max_tokens":5,"Max_Tokens":2000'), 1):
        other = place.gateway(tokens(), name=f"twice{number}")
        thread = threading.Thread(target=other.ask, args=(CHAT, b'{"model":"m",%b,"messages":[]}' % twice), kwargs={
            "trial": f"hold=twice{number}"})
        thread.start()
        place.provider.seen(number)
        other.settles_to(estimate(len(place.provider.last()["body"]), 2000))
        place.provider.release(f"twice{number}")
        thread.join()


@scenario("a body above inspect_body is estimated as max and streamed; a key in it is 413", node=False)
def _(place):
    gateway = place.gateway(tokens(route=", inspect_body: 4KiB"))
    body = {"model": "gpt-x", "max_tokens": 5, "messages": [{"role": "user", "content": "x" * 10_000}]}
    thread = threading.Thread(target=gateway.ask, args=(CHAT, body), kwargs={"trial": "hold=long; input=3"})
    thread.start()
    place.provider.seen(1)
    gateway.settles_to(32_000 * 4, what="while it runs")
    place.provider.release("long")
    thread.join()
    gateway.settles_to(cost_of({"input": 3, "output": 5}), what="afterwards")
    same("the body at the provider", json.loads(place.provider.last()["body"]), body)
    keyed = place.gateway(by("\"body:/model\"", route=", inspect_body: 4KiB"), name="keyed")
    same("with a key", keyed.ask(CHAT, body).status, 413)
    same("in chunks", keyed.ask(CHAT, chunks=[b'{"a":"' + b"x" * 5000, b'","model":"m"}']).status, 413)
    same("requests at the provider", len(place.provider.seen()), 1)


@scenario("a body in chunks is held, estimated and keyed as any other", node=False)
def _(place):
    gateway = place.gateway(tokens(key="[user, \"body:/model\"]"))
    body = json.dumps({"model": "gpt-x", "messages": TURN, "max_tokens": 50}).encode()
    for size in (1, 7, len(body)):
        place.provider.forget()
        thread = threading.Thread(target=gateway.ask, args=(CHAT,), kwargs={
            "chunks": [body[at:at + size] for at in range(0, len(body), size)], "user": f"user{size}",
            "trial": f"hold=chunks{size}; output=20"})
        thread.start()
        place.provider.seen(1)
        gateway.settles_to(estimate(len(body), 50), f"user:user{size}", what=f"chunks of {size}")
        place.provider.release(f"chunks{size}")
        thread.join()
        gateway.settles_to(cost_of({"input": 3, "output": 20}), f"user:user{size}", what=f"after chunks of {size}")
        same("the body", place.provider.last()["body"].encode(), body)


@scenario("a client that waits for 100 Continue gets it from the proxy", node=False)
def _(place):
    gateway = place.gateway(tokens())
    body = json.dumps({"model": "gpt-x", "messages": TURN, "max_tokens": 50}).encode()
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=10) as connection:
        connection.sendall((f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {key_of('alice')}\r\n"
                            f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n").encode())
        same("what comes first", connection.recv(4096), b"HTTP/1.1 100 Continue\r\n\r\n")
        connection.sendall(body)
        answer = connection.recv(65536)
    need(answer.startswith(b"HTTP/1.1 200"), answer[:200])
    gateway.settles_to(cost_of({"input": 3, "output": 7}))


@scenario("a limit by address alone is decided before the body is read", node=False)
def _(place):
    gateway = place.gateway(
        f"policies:\n  addresses: {{key: [ip], limits: {limits(1)}}}\n"
        f"  tokens: {{key: [user], limits: {limits()}, cost: {{reserve: auto, settle: auto}}}}\n"
        "routes: [{match: {path: \"/**\"}, upstream: models, policies: [addresses, tokens]}]\n")
    same("the first", gateway.chat().status, 200)
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=10) as connection:
        connection.sendall((f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {key_of('alice')}\r\n"
                            "Content-Length: 100000\r\n\r\n").encode())
        answer = connection.recv(65536)
    need(answer.startswith(b"HTTP/1.1 429"), "without its body:", answer[:200])


@scenario("a compressed request body is 415 where bodies are read", node=False)
def _(place):
    gateway = place.gateway(tokens())
    body = gzip.compress(json.dumps({"model": "gpt-x", "messages": TURN}).encode())
    same("status", gateway.ask(CHAT, body, fields=[("Content-Encoding", "gzip")]).status, 415)
    gateway.settles_to(0)


@scenario("broken JSON reserves the largest cost", node=False)
def _(place):
    gateway = place.gateway(tokens())
    body = b'{"model":"gpt-x","max_tokens":50,"messages":['
    thread = threading.Thread(target=gateway.ask, args=("/v1/other", body), kwargs={"trial": "fail=400"})
    thread.start()
    thread.join()
    same("the body at the provider", place.provider.last()["body"].encode(), body)
    gateway.settles_to(0)
    same("reserved", gateway.usage()["reserved"], math.ceil(MAX_TOKENS * WEIGHTS["output"]))


@scenario("bodies that are held have a bound, and one above it is 503", node=False)
def _(place):
    gateway = place.gateway(tokens(), more="limits_on_requests: {held_bodies: 1MiB}\n")
    begun = []
    try:
        for _ in range(12):
            connection = socket.create_connection(("127.0.0.1", gateway.port), timeout=10)
            connection.sendall((f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nX-Api-Key: {key_of('alice')}\r\n"
                                "Content-Length: 200000\r\n\r\n").encode() + b"x" * 190_000)
            begun.append(connection)
        def refused():
            found = [one for one in begun if readable(one)]
            return found if len(found) >= 6 else None

        answered = until(refused, 10, "six of twelve refusals")
        for one in answered:
            need(one.recv(4096).startswith(b"HTTP/1.1 503"), "not 503")
        need(len(answered) < 12, "all are refused")
    finally:
        for one in begun:
            one.close()
    until(lambda: gateway.chat(user="bob").status == 200, 10, "room for another body")


def readable(connection):
    connection.setblocking(False)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(10)


@scenario("curl over HTTP/2 is keyed, settled and refused as over HTTP/1", node=False)
def _(place):
    port = free_port()
    gateway = place.gateway(tokens(key="[user, \"body:/model\"]", quota=900),
                            listen=f"{{address: \"127.0.0.1:{port}\", http: [h2, http1]}}")
    body = place.world.folder / "body.json"
    for number, (maximum, status) in enumerate(((20, "200"), (5000, "429"))):
        body.write_text(json.dumps({"model": "gpt-x", "messages": TURN, "max_tokens": maximum, "stream": True,
                                    "stream_options": {"include_usage": True}}))
        said = subprocess.run(
            ["curl", "-s", "-o", place.world.folder / "answer", "-w", "%{http_version} %{http_code}",
             "--http2-prior-knowledge", "-H", f"X-Api-Key: {key_of('alice')}", "-H", "X-Trial: input=30; output=20",
             "--data-binary", f"@{body}", f"http://127.0.0.1:{port}{CHAT}"], capture_output=True, text=True,
            check=True, timeout=30)
        same(f"request {number}", said.stdout, f"2 {status}")
        gateway.settles_to(cost_of({"input": 30, "output": 20}), "body:/model=gpt-x")


@scenario("a quota is that of a claim, bounded by max, and default without it", node=False)
def _(place):
    secret = place.world.folder / "secret"
    secret.write_bytes(JWT_SECRET)
    secret.chmod(0o600)
    gateway = place.gateway(
        "\nidentity:\n  user:\n    - jwt: {secret: \"file:secret\", issuer: https://idp.example, audience: api}\n"
        f"policies:\n  plan:\n    key: [user]\n    limits: [{{quota: {{claim: rpm, default: 2, max: 4}}, {DAY}}}]\n"
        "routes: [{match: {path: \"/**\"}, upstream: models, policies: [plan]}]\n")

    def admitted(count, **claims):
        sent = [gateway.ask("/x", user=None, fields=[("Authorization", f"Bearer {token_of(**claims)}")]).status
                for _ in range(count)]
        need(set(sent) <= {200, 429}, sent)
        return sent.count(200)

    same("rpm: 3", admitted(6, sub="a", rpm=3), 3)
    same("no rpm", admitted(6, sub="b"), 2)
    same("rpm: 1000", admitted(6, sub="c", rpm=1000), 4)
    same("rpm: text", admitted(6, sub="d", rpm="many"), 2)
    same("rpm: 4", admitted(6, sub="e", rpm=4), 4)
    same("a larger claim, the count goes on", admitted(6, sub="a", rpm=4), 1)


@scenario("no event is late and none is held", node=False)
def _(place):
    gateway = place.gateway(tokens("{reserve: auto, settle: openai, ask_usage: on}"))
    body = {"model": "gpt-x", "messages": TURN, "stream": True}
    client = Leaver(gateway.port, CHAT, body, trial="hold=late; output=4")
    # Half of the eight events, with the one of usage, are sent; the rest waits.
    client.read_until(b"word2 ")
    need(b"word3" not in client.seen, "the provider does not wait")
    place.provider.release("late")
    client.read_until(b"[DONE]")
    client.leave()
    gateway.settles_to(7)


@scenario("one byte a piece gives the same bytes", node=False)
def _(place):
    gateway = place.gateway(tokens("{reserve: auto, settle: openai, ask_usage: on}"))
    for body in ({"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}, {}):
        body = {"model": "gpt-x", "messages": TURN, **body}
        whole = gateway.ask(CHAT, body, trial="output=3")
        pieces = gateway.ask(CHAT, body, trial="output=3; pieces=1")
        same("the body", pieces.body, whole.body)
    time.sleep(0.1)
    gateway.settles_to(6 * 6)
