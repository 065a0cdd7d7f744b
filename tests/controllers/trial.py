#!/usr/bin/env python3
"""The controllers of docs/controllers.md: do their objects hold, and does what they send get the right answer?

    tests/controllers/trial.py [--tidegate build/dev/tidegate] [--crds FOLDER]

For each example of the page, Helm renders the chart with its values; these objects and those of the
controller are held to the schemas of their APIs, and name each other's ports. Tidegate then runs with the
rendered configuration, and gets what the controller sends by its objects: from an nginx that asks as
ingress-nginx does, or from models of Traefik and Envoy. No package has the schemas of Envoy Gateway: --crds
names the folder of its custom resource definitions. The exit code is 1 when one part does not hold.
Everything listens on loopback only, and ends with this program.
"""

import http.client
import importlib.util
import json
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import urllib.request

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "soak"))
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

from envoy import Envoy  # noqa: E402
from trials import Part, make_parser, start_echo  # noqa: E402
from world import Failed, Tidegate, World, free_port  # noqa: E402


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


chart = load("chart_trial", ROOT / "tests/helm/trial.py")
gateways = load("gateways_trial", ROOT / "tests/gateways/trial.py")

PAGE = ROOT / "docs/controllers.md"
ENVOY_GATEWAY = "gateway.envoyproxy.io/"
SERVICE = "limits-tidegate"
SERVICE_NAME = f"{SERVICE}.default.svc.cluster.local"
QUOTA = 3
ALICE, BOB = "203.0.113.7", "203.0.113.8"
FORGED = "198.51.100.1"


class Example:
    """Blocks of one name: the values of the chart, the objects of the controller, those of an experimental
    channel, the mesh configuration."""

    def __init__(self, name, blocks):
        self.name = name
        self.values = yaml.safe_load(blocks["values"])
        self.objects = list(yaml.safe_load_all(blocks.get("objects", "")))
        self.experimental = list(yaml.safe_load_all(blocks.get("experimental", "")))
        self.mesh = yaml.safe_load(blocks["mesh"]) if "mesh" in blocks else None

    def one(self, kind):
        found = [one for one in self.objects if one["kind"] == kind]
        if len(found) != 1:
            raise Failed(f"{PAGE}: the example {self.name} has {len(found)} objects of the kind {kind}")
        return found[0]


