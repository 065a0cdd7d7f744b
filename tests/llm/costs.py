"""What becomes of what was reserved: by the answer, by errors, by clients that leave, by reloads."""

import json
import threading
import time

from place import (Leaver, ask, free_port, cost_of, estimate, field_of, limits, need, same, scenario, tokens, until)

CHAT = "/v1/chat/completions"
TURN = [{"role": "user", "content": "one two three"}]
ANTHROPIC = {"model": "claude-x", "messages": TURN, "max_tokens": 50}
PRICES = """
as_of: 2026-11-01
currency: usd
models:
  "gpt-x*": {input: 1.25, cached: 0.125, output: 10}
  "gpt-*": {input: 100, output: 100}
"""


def reserved_by(place, maximum=None, **more):
    return estimate(len(place.provider.last()["body"]), maximum, **more)


@scenario("what is reserved counts while the request runs", node=False)
def _(place):
    gateway = place.gateway(tokens())
    for number, stream in enumerate((False, True)):
        before = gateway.counted()
        thread = threading.Thread(target=gateway.chat, kwargs={
            "max_tokens": 50, "trial": f"hold=between{number}; output=20", "stream": stream,
            "stream_options": {"include_usage": True}})
        thread.start()
        place.provider.seen(number + 1)
        gateway.settles_to(before + reserved_by(place, 50), what="while it runs")
        place.provider.release(f"between{number}")
        thread.join()
        gateway.settles_to(before + cost_of({"input": 3, "output": 20}), what="afterwards")


@scenario("answers of 4xx and 5xx without usage give all back", node=False)
def _(place):
    gateway = place.gateway(tokens())
    for status in (400, 401, 404, 413, 429, 500, 502, 503, 529):
        same("status", gateway.chat(max_tokens=50, trial=f"fail={status}").status, status)
        gateway.settles_to(0, what=f"after {status}")
    same("costs of the log", {line["usage_cost"] for line in gateway.lines(9)}, {0})


@scenario("an upstream that cannot be reached gives all back", node=False)
def _(place):
    gateway = place.gateway(tokens(), upstream=free_port())
    same("status", gateway.chat(max_tokens=50).status, 502)
    gateway.settles_to(0)


@scenario("a connection that is reset before the answer's head keeps what was reserved", node=False)
def _(place):
    gateway = place.gateway(tokens())
    same("status", gateway.chat(max_tokens=50, trial="drop").status, 502)
    gateway.settles_to(reserved_by(place, 50))


@scenario("a stream that is cut takes the larger of what was reserved and what it said", node=False)
def _(place):
    gateway = place.gateway(tokens())
    gateway.ask("/v1/messages", {**ANTHROPIC, "stream": True}, trial="input=10; output=20; cut=5")
    first = reserved_by(place, 50)
    need(first > cost_of({"input": 10, "output": 1}), "the reservation is too small")
    gateway.settles_to(first, what="less was said")
    gateway.ask("/v1/messages", {**ANTHROPIC, "stream": True}, trial="input=5000; output=20; cut=5")
    same("state at the provider", place.provider.last()["state"], "cut")
    gateway.settles_to(first + cost_of({"input": 5000, "output": 1}), what="more was said")


@scenario("an answer that is cut before it says usage keeps what was reserved", node=False)
def _(place):
    gateway = place.gateway(tokens())
    gateway.chat(max_tokens=50, trial="output=20; cut")
    first = reserved_by(place, 50)
    gateway.settles_to(first, what="JSON")
    gateway.chat(max_tokens=50, stream=True, stream_options={"include_usage": True}, trial="output=20; cut=10")
    gateway.settles_to(first + reserved_by(place, 50), what="a stream")
    need(gateway.metric("tidegate_cost_unknown_total", reason="cut") == 2, "tidegate_cost_unknown_total")


@scenario("a client that leaves pays the larger of what was reserved and what it saw", node=False)
def _(place):
    gateway = place.gateway(tokens())
    client = Leaver(gateway.port, "/v1/messages", {**ANTHROPIC, "stream": True},
                    trial="input=7; output=20; hold=left")
    client.read_until(b"message_start")
    client.leave()
    gateway.lines(1)
    gateway.settles_to(reserved_by(place, 50))
    until(lambda: place.provider.last()["state"] == "left", 5, "the end of the request at the provider")


