"""Rows of costs that are known afterwards, each beside the same route without costs."""

import dataclasses
import http.client
import json
import pathlib
import subprocess
import tempfile
import time

import peers
from load import CONNECTIONS, STEADY_RATE, USERS, head
from machine import Missing, World, Wrong, need
from measure import Sample, check_answers
from peers import IDLE_CONNECTIONS, MODULES, probe_fields
from rows import Row

BODY_BYTES = 2_048  # of a request, and of an answer that is no stream
MAXIMUM = 200  # tokens that a request asks for
INPUT, OUTPUT = 400, 150  # tokens that an answer says
EVENTS, EVENT_BYTES = 2_000, 200
STREAMS = 32  # at a time
EVENT_EVERY_MS = 1  # of one stream
WARM_SECONDS = 2
STREAM_SECONDS = 5  # at least: a stream takes more than 2 s
SETTLED_SECONDS = 0.2  # from an answer until Redis has what it took
CHAT = "/v1/chat/completions"


# ---- what is sent and answered

def filled(text, size, place="FILL"):
    """`text` with so much in the place of FILL that it has `size` bytes."""
    words = "the quick brown fox jumps over the lazy dog "
    missing = size - len(text) + len(place)
    return text.replace(place, (words * (missing // len(words) + 1))[:missing])


def request_body(**more):
    call = {"model": "gpt-x", "max_tokens": MAXIMUM, **more,
            "messages": [{"role": "system", "content": "You are a helpful assistant."},
                         {"role": "user", "content": "FILL"}]}
    return filled(json.dumps(call), BODY_BYTES)


USAGE = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT,
         "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
         "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0}}


def answer_body():
    """A chat completion, with the usage at its end, as OpenAI sends it."""
    return filled(json.dumps({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1_790_000_000, "model": "gpt-x",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "FILL"},
                     "logprobs": None, "finish_reason": "stop"}],
        "usage": USAGE}), BODY_BYTES)


def event(text="FILL", choices=True, usage="null"):
    """`usage`: null in each event but the last, as where the client asked for usage; or none."""
    delta = f'{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":null}}'
    said = f',"usage":{usage}' if usage else ""
    return ('data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,'
            f'"model":"gpt-x","choices":[{delta if choices else ""}]{said}}}\n\n')


def each_event(usage):
    return filled(event(usage=usage), EVENT_BYTES)


LAST_EVENTS = (event(choices=False, usage=json.dumps(USAGE, separators=(",", ":")))
               + "data: [DONE]\n\n")


def start_upstream_of_models(world):
    """nginx. `/v1/`: the JSON answer. `/whole/`: the stream as a file. `/paced/`: each event for
    itself, so long after the one before; its usage is null, or (`/paced/bare/`) not there."""
    module = f"{MODULES}/ngx_http_lua_module.so"
    if not pathlib.Path(module).exists():
        raise Missing("libnginx-mod-http-lua is not installed")
    (world.folder / "bodies").mkdir(exist_ok=True)
    world.file("bodies/stream.txt", each_event("null") * EVENTS + LAST_EVENTS)
    for name, usage in (("null", "null"), ("bare", "")):
        world.file(f"{name}.event", each_event(usage))
    world.file("last.event", LAST_EVENTS)

    def paced(name):
        return f"""default_type text/event-stream;
            content_by_lua_block {{
                for _ = 1, {EVENTS} do
                    ngx.print(events['{name}'])
                    ngx.flush(true)
                    ngx.sleep({EVENT_EVERY_MS / 1000})
                end
                ngx.print(events['last'])
            }}"""
    config = world.file("models.conf", f"""
load_module {MODULES}/ndk_http_module.so; load_module {module};
daemon off; worker_processes 1; pid models.pid; error_log stderr crit;
events {{ worker_connections 12000; }}
http {{
    access_log off; sendfile on; tcp_nopush on; tcp_nodelay on;
    client_body_buffer_size 16k;
    init_by_lua_block {{
        events = {{}}
        for _, name in ipairs{{'null', 'bare', 'last'}} do
            local file = assert(io.open('{world.folder}/' .. name .. '.event', 'rb'))
            events[name] = file:read('*a')
            file:close()
        end
    }}
    server {{
        listen 127.0.0.1:PORT backlog=4096;
        keepalive_requests 1000000000; keepalive_timeout 1h;
        location /v1/ {{ default_type application/json; return 200 '{answer_body()}'; }}
        # nginx does not send a file for a POST: this makes it a GET.
        location /whole/ {{ error_page 405 =200 /bodies/stream.txt; return 405; }}
        location /bodies/ {{ types {{ }} default_type text/event-stream; root {world.folder}; }}
        location /paced/ {{ {paced('null')} }}
        location /paced/bare/ {{ {paced('bare')} }}
    }}
}}
""")

    def command(port):
        config.write_text(config.read_text().replace("PORT", str(port)))
        return [need("nginx"), "-p", world.folder, "-c", config]
    world.upstream = command