def examples():
    found = {}
    for kind, name, text in re.findall(r"^```yaml (values|objects|mesh|experimental) (\S+)\n(.*?)^```$",
                                       PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        found.setdefault(name, {})[kind] = text
    return {name: Example(name, blocks) for name, blocks in found.items()}


class Trial:
    def __init__(self, world, program, crds):
        self.world, self.program, self.crds = world, program, crds
        self.helm, self.modules = chart.install_helm(), chart.install_types()
        self.echo = start_echo(world, program)
        self.examples = examples()

    def render(self, example):
        values = self.world.folder / f"{example.name}.values.yaml"
        values.write_text(yaml.safe_dump(example.values))
        rendered = subprocess.run([self.helm, "template", "limits", chart.CHART, "--namespace", "default",
                                   "-f", values], capture_output=True, text=True, check=False)
        if rendered.returncode:
            raise Failed(f"{example.name}: {rendered.stderr}")
        return [one for one in yaml.safe_load_all(rendered.stdout) if one]

    def run(self, example):
        """A Tidegate with the chart's configuration for the example, but for addresses and a quota that a
        test can use up."""
        objects = self.render(example)
        config = next(one for one in objects if one["kind"] == "ConfigMap")["data"]["tidegate.yaml"]
        config = yaml.safe_load(config.replace("10.0.0.0/8", "127.0.0.0/8").replace(
            "http://shop.default.svc:3000", f"http://127.0.0.1:{self.echo}"))
        port = free_port()
        listen = config.pop("listen")
        listen = dict(listen) if isinstance(listen, dict) else {"address": listen}
        listen["address"] = f"127.0.0.1:{port}"
        del config["admin"]
        if "limits" in config:
            config["limits"] = [f"{QUOTA}/h"]
        if "rls" in config:
            config["rls"]["files"] = [str(self.write_rules(example) / "*.yaml")]
        tidegate = Tidegate(self.world, self.program, yaml.safe_dump(config), listen=json.dumps(listen),
                            name=example.name)
        return tidegate, port

    def write_rules(self, example):
        folder = self.world.folder / f"{example.name}-rules"
        folder.mkdir()
        for name, text in example.one("ConfigMap")["data"].items():
            # No window may end during the test.
            (folder / name).write_text(re.sub(r"\bunit: \w+", "unit: hour", text))
        return folder

    def service_port(self, example):
        service = next(one for one in self.render(example) if one["kind"] == "Service")
        if service["metadata"]["name"] != SERVICE:
            raise Failed(f"the chart calls its Service {service['metadata']['name']}")
        return service["spec"]["ports"][0]["port"]


def crd_schemas(folder):
    """{(apiVersion, kind): schema} of the custom resource definitions in a folder."""
    found = {}
    for file in sorted(pathlib.Path(folder).rglob("*.yaml")):
        for one in re.split(r"^---$", file.read_text(), flags=re.MULTILINE):
            if "openAPIV3Schema" not in one:
                continue
            # Those of a chart may stand between lines of a template.
            text = re.sub(r"^\s*{{.*}}\s*$", "", one, flags=re.MULTILINE)
            definition = yaml.safe_load(text)
            spec = definition["spec"]
            for version in spec["versions"]:
                key = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
                # The experimental channel comes first, and has all that the standard one has.
                found.setdefault(key, version["schema"]["openAPIV3Schema"])
    return found


def closed(schema):
    """The schema, so that a key that it does not have is a fault: the API server would drop it."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    if isinstance(made.get("properties"), dict) and made.get("type") == "object":
        if not schema.get("x-kubernetes-preserve-unknown-fields"):
            made.setdefault("additionalProperties", False)
    return made


def faults_of_crd(one, schemas):
    import jsonschema

    schema = schemas.get((one["apiVersion"], one["kind"]))
    if not schema:
        return [f"no definition of {one['apiVersion']} {one['kind']}"]
    schema = dict(schema, properties={**schema["properties"], "metadata": {"type": "object"}})
    return [f"{one['kind']} /{'/'.join(map(str, fault.absolute_path))}: {fault.message}"
            for fault in jsonschema.Draft7Validator(closed(schema)).iter_errors(one)]


def try_objects(trial, example):
    part = Part(f"{example.name}: the objects hold to the schemas of their APIs")
    others = example.experimental + [one for one in example.objects
                                     if one["apiVersion"].startswith(ENVOY_GATEWAY)]
    known = [one for one in example.objects if one not in others]
    rendered = trial.render(example)
    part.wrong += chart.faults_of_types(rendered + known, trial.modules)
    part.found = f"{len(rendered)} of the chart, {len(known)} of the controller"
    if trial.crds:
        for one in others:
            part.wrong += faults_of_crd(one, trial.crds)
        part.found += f", {len(others)} by their definitions" if others else ""
    elif others:
        print(f"not run: {example.name}: no package has the schema of {others[0]['kind']}: --crds", flush=True)
    return part


def quota_holds(part, ask, refused):
    """As many as the quota are admitted of each client. Returns the last refusal."""
    for number in range(QUOTA):
        part.expect(ask(ALICE).status == 200, "request", number + 1, "of the quota")
    answer = ask(ALICE)
    part.expect(answer.status == refused, "beyond the quota:", answer)
    part.expect(ask(BOB).status == 200, "another client has its own count")
    return answer


def try_ingress_nginx(trial, example):
    part = Part("ingress-nginx: an Ingress with auth-url lets nginx ask, and a client over its limit gets 403")
    annotations = example.one("Ingress")["metadata"]["annotations"]
    begin = "nginx.ingress.kubernetes.io/"
    url = annotations[f"{begin}auth-url"]
    part.expect(url.startswith(f"http://{SERVICE_NAME}:{trial.service_port(example)}/"), url)
    tidegate, port = trial.run(example)
    gateway = gateways.start_ingress_nginx(trial.world, trial.echo, port, url,
                                           [annotations[f"{begin}auth-response-headers"]])
    source = {ALICE: "127.0.0.7", BOB: "127.0.0.8"}

    def ask(client):
        return gateways.ask(gateway, ["X-Client-Ip: forged"], target="/cart?a=b", source=source[client])

    first = ask(BOB).echoed()
    part.expect(gateways.values(first, "X-Client-Ip") == ["127.0.0.8"], first)
    part.expect(first["target"] == "/cart?a=b", first)
    quota_holds(part, ask, 403)
    part.expect(metric(tidegate, 'tidegate_questions_unusable_total{part="target"}') == 0, "unusable")
    # A client of HTTP/1.0 without a Host makes a URL without one.
    old = bare(gateway.port, "GET /cart HTTP/1.0\r\n\r\n")
    part.expect(old.startswith("HTTP/1.1 403"), old)
    part.expect(metric(tidegate, 'tidegate_questions_unusable_total{part="host"}') == 1, "no host")
    part.expect(tidegate.stop() == 0, "Tidegate ends")
    part.found = f"{QUOTA} of each address"
    return part


def bare(port, text):
    with socket.create_connection(("127.0.0.1", port), 8) as peer:
        peer.sendall(text.encode())
        answer = b""
        while part := peer.recv(4096):
            answer += part
    return answer.decode("latin-1")


def metric(tidegate, series):
    with urllib.request.urlopen(f"http://127.0.0.1:{tidegate.admin_port}/metrics", timeout=8) as reply:
        for line in reply.read().decode().splitlines():
            if line.startswith(series):
                return float(line.rpartition(" ")[2])
    return None


def forward_auth(port, middleware, client, fields, method="GET", target="/", host="shop.example.com"):
    """The answer to what Traefik sends by a middleware: the client's fields less those of the hop and, as
    trustForwardHeader is false, those that say how a request was forwarded."""
    settings = middleware["spec"]["forwardAuth"]
    assert settings["trustForwardHeader"] is False
    hop = ("connection", "keep-alive", "te", "trailers", "transfer-encoding", "upgrade")
    sent = [(name, value) for name, value in fields
            if name.lower() not in hop and not name.lower().startswith("x-forwarded-")]
    sent += [("X-Forwarded-For", client), ("X-Forwarded-Method", method), ("X-Forwarded-Proto", "https"),
             ("X-Forwarded-Port", "443"), ("X-Forwarded-Host", host), ("X-Forwarded-Uri", target)]
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=8)
    connection.putrequest("GET", "/" + settings["address"].split("/", 3)[3], skip_host=True)
    connection.putheader("Host", settings["address"].split("/")[2])
    for name, value in sent:
        connection.putheader(name, value)
    connection.endheaders()
    return gateways.Answer(connection.getresponse())


def try_traefik(trial, example):
    part = Part("Traefik: forwardAuth gets 200 with the fields of forward_as, then 429 with Retry-After")
    middleware = example.one("Middleware")
    address = middleware["spec"]["forwardAuth"]["address"]
    part.expect(address.startswith(f"http://{SERVICE_NAME}:{trial.service_port(example)}/"), address)
    route = example.one("IngressRoute")["spec"]["routes"][0]
    part.expect(route["middlewares"] == [{"name": middleware["metadata"]["name"]}], route)
    tidegate, port = trial.run(example)
    forged = [("X-Forwarded-For", FORGED), ("X-Forwarded-Uri", "/free"), ("X-Client-Ip", "forged")]

    def ask(client):
        answer = forward_auth(port, middleware, client, forged, "POST", "/cart?a=b")
        if answer.status == 200:
            for name in middleware["spec"]["forwardAuth"]["authResponseHeaders"]:
                part.expect(answer.fields.get(name) == client, name, answer)
        return answer

    refused_well(part, quota_holds(part, ask, 429))
    part.expect(tidegate.stop() == 0, "Tidegate ends")
    part.found = f"{QUOTA} of each address"
    return part


def refused_well(part, answer):
    """Traefik and a proxy give the whole answer to their client."""
    part.expect(int(answer.fields.get("Retry-After", 0)) >= 1, "Retry-After", answer)
    part.expect("RateLimit" in answer.fields, "RateLimit", answer)
    part.expect(answer.fields.get("Content-Type") == "application/problem+json", "type", answer)


def asks_service(part, trial, example):
    """The controller's objects lead to the Service, by its port for gRPC."""
    port = trial.service_port(example)
    if example.mesh:
        provider = example.mesh["extensionProviders"][0]
        grpc = provider["envoyExtAuthzGrpc"]
        part.expect((grpc["service"], grpc["port"]) == (SERVICE_NAME, port), grpc)
        policy = example.one("AuthorizationPolicy")["spec"]
        part.expect(policy["provider"]["name"] == provider["name"] and policy["action"] == "CUSTOM", policy)
    else:
        backend = example.one("SecurityPolicy")["spec"]["extAuth"]["grpc"]["backendRefs"]
        part.expect(backend == [{"name": SERVICE, "port": port}], backend)


def try_ext_authz(trial, example, envoy):
    part = Part(f"{example.name}: Envoy's call is answered OK with fields for both sides, then 429")
    asks_service(part, trial, example)
    tidegate, port = trial.run(example)

    def ask(client):
        answer = envoy.check(port, client, "POST", "/cart?a=b", {"x-client-ip": "forged",
                                                               "x-forwarded-for": f"{FORGED},{client}"})
        if answer.status == 200:
            part.expect(answer.upstream.get("x-client-ip") == (client, False), answer)
            part.expect("ratelimit" in answer.fields, answer)
        return answer

    answer = quota_holds(part, ask, 429)
    part.expect(int(answer.fields.get("retry-after", 0)) >= 1, answer)
    part.expect("ratelimit" in answer.fields and "quota-exceeded" in answer.body, answer)
    part.expect(tidegate.stop() == 0, "Tidegate ends")
    part.found = f"{QUOTA} of each address"
    return part


def rate_limit_filter(example):
    """(domain, cluster, lists of actions) that the objects give to Envoy."""
    if example.name == "istio-rls":
        values = [one["patch"]["value"] for one in example.one("EnvoyFilter")["spec"]["configPatches"]]
        settings, host = values
        cluster = settings["typed_config"]["rate_limit_service"]["grpc_service"]["envoy_grpc"]["cluster_name"]
        _, port, _, name = cluster.split("|")
        return settings, host["rate_limits"], f"{name}:{port}"
    patches = [one["operation"]["value"] for one in example.one("EnvoyPatchPolicy")["spec"]["jsonPatches"]]
    cluster, settings, limits = patches
    named = settings["typed_config"]["rate_limit_service"]["grpc_service"]["envoy_grpc"]["cluster_name"]
    if named != cluster["name"] or named != cluster["load_assignment"]["cluster_name"]:
        raise Failed(f"the filter asks {named}, the cluster is {cluster['name']}")
    address = cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]
    return settings, limits, "{address}:{port_value}".format(**address["socket_address"])