@scenario("settle_after_leaving: the answer is read on, and what it took is counted", node=False)
def _(place):
    gateway = place.gateway(tokens("{reserve: auto, settle: auto, settle_after_leaving: 10s, weights: WEIGHTS}"))
    client = Leaver(gateway.port, "/v1/messages", {**ANTHROPIC, "stream": True},
                    trial="input=7; output=20; hold=after")
    client.read_until(b"message_start")
    client.leave()
    time.sleep(0.3)
    same("state at the provider", place.provider.last()["state"], "running")
    place.provider.release("after")
    gateway.settles_to(cost_of({"input": 7, "output": 20}))


@scenario("settle_after_leaving: it ends in its time", node=False)
def _(place):
    gateway = place.gateway(tokens("{reserve: auto, settle: auto, settle_after_leaving: 500ms, weights: WEIGHTS}"))
    client = Leaver(gateway.port, "/v1/messages", {**ANTHROPIC, "stream": True},
                    trial="input=7; output=20; hold=too-late")
    client.read_until(b"message_start")
    client.leave()
    until(lambda: place.provider.last()["state"] == "left", 5, "the end of the request at the provider")
    gateway.settles_to(reserved_by(place, 50))


@scenario("a compressed answer keeps what was reserved, and the route accepts none", node=False)
def _(place):
    gateway = place.gateway(tokens())
    answer = gateway.chat(max_tokens=50, trial="output=20; gzip", fields=[("Accept-Encoding", "gzip, br")])
    same("Content-Encoding", answer.fields.get("content-encoding"), "gzip")
    same("Accept-Encoding at the provider", field_of(place.provider.last(), "accept-encoding"), [])
    gateway.settles_to(reserved_by(place, 50))
    need(gateway.metric("tidegate_cost_unknown_total", reason="compressed") == 1, "tidegate_cost_unknown_total")


@scenario("a route without costs leaves Accept-Encoding as it is", node=False)
def _(place):
    gateway = place.gateway(f"policies: {{plain: {{key: [user], limits: {limits()}}}}}\n"
                            "routes: [{match: {path: \"/**\"}, upstream: models, policies: [plain]}]\n")
    gateway.chat(fields=[("Accept-Encoding", "gzip, br")])
    same("Accept-Encoding", field_of(place.provider.last(), "accept-encoding"), ["gzip, br"])


@scenario("an answer without usage keeps what was reserved; a usage of 0 is none of it", node=False)
def _(place):
    gateway = place.gateway(tokens())
    gateway.chat(max_tokens=50, trial="no_usage")
    first = reserved_by(place, 50)
    gateway.settles_to(first, what="no usage")
    gateway.chat(max_tokens=50, trial="input=0; output=0")
    gateway.settles_to(first, what="a usage of 0")
    need(gateway.metric("tidegate_cost_unknown_total", reason="no_usage") == 1, "tidegate_cost_unknown_total")


@scenario("a prompt that the answer echoes is no usage", node=False)
def _(place):
    gateway = place.gateway(tokens())
    said = '","usage":{"prompt_tokens":0,"completion_tokens":0}} \n\ndata: {"usage":{"prompt_tokens":0}}'
    counted = 0
    for stream in (False, True):
        body = {"model": "gpt-x", "messages": [{"role": "user", "content": said}], "max_tokens": 50,
                "stream": stream, "stream_options": {"include_usage": True}}
        answer = gateway.ask(CHAT, body, trial="echo; input=11; output=20")
        need(b"prompt_tokens" in answer.body, "the provider does not echo")
        counted += cost_of({"input": 11, "output": 20})
        gateway.settles_to(counted)


@scenario("more than was reserved is taken above the quota, and the next request is refused", node=False)
def _(place):
    gateway = place.gateway(tokens("{reserve: 10, settle: auto}", quota=100))
    same("status", gateway.chat(trial="input=300; output=50").status, 200)
    gateway.settles_to(350)
    same("the next", gateway.chat().status, 429)
    same("requests at the provider", len(place.provider.seen()), 1)


