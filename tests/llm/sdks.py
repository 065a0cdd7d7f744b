"""The SDKs of providers before Tidegate: their programs read what the provider says, and what Tidegate says."""

import json
import math
import re
import subprocess
import time

from place import (HERE, accepts, cost_of, estimate, field_of, free_port, key_of, limits, need, same, scenario,
                   tokens, until)

PROMPT = "one two three four five"
TURN = [{"role": "user", "content": PROMPT}]
# Name: what the SDK gets, and the steering of the provider. Those of OpenAI and Gemini do not tell what they
# wrote to a cache.
CALLS = {
    "chat": ({"body": {"model": "gpt-x", "messages": TURN, "max_completion_tokens": 50, "n": 2}},
             "output=20; cached=3; reasoning=4"),
    "completions": ({"body": {"model": "gpt-x", "prompt": PROMPT, "max_tokens": 50}}, "output=20"),
    "responses": ({"body": {"model": "gpt-x", "input": PROMPT, "max_output_tokens": 50}},
                  "output=20; cached=3; reasoning=4"),
    "messages": ({"body": {"model": "claude-x", "messages": TURN, "max_tokens": 50}},
                 "output=20; cached=30; cache_write=11; deltas=3"),
    "gemini": ({"body": {"model": "gemini-x", "contents": PROMPT, "config": {"maxOutputTokens": 50}}},
               "output=20; cached=3; reasoning=4"),
    "bedrock": ({"body": {"modelId": "anthropic.claude-x:0", "inferenceConfig": {"maxTokens": 50},
                          "messages": [{"role": "user", "content": [{"text": PROMPT}]}]}, "http1": True},
                "output=20; cached=30; cache_write=11"),
}
MAXIMA = {"chat": 100}
SDK_OF = {"chat": "openai", "completions": "openai", "responses": "openai", "messages": "anthropic",
          "gemini": "@google/genai", "bedrock": "@aws-sdk/client-bedrock-runtime"}


def arguments(name, stream):
    """What the SDK gets, with its stream on or off."""
    given, trial = CALLS[name]
    given = json.loads(json.dumps(given))
    if name in ("gemini", "bedrock"):
        given["stream"] = stream
    elif stream:
        given["body"]["stream"] = True
    if name in ("chat", "completions") and stream:
        given["body"]["stream_options"] = {"include_usage": True}
    return given, {"x-trial": trial}


def value_of(answer):
    need("error" not in answer, "the SDK throws", answer.get("error"))
    return answer["value"]


def error_of(answer):
    need("error" in answer, "the SDK throws nothing, and got", str(answer.get("value"))[:300])
    return answer["error"]


def answers_unchanged(place, name, stream, cost="{reserve: auto, settle: auto, weights: WEIGHTS}"):
    """The SDK reads from Tidegate what it reads from the provider, and Tidegate counts what that took."""
    given, fields = arguments(name, stream)
    direct = value_of(place.clients.call(name, place.provider.url, fields=fields, **given))
    gateway = place.gateway(tokens(cost))
    through = value_of(place.clients.call(name, gateway.url, fields=fields, **given))
    same("the SDK's answer", through, direct)
    request = place.provider.last()
    kinds = request["usage"]
    wanted = cost_of(kinds)
    gateway.settles_to(wanted)
    usage = gateway.usage()
    reserved = estimate(len(request["body"]), MAXIMA.get(name, 50))
    model = given["body"].get("model") or given["body"]["modelId"]
    same("the log", usage, {"model": model, **({} if name == "bedrock" else {"answer_model": model}), **kinds,
                            "reserved": reserved, "cost": wanted})
    need("trial" not in json.dumps(usage) and PROMPT not in json.dumps(gateway.lines()[-1]),
         "the log holds the prompt")


for _name in CALLS:
    for _stream in (False, True):
        scenario(f"{SDK_OF[_name]} {_name}{' stream' if _stream else ''}: the answer is unchanged, what it took "
                 "is counted")(lambda place, name=_name, stream=_stream: answers_unchanged(place, name, stream))