# ---- the rows

WINDOWS = "[1000000000/min, 4000000000/day]"
DOLLARS = "[{quota: 1000000, unit: usd, anchor: utc_month}]"
COST = "reserve: auto, settle: openai"
REQUESTS = f"  requests: {{key: [user], limits: {WINDOWS}}}\n"
TOKENS = f"  tokens: {{key: [user], limits: {WINDOWS}, cost: {{{COST}}}}}\n"
ASKED = f"  tokens: {{key: [user], limits: {WINDOWS}, cost: {{{COST}, ask_usage: on}}}}\n"
MONEY = f"  budget: {{key: [user], limits: {DOLLARS}, cost: {{{COST}, unit: usd}}}}\n"
MONTHLY = ("  budget: {key: [user], limits: "
           "[{quota: 1000000000, anchor: utc_month, algorithm: fixed_window}]}\n")
# So that a request takes whole thousandths of a dollar, which the fields of answers show.
PRICES = ("as_of: 2026-11-01\ncurrency: usd\n"
          "models: {'gpt-x*': {input: 1.25, cached: 0.125, output: 10}}\n")

# What each row has, and what one request takes of each policy.
POLICIES = {
    "plain": (REQUESTS, {"requests": 1}),
    "tokens": (TOKENS, {"tokens": INPUT + OUTPUT}),
    "asked": (ASKED, {"tokens": INPUT + OUTPUT}),
    "three": (REQUESTS + REQUESTS.replace("requests", "tokens") + MONTHLY,
              {"requests": 1, "tokens": 1, "budget": 1}),
    "all": (REQUESTS + TOKENS + MONEY,
            {"requests": 1, "tokens": INPUT + OUTPUT, "budget": 0.002}),
}
LABELS = {
    "plain": "1 request", "tokens": "tokens", "asked": "tokens, usage asked for and taken out",
    "three": "three policies of 1 request", "all": "requests, tokens and money",
}
STORES = {"memory": "in process", "redis": "Redis"}
# With costs, and what it is measured beside.
PAIRS = (("tokens", "plain"), ("all", "three"), ("asked", "plain"))
JSON_ROWS = tuple(f"usage-{store}-{kind}" for store in STORES
                  for pair in PAIRS[:2] for kind in pair)
STREAM_ROWS = ("usage-memory-plain", "usage-memory-tokens")
PARTS = {
    "usage-json": JSON_ROWS,
    "usage-steady": JSON_ROWS,
    "usage-paced": (*STREAM_ROWS, "usage-redis-plain", "usage-redis-tokens"),
    "usage-bare": (*STREAM_ROWS, "usage-memory-asked"),
    "usage-whole": STREAM_ROWS,
    "usage-parsed": ("sse_null", "sse_bare", "sse_pieces", "sse_anthropic", "json_answer"),
}
PATHS = {"usage-paced": "/paced/", "usage-bare": "/paced/bare/", "usage-whole": "/whole/"}
PARSED = {"sse_null": "OpenAI's stream, usage null in each event",
          "sse_bare": "OpenAI's stream, usage in the last event only",
          "sse_pieces": "OpenAI's stream, an event a piece",
          "sse_anthropic": "Anthropic's stream",
          "json_answer": "an answer of 2 KiB JSON"}