@scenario("a refusal takes nothing and sends nothing", node=False)
def _(place):
    gateway = place.gateway(
        f"policies:\n  requests: {{key: [user], limits: {limits(100)}}}\n"
        f"  tokens: {{key: [user], limits: {limits(1000)}, cost: {{reserve: auto, settle: auto}}}}\n"
        f"  team: {{key: [\"constant:team\"], limits: {limits(100_000)}, cost: {{reserve: auto, settle: auto}}}}\n"
        "routes: [{match: {path: \"/**\"}, upstream: models, policies: [requests, tokens, team]}]\n")
    answer = gateway.chat(max_tokens=2000)
    same("status", answer.status, 429)
    need("retry-after" not in answer.fields, "it can never pass, and has Retry-After")
    for policy, identifier in (("requests", "user:alice"), ("tokens", "user:alice"), ("team", "constant:team")):
        gateway.settles_to(0, identifier, policy)
    same("requests at the provider", len(place.provider.seen()), 0)
    same("status of a smaller one", gateway.chat(max_tokens=100, trial="output=9").status, 200)
    gateway.settles_to(1, "user:alice", "requests")
    gateway.settles_to(12, "user:alice", "tokens")
    gateway.settles_to(12, "constant:team", "team")


@scenario("a reload between reserve and settle changes nothing", node=False)
def _(place):
    gateway = place.gateway(tokens())
    thread = threading.Thread(target=gateway.chat, kwargs={"max_tokens": 50, "trial": "hold=reload; output=20"})
    thread.start()
    place.provider.seen(1)
    gateway.settles_to(reserved_by(place, 50), what="while it runs")
    gateway.reload(tokens("{reserve: 1, settle: auto}", quota=2_000_000))
    place.provider.release("reload")
    thread.join()
    gateway.settles_to(cost_of({"input": 3, "output": 20}))
    gateway.chat(trial="output=20")
    gateway.settles_to(cost_of({"input": 3, "output": 20}) + 23, what="by the new weights")


@scenario("settle by a field, by time, by bytes, by members of the answer", node=False)
def _(place):
    routes = "routes:\n"
    policies = "policies:\n"
    for name, settle in (("bytes", "{bytes_out: 1}"), ("json", "{json: {usage.total_tokens: 2}}"),
                         ("time", "{upstream_ms: 1}"), ("field", "{header: openai-processing-ms}")):
        policies += f"  {name}: {{key: [user], limits: {limits()}, cost: {{reserve: 500, settle: {settle}}}}}\n"
        routes += f"  - {{match: {{path: \"/**\", headers: {{x-by: {name}}}}}, upstream: models, policies: [{name}]}}\n"
    gateway = place.gateway(policies + routes)
    answer = gateway.chat(trial="output=20", fields=[("X-By", "bytes")])
    gateway.settles_to(len(answer.body), policy="bytes")
    gateway.chat(trial="output=20", fields=[("X-By", "json")])
    gateway.settles_to(46, policy="json")
    gateway.chat(trial="output=20", fields=[("X-By", "field")])
    gateway.settles_to(12, policy="field")
    gateway.chat(stream=True, trial="output=7; slow=30", fields=[("X-By", "time")])
    until(lambda: gateway.counted(policy="time") != 500, 5, "the settlement by time")
    need(290 <= gateway.counted(policy="time") <= 1500, "ten events of 30 ms took", gateway.counted(policy="time"))


@scenario("a stream of Gemini as a JSON array is settled", node=False)
def _(place):
    gateway = place.gateway(tokens())
    body = {"contents": [{"role": "user", "parts": [{"text": "one two three"}]}],
            "generationConfig": {"maxOutputTokens": 50}}
    answer = gateway.ask("/v1beta/models/gemini-x:streamGenerateContent", body, trial="output=20; input=3; pieces=3")
    same("elements", len(answer.json()), 20)
    gateway.settles_to(cost_of({"input": 3, "output": 20}))
    same("the model", gateway.usage()["model"], "gemini-x")


