"""Clients of gRPC: Google's library for Python against Tidegate's answers, and as Envoy asks."""

import concurrent.futures
import subprocess
import sys
import urllib.request

import grpc
from world import Tidegate, free_port, until

RULES = """
domain: edge
descriptors:
  - {key: remote_address, rate_limit: {unit: hour, requests_per_unit: 2}}
"""
SETTINGS = """
rls: {{files: [{folder}/rules.yaml]}}
upstreams: {{api: {{servers: ["h2c://127.0.0.1:{server}"]}}, old: {{servers: [http://127.0.0.1:{echo}]}}}}
policies:
  few: {{key: [ip], limits: [1/h]}}
  never: {{key: [ip], limits: [{{quota: 0, per: 1h}}]}}
routes:
  - {{match: {{path: "/few/**"}}, upstream: api, policies: [few]}}
  - {{match: {{path: "/never/**"}}, upstream: api, policies: [never]}}
  - {{match: {{path: "/old/**"}}, upstream: old, policies: []}}
threads: 1
"""
RETRIES = """{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4,
    "initialBackoff": "0.01s", "maxBackoff": "0.1s", "backoffMultiplier": 2,
    "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}"""
SERVICE = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
CHECK = "/envoy.service.auth.v3.Authorization/Check"


def messages(folder, root):
    """The classes that protoc makes of Tidegate's own files."""
    names = [str(one) for one in sorted((root / "proto").glob("*.proto"))]
    subprocess.run(["protoc", f"--python_out={folder}", f"-I{root / 'proto'}", *names], check=True)
    sys.path.insert(0, str(folder))
    import external_auth_pb2
    import health_pb2
    import ratelimit_pb2
    return ratelimit_pb2, external_auth_pb2, health_pb2


def ask(port, path, request, answer, options=()):
    """The answer's message, or the error of the call."""
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        call = channel.unary_unary(path, request_serializer=lambda one: one.SerializeToString(),
                                   response_deserializer=answer.FromString)
        try:
            return call(request, timeout=20)
        except grpc.RpcError as error:
            return error


def is_error(answer, code):
    return isinstance(answer, grpc.RpcError) and answer.code() == code


class Server:
    """A server of gRPC with its health service; each other method gives back what it gets."""

    def __init__(self, health):
        self.health, self.serving = health, True
        self.checks = 0
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers((self,))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def service(self, details):
        if details.method == "/grpc.health.v1.Health/Check":
            return grpc.unary_unary_rpc_method_handler(self.check)
        if details.method.endswith("/Chat"):
            return grpc.stream_stream_rpc_method_handler(lambda requests, _: requests)
        if details.method.endswith("/Guess"):
            return grpc.unary_unary_rpc_method_handler(
                lambda _, context: context.abort(grpc.StatusCode.UNAUTHENTICATED, "no"))
        return grpc.unary_unary_rpc_method_handler(lambda request, _: request)

    def check(self, _request, _context):
        self.checks += 1
        return self.health.HealthCheckResponse(status=1 if self.serving else 2).SerializeToString()

    def stop(self):
        self.server.stop(None).wait()


def try_refusals(part, port, message):
    codes = grpc.StatusCode
    first = ask(port, "/few/x", message, type(message))
    part.expect(first == message, "the service answers", first)
    old = ask(port, "/old/x", message, type(message))
    part.expect(is_error(old, codes.UNIMPLEMENTED) and "h2c://" in old.details(), "HTTP/1 is", old)
    refused = ask(port, "/few/x", message, type(message))
    part.expect(is_error(refused, codes.RESOURCE_EXHAUSTED), "a limit is", refused)
    if is_error(refused, codes.RESOURCE_EXHAUSTED):
        told = {one.key: one.value for one in refused.trailing_metadata()}
        part.expect(refused.details() == "The request is over a limit.", refused.details())
        part.expect(int(told["grpc-retry-pushback-ms"]) > 3_000_000, "pushback", told)
        part.expect(b"google.rpc.RetryInfo" in told["grpc-status-details-bin"], "details", told)
    missing = ask(port, "/none/x", message, type(message))
    part.expect(is_error(missing, codes.UNIMPLEMENTED), "no route is", missing)