for _name, _settle in (("chat", "openai"), ("responses", "openai_responses"), ("messages", "anthropic"),
                       ("gemini", "gemini"), ("bedrock", "bedrock")):
    scenario(f"{SDK_OF[_name]} {_name} stream: settle: {_settle} by its name")(
        lambda place, name=_name, settle=_settle: answers_unchanged(
            place, name, True, f"{{reserve: auto, settle: {settle}, weights: WEIGHTS}}"))


@scenario("openai embeddings: the answer is unchanged, what it took is counted")
def _(place):
    given = {"body": {"model": "embed-x", "input": PROMPT}}
    direct = value_of(place.clients.call("embeddings", place.provider.url, **given))
    gateway = place.gateway(tokens())
    same("the SDK's answer", value_of(place.clients.call("embeddings", gateway.url, **given)), direct)
    gateway.settles_to(5)


@scenario("@anthropic-ai/sdk finalMessage: the message that the SDK puts together has the provider's usage")
def _(place):
    given, fields = arguments("messages", True)
    del given["body"]["stream"]
    gateway = place.gateway(tokens())
    message = value_of(place.clients.call("final_message", gateway.url, fields=fields, **given))
    same("output_tokens", message["usage"]["output_tokens"], 20)
    # A message_delta says all until then: 6, 13 and 20 tokens are 20.
    gateway.settles_to(cost_of(place.provider.last()["usage"]))


@scenario("@aws-sdk/client-bedrock-runtime over HTTP/2: the answer is unchanged, what it took is counted")
def _(place):
    given, fields = arguments("bedrock", True)
    direct = value_of(place.clients.call("bedrock", place.provider.url, fields=fields, **given))
    port = free_port()
    gateway = place.gateway(tokens(), listen=f"{{address: \"127.0.0.1:{port}\", http: [h2, http1]}}")
    given["http1"] = False  # the SDK's default
    through = value_of(place.clients.call("bedrock", f"http://127.0.0.1:{port}", fields=fields, **given))
    same("the SDK's answer", through, direct)
    same("the protocol", gateway.lines()[-1]["protocol"], "HTTP/2")
    gateway.settles_to(cost_of(place.provider.last()["usage"]))


@scenario("openai chat stream: one byte a piece, and what it took is counted")
def _(place):
    gateway = place.gateway(tokens())
    given, _ = arguments("chat", True)
    value_of(place.clients.call("chat", gateway.url, fields={"x-trial": "output=5; pieces=1"}, **given))
    gateway.settles_to(cost_of({"input": 5, "output": 10}))


@scenario("openai chat stream without include_usage: what was reserved stays")
def _(place):
    gateway = place.gateway(tokens())
    given, fields = arguments("chat", True)
    del given["body"]["stream_options"]
    items = value_of(place.clients.call("chat", gateway.url, fields=fields, **given))
    need(all(one["choices"] for one in items), "a chunk has no choices")
    gateway.settles_to(estimate(len(place.provider.last()["body"]), 100))
    need(gateway.metric("tidegate_cost_unknown_total", reason="no_usage") == 1, "tidegate_cost_unknown_total")


@scenario("ask_usage: what the stream took is counted, and the SDK sees the chunks that it sees without")
def _(place):
    given, fields = arguments("chat", True)
    del given["body"]["stream_options"]
    direct = value_of(place.clients.call("chat", place.provider.url, fields=fields, **given))
    gateway = place.gateway(tokens("{reserve: auto, settle: openai, ask_usage: on, weights: WEIGHTS}"))
    through = value_of(place.clients.call("chat", gateway.url, fields=fields, **given))
    # A provider that is asked says `usage: null` in the chunks before.
    same("the chunks", [{name: value for name, value in one.items() if name != "usage"} for one in through], direct)
    need(all(one.get("usage") is None for one in through), "a chunk has usage")
    body = json.loads(place.provider.last()["body"])
    same("stream_options", body.pop("stream_options"), {"include_usage": True})
    same("the rest of the body", body, given["body"])
    gateway.settles_to(cost_of(place.provider.last()["usage"]))