@scenario("ask_usage and write_cap leave a signed or digested request alone", node=False)
def _(place):
    gateway = place.gateway(tokens("{reserve: auto, settle: openai, ask_usage: on, write_cap: on}"))
    body = {"model": "gpt-x", "messages": TURN, "stream": True}
    for name in ("Content-Digest", "Repr-Digest", "Digest", "Content-MD5", "Signature", "X-Amz-Content-Sha256"):
        same("status", gateway.ask(CHAT, body, fields=[(name, "sha-256=:AAAA:")]).status, 200)
        same(f"the body with {name}", json.loads(place.provider.last()["body"]), body)
    gateway.ask(CHAT, body)
    same("the body without", json.loads(place.provider.last()["body"]),
         {**body, "stream_options": {"include_usage": True}, "max_completion_tokens": 1000})


def money(quota, route="budget", unknown="", more=""):
    return (f"prices: prices.yaml\npolicies:\n  budget:\n    key: [user]\n"
            f"    limits: [{{quota: {quota}, unit: usd, anchor: utc_month, algorithm: fixed_window}}]\n"
            f"    cost: {{reserve: auto, settle: auto, unit: usd}}\n{more}"
            f"routes: [{{match: {{path: \"/**\"}}, upstream: models, policies: [{route}]}}]\n{unknown}")


def priced(kinds, rates):
    """Whole millionths of a dollar, in dollars."""
    return cost_of(kinds, rates) / 1_000_000


@scenario("money: a monthly budget counts what the price list says", node=False)
def _(place):
    (place.world.folder / "prices.yaml").write_text(PRICES)
    gateway = place.gateway(money(500))
    rates = {"input": "1.25", "cached": "0.125", "cache_write": "1.25", "output": "10"}
    gateway.chat(max_tokens=50, model="gpt-x-mini", trial="input=1001; cached=301; output=23")
    wanted = priced({"input": 1001, "cached": 301, "output": 23}, rates)
    gateway.settles_to(wanted, policy="budget")
    usage = gateway.usage()
    same("usage", (usage["model"], usage["input"], usage["cached"], usage["output"]), ("gpt-x-mini", 1001, 301, 23))
    same("dollars of the log", float(usage["usd"]), wanted)
    answer = gateway.chat(max_tokens=50, model="other")
    same("a model without a price", answer.status, 400)
    need(b"other" in answer.body, "the answer does not name the model:", answer)
    same("a request without a model", gateway.ask(CHAT, {"messages": TURN}).status, 400)
    gateway.settles_to(wanted, policy="budget")
    gateway.chat(max_tokens=50, model="gpt-y", trial="input=100; output=10")
    gateway.settles_to(wanted + 0.011, policy="budget", what="the second pattern")


@scenario("money: a budget that is used up refuses, and fields show dollars", node=False)
def _(place):
    (place.world.folder / "prices.yaml").write_text(PRICES)
    gateway = place.gateway(money("0.05"))
    answer = gateway.chat(max_tokens=50, model="gpt-x", trial="input=1; output=10")
    same("status", answer.status, 200)
    need("q=0.05" in answer.fields["ratelimit-policy"], answer.fields["ratelimit-policy"])
    same("a request above the budget", gateway.chat(max_tokens=6000, model="gpt-x").status, 429)
    same("a request above what is left", gateway.chat(max_tokens=4990, model="gpt-x").status, 429)
    same("a small one", gateway.chat(max_tokens=50, model="gpt-x").status, 200)


@scenario("money: a change of the price file is taken with a reload", node=False)
def _(place):
    path = place.world.folder / "prices.yaml"
    path.write_text(PRICES)
    gateway = place.gateway(money(500))
    same("a model without a price", gateway.chat(model="new-model").status, 400)
    path.write_text(PRICES + '  "new-*": {input: 2, output: 4}\n')
    gateway.reload(money(500))
    same("with a price", gateway.chat(model="new-model", trial="input=100; output=100").status, 200)
    gateway.settles_to(0.0006, policy="budget")