def try_retries(part, tidegate, port, message):
    """A client that retries by itself leaves a call alone that can never pass."""
    options = [("grpc.enable_retries", 1), ("grpc.service_config", RETRIES)]
    answer = ask(port, "/never/x", message, type(message), options)
    part.expect(is_error(answer, grpc.StatusCode.RESOURCE_EXHAUSTED), "quota 0 is", answer)
    with urllib.request.urlopen(f"http://127.0.0.1:{tidegate.admin_port}/metrics") as reply:
        lines = reply.read().decode().splitlines()
    denied = [one for one in lines if one.startswith("tidegate_decisions_total")
              and 'policy="never"' in one and 'outcome="denied"' in one]
    part.expect(len(denied) == 1 and denied[0].endswith(" 1"), "sent more than once:", denied)


def try_services(part, port, kinds):
    limits, authz, health = kinds
    request = limits.RateLimitRequest(domain=b"edge")
    entry = request.descriptors.add().entries.add()
    entry.key, entry.value = b"remote_address", b"203.0.113.7"
    codes = [ask(port, SERVICE, request, limits.RateLimitResponse) for _ in range(3)]
    found = [getattr(one, "overall_code", one) for one in codes]
    part.expect(found == [1, 1, 2], "ShouldRateLimit answers", found)
    check = authz.CheckRequest()
    http = check.attributes.request.http
    http.method, http.path, http.host = b"GET", b"/never/x", b"a"
    check.attributes.source.address.socket_address.address = "203.0.113.7"
    denied = ask(port, CHECK, check, authz.CheckResponse)
    part.expect(not isinstance(denied, grpc.RpcError) and
                denied.denied_response.status.code == 429, "Check answers", denied)
    serving = ask(port, "/grpc.health.v1.Health/Check", health.HealthCheckRequest(),
                  health.HealthCheckResponse)
    part.expect(getattr(serving, "status", serving) == 1, "health is", serving)


def try_recipe(part, place, server, message):
    """config/recipes/grpc.yaml in front of the server."""
    port = free_port()
    text = (place.root / "config/recipes/grpc.yaml").read_text()
    settings = "\n".join(one for one in text.splitlines() if not one.startswith(("#", "listen:")))
    settings = settings.replace("127.0.0.1:3000", f"127.0.0.1:{server.port}")
    # A check has all of `every`, so that a busy machine fails none.
    settings = settings.replace("grpc: on", "grpc: on, every: 2s, timeout: 2s, unhealthy_after: 1")
    tidegate = Tidegate(place.world, place.program, settings + "\nthreads: 1\n",
                        listen=f"{{address: '127.0.0.1:{port}', http: h2}}", name="recipe")
    until(lambda: server.checks > 0, 20, "a health check")
    answer = ask(port, "/api.Users/Get", message, type(message))
    part.expect(answer == message, "the recipe answers", answer)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        words = [b"one", b"two", b"x" * 100_000]
        heard = list(channel.stream_stream("/api.Users/Chat")(iter(words), timeout=20))
    part.expect(heard == words, "a conversation of", [len(one) for one in heard])
    for _ in range(5):
        guess = ask(port, "/api.Users/Guess", message, type(message))
        part.expect(is_error(guess, grpc.StatusCode.UNAUTHENTICATED), "a guess is", guess)
    guess = ask(port, "/api.Users/Guess", message, type(message))
    part.expect(is_error(guess, grpc.StatusCode.RESOURCE_EXHAUSTED), "the sixth is", guess)
    server.serving = False
    until(lambda: "it says NOT_SERVING" in tidegate.errors(), 20, "a server that is not serving")
    code = tidegate.stop()
    part.expect(code == 0, "Tidegate with the recipe ended with", code)


def try_grpc(place):
    part = place.part("grpc")
    folder, root = place.world.folder, place.root
    kinds = messages(folder, root)
    (folder / "rules.yaml").write_text(RULES)
    clear, service = free_port(), free_port()
    server = Server(kinds[2])
    tidegate = Tidegate(
        place.world, place.program,
        SETTINGS.format(folder=folder, echo=place.echo_port, server=server.port),
        listen=f"[{{address: '127.0.0.1:{clear}', http: h2}}, "
               f"{{address: '127.0.0.1:{service}', face: envoy_grpc}}]", name="grpc")
    message = kinds[2].HealthCheckRequest(service="x")
    try_refusals(part, clear, message)
    try_retries(part, tidegate, clear, message)
    try_services(part, service, kinds)
    code = tidegate.stop()
    part.expect(code == 0, "Tidegate ended with", code)
    try_recipe(part, place, server, message)
    server.stop()
    part.found = f"grpcio {grpc.__version__}: statuses, retries, the services of Envoy, the recipe"
    yield part