@scenario("ask_usage: what the client says about usage is kept")
def _(place):
    gateway = place.gateway(tokens("{reserve: auto, settle: openai, ask_usage: on, weights: WEIGHTS}"))
    given, fields = arguments("chat", True)
    counted = 0
    for options, shown in (({"include_usage": True}, 1), ({"include_usage": False}, 0), ({}, 0)):
        given["body"]["stream_options"] = options
        items = value_of(place.clients.call("chat", gateway.url, fields=fields, **given))
        same(f"chunks with usage for {options}", sum(1 for one in items if one.get("usage")), shown)
        request = place.provider.last()
        asked = json.loads(request["body"])["stream_options"]
        same(f"what the provider is asked for {options}", asked, options or {"include_usage": True})
        known = options != {"include_usage": False}
        counted += cost_of(request["usage"]) if known else estimate(len(request["body"]), 100)
        gateway.settles_to(counted)
    del given["body"]["stream"], given["body"]["stream_options"]
    value_of(place.clients.call("chat", gateway.url, fields=fields, **given))
    need("stream_options" not in place.provider.last()["body"], "a request without a stream is rewritten")


@scenario("write_cap: a request without a maximum gets one, and one with a maximum keeps it")
def _(place):
    gateway = place.gateway(tokens("{reserve: {default: 30}, settle: openai, write_cap: on, weights: WEIGHTS}"))
    given, _ = arguments("chat", False)
    del given["body"]["max_completion_tokens"], given["body"]["n"]
    answer = value_of(place.clients.call("chat", gateway.url, fields={"x-trial": "output=100"}, **given))
    body = json.loads(place.provider.last()["body"])
    same("what is written", body, {**given["body"], "max_completion_tokens": 30})
    same("Content-Length", field_of(place.provider.last(), "content-length"),
         [str(len(place.provider.last()["body"]))])
    same("completion_tokens", answer["usage"]["completion_tokens"], 30)
    gateway.settles_to(cost_of({"input": 5, "output": 30}))
    same("reserved", gateway.usage()["reserved"], estimate(len(json.dumps(given["body"], separators=(",", ":"))), 30))
    for name in ("max_tokens", "max_completion_tokens"):
        value_of(place.clients.call("chat", gateway.url, body={**given["body"], name: 10}))
        same(f"the body with {name}", json.loads(place.provider.last()["body"]), {**given["body"], name: 10})


# A limit of requests that is used up by one, and comes back in two seconds.
def requests_and_tokens(kind, quota=1, window="per: 2s, algorithm: fixed_window, anchor: first_request", more=""):
    return (f"policies:\n  requests:\n    key: [user]\n    limits: [{{quota: {quota}, {window}}}]\n"
            f"    body: {kind}\n  tokens:\n    key: [user]\n    limits: {limits(10_000)}\n    body: {kind}\n"
            f"    cost: {{reserve: auto, settle: auto}}\n{more}"
            f"response: {{headers: [ratelimit, retry-after{'' if kind == 'problem' else ', ' + kind}]}}\n"
            "routes:\n  - {name: models, match: {path: \"/**\"}, upstream: models, policies: [requests, tokens]}\n")