def start_of(program, store, kind):
    def start(world):
        start_upstream_of_models(world)
        policies, _ = POLICIES[kind]
        names = ", ".join(line.split(":")[0].strip() for line in policies.splitlines())
        settings = ""
        if "usd" in policies:
            world.file("prices.yaml", PRICES)
            settings = "prices: prices.yaml\n"
        settings += (f"upstreams: {{api: {{servers: [UPSTREAM], idle_connections: "
                     f"{IDLE_CONNECTIONS}}}}}\n{peers.IDENTITY}policies:\n{policies}"
                     f"routes: [{{name: all, match: {{path: '/**'}}, upstream: api, "
                     f"policies: [{names}]}}]\n")
        redis = peers.start_redis(world) if store == "redis" else None
        return peers.start_tidegate(world, program, settings, redis)
    return start


def all_rows(program):
    rows = [Row(f"usage-{store}-{kind}", f"{words}, {LABELS[kind]}",
                start_of(program, store, kind))
            for store, words in STORES.items() for kind in POLICIES
            if store == "memory" or kind != "asked"]
    return rows + [Row(name, words, None) for name, words in PARSED.items()]


def kind_of(row):
    return row.name.split("-")[2]


# ---- the measurement

@dataclasses.dataclass
class UsageMeasuring:
    """As Measuring, for these parts."""

    parser: pathlib.Path  # bench_usage
    loads: object
    folder: pathlib.Path
    seconds: int

    def round(self, part, row):
        if part == "usage-parsed":
            return self.parsed(row)
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder, \
                World(pathlib.Path(folder)) as world:
            setup = row.start(world)
            path = PATHS.get(part, CHAT)
            heads = self.folder / f"{part}-{kind_of(row)}.heads"
            if not heads.exists():
                heads.write_text("".join(post(user, path, body_of(path, row))
                                         for user in range(USERS)))
            verify(setup, path, row)
            self.load(world, setup, part, heads, WARM_SECONDS)
            before = Sample(setup)
            seconds = max(self.seconds, STREAM_SECONDS) if is_paced(path) else self.seconds
            result = self.load(world, setup, part, heads, seconds)
            after = Sample(setup)
            check_answers(row, result)
            verify(setup, path, row)
            return figures_of(path, result, after, before, row)

    def load(self, world, setup, part, heads, seconds):
        if part == "usage-steady":
            return self.loads.steady(world, setup.port, heads, seconds, rate=STEADY_RATE)
        if part in PATHS:
            return self.loads.wrk(world, setup.port, heads, seconds, STREAMS,
                                  unfinished=is_paced(PATHS[part]))
        return self.loads.wrk(world, setup.port, heads, seconds)

    def parsed(self, row):
        """GiB a second on one core, by a micro-benchmark."""
        done = subprocess.run([self.parser, f"--benchmark_filter=^{row.name}$",
                               "--benchmark_format=json", f"--benchmark_min_time={self.seconds}"],
                              capture_output=True, text=True, timeout=60 + 10 * self.seconds)
        if done.returncode != 0 or not done.stdout:
            raise Wrong(f"bench_usage: {done.stderr}")
        found = json.loads(done.stdout)["benchmarks"][0]
        return {"gib_s": found["bytes_per_second"] / 2**30}


def is_paced(path):
    return path.startswith("/paced/")


def body_of(path, row):
    if path == CHAT:
        return request_body()
    if kind_of(row) == "asked":
        return request_body(stream=True)
    return request_body(stream=True, stream_options={"include_usage": True})


def post(user, path, body):
    fields = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head(user, fields).replace("GET / ", f"POST {path} ") + body


