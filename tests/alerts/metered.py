"""A Tidegate under traffic, and a Prometheus that reads it; all of it on loopback."""

import base64
import contextlib
import http.client
import http.server
import json
import pathlib
import re
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from world import Failed, Redis, Tidegate, free_port, until

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CLIENTS = 2
SETTINGS = """
store: {{redis: {{url: "redis://127.0.0.1:{redis}", timeout: 200ms}}}}
upstreams: {{api: {{servers: ["http://127.0.0.1:{upstream}"]}}}}
identity:
  user:
    - jwt: {{jwks: "http://127.0.0.1:{upstream}/keys.json", algorithms: [ES256], audience: api}}
tracing: {{otlp: "http://127.0.0.1:{upstream}/v1/traces", sample: 1}}
prices: {prices}
policies:
  per-client: {{key: [ip], limits: [20/s]}}
  planned: {{key: [ip], limits: [5/s], mode: shadow}}
  tokens: {{key: [ip], limits: [1000000/s], cost: {{reserve: auto, settle: openai}}}}
  budget: {{key: [ip], limits: [{{quota: 500, unit: usd, per: 1h}}], cost: {{reserve: auto, settle: openai, unit: usd}}}}
routes:
  - {{name: all, match: {{path: "/a"}}, upstream: api, policies: [per-client, planned]}}
  - {{name: models, match: {{path: "/models/*"}}, upstream: api, policies: [tokens, budget]}}
"""
PRICES = 'models: {"gpt-x*": {input: 1.25, output: 10}}\n'
USAGE = b'{"model": "gpt-x", "usage": {"prompt_tokens": 100, "completion_tokens": 20}}'

PROMETHEUS = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - {{job_name: tidegate, static_configs: [{{targets: ["127.0.0.1:{admin}"]}}]}}
"""


def key_set():
    """A public key (RFC 7517) of which the private one is thrown away."""
    key = subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout"],
                         capture_output=True, check=True).stdout
    der = subprocess.run(["openssl", "ec", "-pubout", "-outform", "DER"], input=key,
                         capture_output=True, check=True).stdout
    x, y = (base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (der[-64:-32], der[-32:]))
    return {"keys": [{"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": "a", "x": x, "y": y}]}


class Upstream(http.server.BaseHTTPRequestHandler):
    """Answers each GET and the calls of a model, has the keys of tokens, and collects spans."""

    protocol_version = "HTTP/1.1"
    keys = b""

    def do_GET(self):
        self._answer(self.keys if self.path == "/keys.json" else b"ok\n")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(USAGE if self.path == "/models/chat" else b"{}")

    def _answer(self, body):
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Metered:
    """A Tidegate with Redis, TLS, keys from a URL, traces, prices and a policy in shadow: all of its metrics show."""

    def __init__(self, world, program):
        self.redis = Redis(world)
        Upstream.keys = json.dumps(key_set()).encode()
        upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
        upstream.daemon_threads = True
        threading.Thread(target=upstream.serve_forever, daemon=True).start()
        subprocess.run([ROOT / "scripts/certificates", world.folder / "tls"], check=True,
                       stdout=subprocess.DEVNULL)
        prices = world.folder / "prices.yaml"
        prices.write_text(PRICES)
        self.plain_port, self.tls_port = free_port(), free_port()
        certificate = f"{{certificate: {world.folder}/tls/fullchain.pem, key: {world.folder}/tls/privkey.pem}}"
        self.tidegate = Tidegate(
            world, program, SETTINGS.format(redis=self.redis.port, upstream=upstream.server_port, prices=prices),
            listen=f"[{{address: '127.0.0.1:{self.plain_port}'}}, {{address: '127.0.0.1:{self.tls_port}', "
                   f"tls: {{certificates: [{certificate}]}}}}]")
        self.stopped = threading.Event()

    def lose_redis(self):
        self.redis.kill()

    @contextlib.contextmanager
    def clients(self):
        """Clients that send requests, one after the other, each on connections of its own."""
        threads = [threading.Thread(target=self._client, args=(number == 0,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopped.set()
            for thread in threads:
                thread.join()

    def _client(self, over_tls):
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        while not self.stopped.is_set():
            connection = (
                http.client.HTTPSConnection("127.0.0.1", self.tls_port, timeout=10, context=context)
                if over_tls else http.client.HTTPConnection("127.0.0.1", self.plain_port, timeout=10))
            with contextlib.suppress(OSError, http.client.HTTPException):
                for path in ["/a"] * 20 + ["/nowhere"]:
                    connection.request("GET", path)
                    connection.getresponse().read()
                    time.sleep(0.02)
                for path in ("/models/chat", "/models/silent"):
                    connection.request("POST", path, '{"model": "gpt-x", "max_tokens": 50}',
                                       {"Content-Type": "application/json"})
                    connection.getresponse().read()
            connection.close()

    def metric_names(self):
        """The names of all samples of /metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.tidegate.admin_port}/metrics",
                                    timeout=10) as reply:
            text = reply.read().decode()
        return set(re.findall(r"^([a-z0-9_]+)[ {]", text, re.MULTILINE))


class Prometheus:
    """A real one, which reads the Tidegate once a second and evaluates the alerts."""

    def __init__(self, world, admin_port, rules):
        self.port = free_port()
        config = world.folder / "prometheus.yml"
        config.write_text(PROMETHEUS.format(rules=rules, admin=admin_port))
        self.log_file = world.folder / "prometheus.log"
        with open(self.log_file, "wb") as log:
            self.process = world.start(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={world.folder}/tsdb",
                 f"--web.listen-address=127.0.0.1:{self.port}"], stdout=log, stderr=log)
        until(self._ready, 60, "prometheus")

    def _ready(self):
        if self.process.poll() is not None:
            raise Failed("prometheus ended at once:\n" + self.log_file.read_text(errors="replace"))
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as reply:
                return reply.status == 200
        except OSError:
            return False

    def get(self, path, **parameters):
        """The answer of the API, also when it says that something is wrong."""
        query = "?" + urllib.parse.urlencode(parameters) if parameters else ""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}{query}", timeout=30) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as fault:
            return json.load(fault)

    def query(self, expression):
        return self.get("/api/v1/query", query=expression)

    def _scrapes(self):
        answer = self.query('count_over_time(tidegate_build_info{job="tidegate"}[10m])')
        return max((int(one["value"][1]) for one in answer.get("data", {}).get("result", [])), default=0)

    def wait_for_scrapes(self, more):
        """Until Prometheus has read the Tidegate so many times more."""
        wanted = self._scrapes() + more
        until(lambda: self._scrapes() >= wanted, 60 + 5 * more, f"{more} scrapes")

    def _rules(self):
        groups = self.get("/api/v1/rules")["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def faults_of_rules(self):
        """Of the rules that Prometheus has loaded: an error of the last evaluation."""
        rules = self._rules()
        wrong = [f"{rule['name']}: {rule.get('lastError') or rule['health']}" for rule in rules
                 if rule["health"] != "ok"]
        return wrong or ([] if rules else ["Prometheus has no rules"])

    def is_pending(self, name):
        """Whether the alert's expression holds, and its time has begun."""
        return any(rule["name"] == name and rule["state"] in ("pending", "firing") for rule in self._rules())