@scenario("openai: a refusal is a RateLimitError with its fields, of requests and of tokens")
def _(place):
    gateway = place.gateway(requests_and_tokens("openai"))
    given, fields = arguments("chat", False)
    value_of(place.clients.call("chat", gateway.url, fields=fields, **given))
    error = error_of(place.clients.call("chat", gateway.url, fields=fields, **given))
    same("class, status, type, code, param", [error.get(one) for one in ("class", "status", "type", "code", "param")],
         ["RateLimitError", 429, "requests", "rate_limit_exceeded", None])
    need(error["body"]["message"], "no message:", error)
    need(1 <= int(error["fields"]["retry-after"]) <= 2, "Retry-After:", error["fields"])
    hour = place.gateway(requests_and_tokens("openai").replace(limits(10_000), "[100/h]"), name="hour")
    error = error_of(place.clients.call("chat", hour.url, fields=fields, **given))
    same("class, type, code", [error.get(one) for one in ("class", "type", "code")],
         ["RateLimitError", "tokens", "rate_limit_exceeded"])
    same("requests at the provider", len(place.provider.seen()), 1)
    day = place.gateway(requests_and_tokens("openai", quota=9), name="day")
    for _ in range(5):
        value_of(place.clients.call("chat", day.url, fields=fields, **given))
    given["body"]["max_completion_tokens"] = 4_950  # for each of two: fits the quota, but not what is left of it
    error = error_of(place.clients.call("chat", day.url, fields=fields, **given))
    # Its window is a day, of which OpenAI says so, too.
    same("class, type, code", [error.get(one) for one in ("class", "type", "code")],
         ["RateLimitError", "insufficient_quota", "insufficient_quota"])


@scenario("openai and @anthropic-ai/sdk: a request above a quota is not sent again, and the message says why")
def _(place):
    for kind, name, member in (("openai", "chat", "max_completion_tokens"), ("anthropic", "messages", "max_tokens")):
        gateway = place.gateway(requests_and_tokens(kind, quota=9), name=kind)
        given, fields = arguments(name, False)
        given["body"][member] = 20_000
        answer = place.clients.call(name, gateway.url, fields=fields, retries=2, **given)
        error = error_of(answer)
        same("class, status", (error["class"], error["status"]), ("RateLimitError", 429))
        same("statuses", [one["status"] for one in answer["attempts"]], [429])
        need("retry-after" not in error["fields"], "Retry-After:", error["fields"])
        need("of a quota of 10000" in json.dumps(error["body"]) and "never passes" in json.dumps(error["body"]),
             "the message:", error["body"])
        same("refusal in the log", [line["refusal"] for line in gateway.lines(1)], ["too_large"])
    same("requests at the provider", len(place.provider.seen()), 0)


@scenario("@anthropic-ai/sdk: a refusal is a RateLimitError with its fields")
def _(place):
    gateway = place.gateway(requests_and_tokens("anthropic"))
    given, fields = arguments("messages", False)
    value_of(place.clients.call("messages", gateway.url, fields=fields, **given))
    error = error_of(place.clients.call("messages", gateway.url, fields=fields, **given))
    same("class, status", (error["class"], error["status"]), ("RateLimitError", 429))
    same("type", (error["body"]["type"], error["body"]["error"]["type"]), ("error", "rate_limit_error"))
    need(error["body"]["error"]["message"], "no message:", error)
    need(1 <= int(error["fields"]["retry-after"]) <= 2, "Retry-After:", error["fields"])


def retries_obey(place, name, kind):
    """A refused call of the SDK goes through when Retry-After has passed."""
    given, fields = arguments(name, False)
    gateway = place.gateway(requests_and_tokens(
        kind, window="per: 3s, algorithm: fixed_window, anchor: first_request"))
    value_of(place.clients.call(name, gateway.url, fields=fields, **given))
    answer = place.clients.call(name, gateway.url, fields=fields, retries=1, **given)
    value_of(answer)
    first, second = answer["attempts"][:2]
    same("statuses", [one["status"] for one in answer["attempts"]], [429, 200])
    waited, told = (second["at"] - first["at"]) / 1000, int(first["fields"]["retry-after"])
    need(told in (2, 3), "Retry-After:", told)
    need(told - 0.1 <= waited < told + 1.5, f"the SDK waits {waited} s, and Retry-After is {told}")
    same("admitted", len(place.provider.seen()), 2)


for _name, _kind in (("chat", "openai"), ("responses", "openai"), ("messages", "anthropic"), ("bedrock", "problem")):
    scenario(f"{SDK_OF[_name]} {_name}: its retry comes after Retry-After, and passes")(
        lambda place, name=_name, kind=_kind: retries_obey(place, name, kind))


