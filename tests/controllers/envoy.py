"""What Envoy asks by gRPC, as its filters ext_authz and ratelimit make it of a request."""

import subprocess
import sys

import grpc

CHECK = "/envoy.service.auth.v3.Authorization/Check"
LIMIT = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
OVER_LIMIT = 2


class Answer:
    """What Envoy does: `status` and `fields` for the client, `upstream` for the application, as
    {name: (value, is it appended)}."""

    def __init__(self, status, fields, body="", upstream=None, limits=()):
        self.status, self.fields, self.body = status, fields, body
        self.upstream, self.limits = upstream or {}, list(limits)

    def __str__(self):
        return f"{self.status} {self.fields} {self.upstream} {self.limits} {self.body[:200]}"


def text(value):
    return value.decode("latin-1") if isinstance(value, bytes) else value


def fields_of(options):
    return {text(one.header.key).lower(): text(one.header.value) for one in options}


class Envoy:
    def __init__(self, folder, root):
        """`folder` gets the classes that protoc makes of Tidegate's own files."""
        names = [str(one) for one in sorted((root / "proto").glob("*.proto"))]
        subprocess.run(["protoc", f"--python_out={folder}", f"-I{root / 'proto'}", *names], check=True)
        sys.path.insert(0, str(folder))
        import external_auth_pb2
        import ratelimit_pb2
        self.authz, self.limits = external_auth_pb2, ratelimit_pb2

    @staticmethod
    def call(port, path, request, answer):
        with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            ask = channel.unary_unary(path, request_serializer=lambda one: one.SerializeToString(),
                                      response_deserializer=answer.FromString)
            return ask(request, timeout=8)

    def check(self, port, client, method, target, fields, host="shop.example.com"):
        """Asks about a request of `client`; the fields are those behind the connection manager."""
        request = self.authz.CheckRequest()
        source = request.attributes.source.address.socket_address
        source.address, source.port_value = client, 40000
        original = request.attributes.request.http
        original.method, original.path, original.host = method.encode(), target.encode(), host.encode()
        original.scheme, original.size = b"https", 0
        for name, value in {":authority": host, ":method": method, ":path": target, ":scheme": "https",
                            "x-forwarded-proto": "https", "x-request-id": "4b1c", **fields}.items():
            original.headers[name] = value.encode()
        got = self.call(port, CHECK, request, self.authz.CheckResponse)
        if got.HasField("denied_response"):
            denied = got.denied_response
            return Answer(denied.status.code, fields_of(denied.headers), text(denied.body))
        upstream = {text(one.header.key).lower(): (text(one.header.value), self.appends(one))
                    for one in got.ok_response.headers}
        return Answer(200 if got.status.code == 0 else 403, fields_of(got.ok_response.response_headers_to_add),
                      upstream=upstream)

    @staticmethod
    def appends(option):
        return option.append.value if option.HasField("append") else False

    def should_rate_limit(self, port, domain, rate_limits, client, fields, hits):
        """Asks with the descriptors that a route's `rate_limits` make of a request of `client`. One whose
        action finds nothing makes none."""
        request = self.limits.RateLimitRequest(domain=domain.encode(), hits_addend=hits)
        for one in rate_limits:
            entries = [self.entry(action, client, fields) for action in one["actions"]]
            if None in entries:
                continue
            descriptor = request.descriptors.add()
            for key, value in entries:
                entry = descriptor.entries.add()
                entry.key, entry.value = key.encode(), value.encode()
        got = self.call(port, LIMIT, request, self.limits.RateLimitResponse)
        told = {text(one.key).lower(): text(one.value) for one in got.response_headers_to_add}
        return Answer(429 if got.overall_code == OVER_LIMIT else 200, told,
                      limits=[one.current_limit.requests_per_unit for one in got.statuses])

    @staticmethod
    def entry(action, client, fields):
        kind, settings = next(iter(action.items()))
        if kind == "remote_address":
            return "remote_address", client
        if kind == "request_headers":
            value = fields.get(settings["header_name"])
            return None if value is None else (settings["descriptor_key"], value)
        raise ValueError(f"an action of Envoy that this model does not know: {kind}")