@scenario("mode: soft admits above the quota, and tells the provider", node=False)
def _(place):
    gateway = place.gateway(tokens("{reserve: auto, settle: auto}", quota=100, more="    mode: soft\n"))
    forged = [("X-Tidegate-Over", "forged")]
    gateway.chat(max_tokens=10, trial="input=60; output=10", fields=forged)
    same("the field below the quota", field_of(place.provider.last(), "x-tidegate-over"), [])
    gateway.settles_to(70)
    same("status above", gateway.chat(max_tokens=50, trial="input=40; output=20", fields=forged).status, 200)
    same("the field above the quota", field_of(place.provider.last(), "x-tidegate-over"), ["tokens"])
    gateway.settles_to(130)
    same("status beyond", gateway.chat(max_tokens=50, trial="input=40; output=20").status, 200)
    gateway.settles_to(190)
    need(gateway.metric("tidegate_decisions_total", outcome="soft_over") == 2, "soft_over in the metrics")


@scenario("mode: soft names each policy that is over, and leaves the others to refuse", node=False)
def _(place):
    one = "cost: {reserve: 1, settle: auto}, mode: soft"
    gateway = place.gateway(
        f"policies:\n  small: {{key: [user], limits: {limits(10)}, {one}}}\n"
        f"  large: {{key: [user], limits: {limits(30)}, {one}}}\n"
        f"  requests: {{key: [user], limits: {limits(4)}}}\n"
        "routes: [{match: {path: \"/**\"}, upstream: models, policies: [small, large, requests]}]\n")
    seen = []
    for _ in range(4):
        same("status", gateway.chat(trial="input=10; output=10").status, 200)
        seen.append(field_of(place.provider.last(), "x-tidegate-over"))
    # 0, 20, 40 and 60 are counted before.
    same("the fields", seen, [[], ["small"], ["small, large"], ["small, large"]])
    same("the fifth", gateway.chat().status, 429)
    for policy in ("small", "large"):
        gateway.settles_to(80, policy=policy)


@scenario("explain --body says what would be reserved", node=False)
def _(place):
    gateway = place.gateway(tokens())
    body = place.world.folder / "body.json"
    body.write_text(json.dumps({"model": "gpt-x", "messages": TURN, "max_tokens": 50}))
    said = gateway.run("explain", "-c", gateway.config, "--from", "127.0.0.1", "--method", "POST", "--path", CHAT, "--header",
                       "X-Api-Key: key-of-alice-in-the-trial", "--body", body)
    same("its exit code", said.returncode, 0)
    need(str(estimate(body.stat().st_size, 50)) in said.stdout, "the reservation is not in", said.stdout)
    gateway.settles_to(0)


@scenario("metrics tell usage by kind and cost by policy", node=False)
def _(place):
    gateway = place.gateway(tokens())
    for _ in range(2):
        gateway.ask("/v1/messages", ANTHROPIC, trial="input=10; cached=20; cache_write=4; output=5")
    cost = cost_of({"input": 10, "cached": 20, "cache_write": 4, "output": 5})
    gateway.settles_to(2 * cost)
    for kind, count in (("input", 10), ("cached", 20), ("cache_write", 4), ("output", 5)):
        same(f"tidegate_usage_total {kind}", gateway.metric("tidegate_usage_total", route="models", kind=kind),
             2 * count)
    same("tidegate_usage_cost_total", gateway.metric("tidegate_usage_cost_total", policy="tokens"),
         2 * cost)


@scenario("the check API reserves and settles items with costs of their own", node=False)
def _(place):
    port = free_port()
    gateway = place.gateway(
        f"policies:\n  requests: {{key: [user], limits: {limits(100)}}}\n"
        f"  tokens: {{key: [user], limits: {limits(1000)}}}\n"
        "routes: [{match: {path: \"/**\"}, upstream: models, policies: [requests]}]\n",
        listen=f"[\"127.0.0.1:{free_port()}\", {{address: \"127.0.0.1:{port}\", face: check}}]")
    items = [{"policy": "requests", "identifiers": {"user": "carol"}, "cost": 1},
             {"policy": "tokens", "identifiers": {"user": "carol"}, "cost": 800}]
    answer = ask(port, "/v1/reserve", {"all": items, "ttl": "24h"}, user=None)
    same("reserve", answer.status, 200)
    gateway.settles_to(800, "user:carol")
    gateway.settles_to(1, "user:carol", "requests")
    settled = ask(port, "/v1/settle", {"id": answer.json()["id"], "costs": [1, 123]}, user=None)
    same("settle", settled.status, 200)
    gateway.settles_to(123, "user:carol")
    gateway.settles_to(1, "user:carol", "requests")