def throws_at_once(place, name, kind):
    """A call of the SDK that is refused for an hour throws, and does not sleep until then."""
    given, fields = arguments(name, False)
    gateway = place.gateway(requests_and_tokens(kind, window="per: 1h, algorithm: fixed_window, "
                                                             "anchor: first_request"))
    value_of(place.clients.call(name, gateway.url, fields=fields, **given))
    answer = place.clients.call(name, gateway.url, fields=fields, retries=2, **given)
    same("class", error_of(answer)["class"], "RateLimitError")
    same("statuses", [one["status"] for one in answer["attempts"]], [429])
    need(int(answer["attempts"][0]["fields"]["retry-after"]) > 3_000, "Retry-After:", answer)


for _name, _kind in (("chat", "openai"), ("messages", "anthropic")):
    scenario(f"{SDK_OF[_name]} {_name}: a refusal for an hour throws at once")(
        lambda place, name=_name, kind=_kind: throws_at_once(place, name, kind))


@scenario("openai: x-ratelimit-* say what Tidegate counts, and the provider's own are gone")
def _(place):
    gateway = place.gateway(requests_and_tokens("openai", 60, "per: 6min, algorithm: fixed_window, "
                                                "anchor: first_request"))
    given, fields = arguments("chat", False)
    answer = place.clients.call("chat", gateway.url, fields=fields, **given)
    value_of(answer)
    seen = answer["attempts"][0]["fields"]
    reserved = estimate(len(place.provider.last()["body"]), 100, {"input": 1, "output": 1})
    same("requests", (seen.get("x-ratelimit-limit-requests"), seen.get("x-ratelimit-remaining-requests")), ("60", "59"))
    same("tokens", (seen.get("x-ratelimit-limit-tokens"), seen.get("x-ratelimit-remaining-tokens")),
         ("10000", str(10_000 - reserved)))
    reset = duration(seen.get("x-ratelimit-reset-requests", ""))
    need(350 <= reset <= 360, "x-ratelimit-reset-requests:", seen.get("x-ratelimit-reset-requests"))
    need(86_000 <= duration(seen.get("x-ratelimit-reset-tokens", "")) <= 86_400, "x-ratelimit-reset-tokens:", seen)
    same("other fields of the provider", seen.get("openai-processing-ms"), "12")


def duration(text):
    """Seconds of a duration such as 6m0s, 17ms or 1h2m3s, as Go writes it."""
    need(re.fullmatch(r"(\d+h)?(\d+m)?(\d+(\.\d+)?s)?|\d+(\.\d+)?ms", text) and text, f"no duration: {text!r}")
    seconds = {"h": 3600, "m": 60, "s": 1, "ms": 0.001}
    return sum(float(number) * seconds[unit] for number, unit in re.findall(r"([\d.]+)(ms|h|m|s)", text))