def try_rate_limits(trial, example, envoy):
    part = Part(f"{example.name}: each descriptor that Envoy makes has its limit of the files")
    settings, rate_limits, address = rate_limit_filter(example)
    part.expect(address == f"{SERVICE_NAME}:{trial.service_port(example)}", address)
    domain = settings["typed_config"]["domain"]
    rules = yaml.safe_load(next(iter(example.one("ConfigMap")["data"].values())))
    part.expect(rules["domain"] == domain, "the domain of the files is", rules["domain"])
    quotas = {one["key"]: one["rate_limit"]["requests_per_unit"] for one in rules["descriptors"]}
    tidegate, port = trial.run(example)
    for key, client, fields in (("remote_address", ALICE, {}), ("tenant", BOB, {"x-tenant": "acme"})):
        few = quotas[key]
        over = envoy.should_rate_limit(port, domain, rate_limits, client, fields, few)
        part.expect(over.status == 200 and over.limits[-1] == few, key, "may take its quota:", over)
        over = envoy.should_rate_limit(port, domain, rate_limits, client, fields, 1)
        part.expect(over.status == 429 and over.fields.get("retry-after"), key, "is over:", over)
    other = envoy.should_rate_limit(port, domain, rate_limits, FORGED, {"x-tenant": "other"}, 1)
    part.expect(other.status == 200, "another client and tenant:", other)
    part.expect(tidegate.stop() == 0, "Tidegate ends")
    part.found = ", ".join(f"{count} of {key}" for key, count in quotas.items())
    return part