def figures_of(path, result, after, before, row):
    requests = result["requests"]
    if is_paced(path):
        # Those that did not end in time count as far as they came; each event is a chunk of its
        # own, with its size and two ends of lines.
        requests = result["bytes"] / (EVENTS * (EVENT_BYTES + len("c8\r\n\r\n")))
    figures = after.since(before, requests)
    if after.redis and path == CHAT:
        # A decision writes the values of its policies, and a settlement those that it changes.
        policies, costs = POLICIES[kind_of(row)]
        least = len(costs) + policies.count("cost:")
        if figures["writes"] < 0.95 * least:
            raise Wrong(f"Redis wrote {figures['writes']:.2f} values a request, not {least}")
    return {"requests": requests, "rps": requests / result["seconds"],
            **{name: result[name] for name in ("p50_us", "p99_us", "p999_us")}, **figures}


def ask(setup, path, body):
    connection = http.client.HTTPConnection("127.0.0.1", setup.port, timeout=60)
    try:
        connection.request("POST", path, body,
                           {**probe_fields("probe"), "Content-Type": "application/json"})
        answer = connection.getresponse()
        status, text = answer.status, answer.read().decode()
    finally:
        connection.close()
    time.sleep(SETTLED_SECONDS)
    if status != 200:
        raise Wrong(f"answered {status} {text[:80]!r}")
    return text, answer.headers


def left(setup):
    """What is left of each policy's longest window, by the answer to one more request."""
    text, headers = ask(setup, CHAT, request_body())
    if text != answer_body():
        raise Wrong(f"answered {text[:80]!r}")
    found = {}
    for item in headers["RateLimit"].split(","):
        name, _, rest = item.strip().partition(";r=")
        policy, _, window = name.strip('"').partition("-")
        if window != "1min":
            found[policy] = float(rest.split(";")[0])
    return found


def verify(setup, path, row):
    """A request takes of each policy what its answer says, and nothing of it stays reserved."""
    _, costs = POLICIES[kind_of(row)]
    first = left(setup)
    if path != CHAT:
        stream, _ = ask(setup, path, body_of(path, row))
        events = stream.count("data: ")
        wanted = EVENTS + (1 if kind_of(row) == "asked" else 2)
        if events != wanted or not stream.endswith("data: [DONE]\n\n"):
            raise Wrong(f"a stream had {events} events, not {wanted}, and ended {stream[-40:]!r}")
    last = left(setup)
    requests = 1 if path == CHAT else 2
    for policy, cost in costs.items():
        took = first[policy] - last[policy]
        if abs(took - requests * cost) > 0.0005:
            raise Wrong(f"{requests} requests took {took:g} of {policy}, not {requests * cost:g}")


TITLES = {
    "usage-json": f"2 KiB of JSON each way, {CONNECTIONS} connections, as fast as answers come",
    "usage-steady": f"2 KiB of JSON each way, {STEADY_RATE:,} requests a second",
    "usage-paced": f"Streams of {EVENTS:,} events of {EVENT_BYTES} bytes, each a stream a request; "
                   f"{STREAMS} at a time, an event of each every {EVENT_EVERY_MS} ms",
    "usage-bare": "The same, events without `usage` but the last",
    "usage-whole": f"The same stream at once, as a file; {STREAMS} connections",
    "usage-parsed": "Answers read for their usage, on one core",
}

# Part, row, what it is, must, stretch.
GOALS = (
    *((part, f"usage-{store}-{kind}", f"2 KiB of JSON, {LABELS[kind]}, {words}{rate}", *goal)
      for part, rate, goal in (("usage-json", "", (1.25, 1.15)),
                               ("usage-steady", f", {STEADY_RATE:,} a second", (None, 1.25)))
      for kind, _ in PAIRS[:2] for store, words in STORES.items()),
    ("usage-paced", "usage-memory-tokens", "stream, in process", 1.10, 1.05),
    ("usage-paced", "usage-redis-tokens", "stream, Redis", 1.10, 1.05),
    ("usage-bare", "usage-memory-tokens", "stream without usage but the last", 1.10, 1.05),
    ("usage-bare", "usage-memory-asked", "stream, usage asked for and taken out", None, 1.10),
    ("usage-whole", "usage-memory-tokens", "stream at once", None, 1.10),
)