@scenario("@anthropic-ai/sdk: anthropic-ratelimit-* say what Tidegate counts, and the provider's own are gone")
def _(place):
    gateway = place.gateway(requests_and_tokens("anthropic", 60, "per: 6min, algorithm: fixed_window, "
                                                "anchor: first_request"))
    given, fields = arguments("messages", False)
    answer = place.clients.call("messages", gateway.url, fields=fields, **given)
    value_of(answer)
    seen = answer["attempts"][0]["fields"]
    reserved = estimate(len(place.provider.last()["body"]), 50, {"input": 1, "output": 1})
    begin = "anthropic-ratelimit-"
    same("limit and remaining", [seen.get(f"{begin}{kind}-{what}") for kind in ("requests", "tokens")
                                 for what in ("limit", "remaining")],
         ["60", "59", "10000", str(10_000 - reserved)])
    for kind, seconds in (("requests", 360), ("tokens", 86_400)):
        text = seen.get(f"{begin}{kind}-reset", "")
        need(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", text), f"{kind}-reset is {text!r}")
        at = time.mktime(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone
        need(math.isclose(at - time.time(), seconds, abs_tol=15), f"{kind}-reset is {text}")


@scenario("the provider's own 429 reaches the SDK unchanged, and takes nothing")
def _(place):
    gateway = place.gateway(tokens())
    for name in CALLS:
        given, _ = arguments(name, False)
        fields = {"x-trial": "fail=429; retry_after=7"}
        direct = error_of(place.clients.call(name, place.provider.url, fields=fields, **given))
        through = place.clients.call(name, gateway.url, fields=fields, **given)
        error = error_of(through)
        same(f"{name}: class, message and body", [error.get(one) for one in ("class", "message", "body")],
             [direct.get(one) for one in ("class", "message", "body")])
        same(f"{name}: Retry-After", through["attempts"][-1]["fields"].get("retry-after"), "7")
    gateway.settles_to(0)
    lines = gateway.lines(len(CALLS))
    same("verdicts and outcomes", {(one["verdict"], one["outcome"]) for one in lines}, {("admitted", "forwarded")})
    same("tidegate_decisions_total denied", gateway.metric("tidegate_decisions_total", outcome="denied"), 0)


@scenario("the SDKs retry a provider's error, and each try is settled by itself")
def _(place):
    gateway = place.gateway(tokens())
    counted = 0
    for name in CALLS:
        given, fields = arguments(name, False)
        fields["x-trial"] += f"; fail=503; fail_times=1; name=retry-{name}"
        answer = place.clients.call(name, gateway.url, fields=fields, retries=2, **given)
        value_of(answer)
        same(f"{name}: statuses", [one["status"] for one in answer["attempts"]], [503, 200])
        counted += cost_of(place.provider.last()["usage"])
        gateway.settles_to(counted, what=name)


@scenario("MCP: the SDK at both ends, with a limit for each tool")
def _(place):
    port = free_port()
    place.world.start(["node", HERE / "tools.mjs", place.modules, port],
                      stderr=open(place.world.folder / "tools.err", "wb"), stdout=subprocess.DEVNULL)
    until(lambda: accepts(port), 20, "the server of tools")
    gateway = place.gateway(
        "policies:\n  tools:\n    key: [\"user+body:/params/name\"]\n    on_missing: skip\n"
        f"    limits: {limits(2)}\n  calls:\n    key: [user]\n    limits: {limits(100)}\n"
        "routes:\n  - {name: tools, match: {path: /mcp, methods: [POST]}, upstream: models, policies: [tools, calls]}\n"
        "  - {name: others, match: {path: \"/**\"}, upstream: models, policies: [calls]}\n", upstream=port)
    results = value_of(place.clients.call("mcp", gateway.url, tools=[
        ["search", {"word": "a"}], ["search", {"word": "b"}], ["search", {"word": "c"}], ["render", {"word": "d"}],
        ["render", {"word": "e"}]]))
    same("the tools", results[0], {"tools": ["search", "render"]})
    same("texts", [one.get("text") for one in results[1:]], ["search a", "search b", None, "render d", "render e"])
    need("429" in results[3]["error"] or results[3]["code"] == 429, "the third call:", results[3])
    other = value_of(place.clients.call("mcp", gateway.url, user="bob", tools=[["search", {"word": "a"}]]))
    same("another user", other[1].get("text"), "search a")


@scenario("an SDK's credential names its user, and reaches the provider as it was")
def _(place):
    gateway = place.gateway(tokens())
    for name, user, field in (("chat", "user1", "authorization"), ("messages", "user2", "authorization"),
                              ("gemini", "user3", "x-goog-api-key")):
        given, fields = arguments(name, False)
        value_of(place.clients.call(name, gateway.url, user=user, fields=fields, **given))
        gateway.settles_to(cost_of(place.provider.last()["usage"]), f"user:{user}")
        need(key_of(user) in "".join(field_of(place.provider.last(), field)), f"{field} at the provider:",
             place.provider.last()["fields"])