def try_gateway_api(trial, example):
    part = Part("the Gateway API: a Gateway forwards to Tidegate, which limits by the chain's client")
    made = next(one for one in trial.render(example) if one["kind"] == "HTTPRoute")["spec"]
    part.expect(made["parentRefs"] == [{"name": "eg"}], made)
    part.expect(made["rules"][0]["backendRefs"] == [{"name": SERVICE, "port": trial.service_port(example)}], made)
    tidegate, port = trial.run(example)
    gateway = type("Gateway", (), {"port": port})

    def ask(client):
        answer = gateways.ask(gateway, [f"X-Forwarded-For: {FORGED}, {client}"], target="/cart")
        part.expect(answer.status == 429 or answer.echoed(), answer)
        part.expect("RateLimit" in answer.fields, answer)
        return answer

    refused_well(part, quota_holds(part, ask, 429))
    part.expect(tidegate.stop() == 0, "Tidegate ends")
    part.found = f"{QUOTA} of each address"
    return part


def parts(trial):
    envoy = Envoy(trial.world.folder, ROOT)
    for example in trial.examples.values():
        yield try_objects(trial, example)
    tries = {"ingress-nginx": try_ingress_nginx, "traefik": try_traefik, "gateway-api": try_gateway_api,
             "envoy-gateway": lambda *one: try_ext_authz(*one, envoy),
             "envoy-gateway-rls": lambda *one: try_rate_limits(*one, envoy),
             "istio": lambda *one: try_ext_authz(*one, envoy),
             "istio-rls": lambda *one: try_rate_limits(*one, envoy)}
    if tries.keys() != trial.examples.keys():
        raise Failed(f"{PAGE} has the examples {sorted(trial.examples)}, this program {sorted(tries)}")
    for name, how in tries.items():
        yield how(trial, trial.examples[name])


def main():
    parser = make_parser(__doc__)
    parser.add_argument("--crds", help="the folder of Envoy Gateway's custom resource definitions")
    arguments = parser.parse_args()
    crds = crd_schemas(arguments.crds) if arguments.crds else None
    held = True
    with tempfile.TemporaryDirectory(prefix="controllers-") as folder, World(pathlib.Path(folder)) as world:
        try:
            for part in parts(Trial(world, arguments.tidegate.resolve(), crds)):
                held = part.report() and held
        except Failed as error:
            print(f"FAIL {error}")
            held = False
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
