#!/usr/bin/env python3
"""Holds the reference to the program: reference.py

- docs/configuration.md has every key that the program takes, and no other. The program tells its keys
  when it refuses one: `unknown key ...; allowed here: ...`.
- docs/operating.md has every metric that the program makes (src/*/*metrics.cpp), and no other.
"""

import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.path.abspath(os.environ.get("TIDEGATE_PROGRAM", "build/release/tidegate"))
METHODS = ("jwt", "api_key", "basic", "client_certificate", "cookie", "header")
WRONG = "{zzz: 1}"
# Where the page writes a section's keys, and a configuration with a wrong key there.
SECTIONS = {
    "": "zzz: 1",
    "listen[].": f"listen: [{WRONG}]",
    "listen[].proxy_protocol.": f"listen: [{{proxy_protocol: {WRONG}}}]",
    "listen[].tls.": f"listen: [{{tls: {WRONG}}}]",
    "listen[].tls.certificates[].": f"listen: [{{tls: {{certificates: [{WRONG}]}}}}]",
    "listen[].redirect.": f"listen: [{{redirect: {WRONG}}}]",
    "check.": f"check: {WRONG}",
    "admin.": f"admin: {WRONG}",
    "store.": f"store: {WRONG}",
    "store.memory.": f"store: {{memory: {WRONG}}}",
    # `database` is for `sentinel` only, `url` for all else.
    "store.redis.": [f"store: {{redis: {WRONG}}}", "store: {redis: {zzz: 1, sentinel: {}}}"],
    "store.redis.tls.": f"store: {{redis: {{tls: {WRONG}}}}}",
    "store.redis.sentinel.": f"store: {{redis: {{sentinel: {WRONG}}}}}",
    "store.redis.breaker.": f"store: {{redis: {{breaker: {WRONG}}}}}",
    "rls.": f"rls: {WRONG}",
    "deny_cache.": f"deny_cache: {WRONG}",
    "identity.": f"identity: {WRONG}",
    "identity.client_ip.": f"identity: {{client_ip: {WRONG}}}",
    "identity.forward_as.": f"identity: {{forward_as: {WRONG}}}",
    **{f"{name}.": f"identity: {{user: [{{{name}: {WRONG}}}]}}" for name in METHODS},
    "forwarding.": f"forwarding: {WRONG}",
    "upstreams.NAME.": f"upstreams: {{api: {WRONG}}}",
    "upstreams.NAME.servers[].": f"upstreams: {{api: {{servers: [{WRONG}]}}}}",
    "upstreams.NAME.tls.": f"upstreams: {{api: {{servers: [https://a], tls: {WRONG}}}}}",
    "upstreams.NAME.balance.": f"upstreams: {{api: {{balance: {WRONG}}}}}",
    "upstreams.NAME.health_check.": f"upstreams: {{api: {{health_check: {WRONG}}}}}",
    "upstreams.NAME.eject.": f"upstreams: {{api: {{eject: {WRONG}}}}}",
    "upstreams.NAME.queue.": f"upstreams: {{api: {{queue: {WRONG}}}}}",
    "upstreams.NAME.timeouts.": f"upstreams: {{api: {{timeouts: {WRONG}}}}}",
    "policies.NAME.": f"policies: {{p: {WRONG}}}",
    "limit.": f"policies: {{p: {{limits: [{WRONG}]}}}}",
    "limit.at.": f"policies: {{p: {{limits: [{{at: {WRONG}}}]}}}}",
    "routes[].": f"routes: [{WRONG}]",
    "routes[].match.": f"routes: [{{match: {WRONG}}}]",
    "routes[].cost.": f"routes: [{{cost: {WRONG}}}]",
    "routes[].timeouts.": f"routes: [{{timeouts: {WRONG}}}]",
    "routes[].tunnel.": f"routes: [{{tunnel: {WRONG}}}]",
    "routes[].limits_on_requests.": f"routes: [{{limits_on_requests: {WRONG}}}]",
    "response.": f"response: {WRONG}",
    "response.body.": f"response: {{body: {WRONG}}}",
    "response.cors.": f"response: {{cors: {WRONG}}}",
    "limits_on_requests.": f"limits_on_requests: {WRONG}",
    "connections.": f"connections: {WRONG}",
    "http2.": f"http2: {WRONG}",
    "http2.abuse.": f"http2: {{abuse: {WRONG}}}",
    "timeouts.": f"timeouts: {WRONG}",
    "log.": f"log: {WRONG}",
    "log.access.": f"log: {{access: {WRONG}}}",
    "tracing.": f"tracing: {WRONG}",
    "tracing.tls.": f"tracing: {{otlp: \"https://a/b\", tls: {WRONG}}}",
    "tracing.keep.": f"tracing: {{otlp: \"http://a/b\", keep: {WRONG}}}",
    "telemetry.": f"telemetry: {WRONG}",
}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def keys_of_program(section):
    """The keys of a section, or none when the program does not know the section."""
    keys = set()
    tries = SECTIONS[section]
    for wrong in tries if isinstance(tries, list) else [tries]:
        said = subprocess.run([PROGRAM, "check", "-c", "/dev/stdin"], input=wrong + "\n",
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        allowed = re.search(r"unknown key `zzz`.*?[Aa]llowed here: (.*)", said)
        if allowed:
            keys.update(re.findall(r"`([^`]+)`", allowed[1]))
    return keys


def documented():
    """Key -> its row, of every table of keys; limits have the prefix `limit.`."""
    rows, heading, is_keys = {}, "", False
    for line in read("docs/configuration.md").splitlines():
        if line.startswith("#"):
            heading, is_keys = line.lstrip("# "), False
        elif line.startswith("| Key | What"):
            is_keys = True
        elif not line.startswith("|"):
            is_keys = False
        elif is_keys and not line.startswith("| ---"):
            last = ""
            for name in re.findall(r"`([^`]+)`", line.split(" | ")[0]):
                key = last.rpartition(".")[0] + name if name.startswith(".") else name
                last = key
                if heading == "Limits":
                    key = "limit." + key
                for one in [f"{method}.{key}" for method in METHODS] if key == "namespace" else [key]:
                    rows[one] = line
    return rows


def faults_of_keys():
    rows = documented()
    for section in SECTIONS:
        keys = keys_of_program(section)
        if not keys:
            yield f"the program does not know {section or 'any key'}"
            continue
        parent = rows.get(section.rstrip("."), rows.get(section.rstrip(".").removesuffix("[]"), ""))
        listed = set(re.findall(r"\w+", " ".join(re.findall(r"\{[^}]*\}", parent))))
        for key in sorted(keys):
            path = section + key
            below = any(row.startswith((path + ".", path + "[")) for row in rows)
            if path not in rows and not below and key not in listed and path != "identity.user":
                yield f"docs/configuration.md lacks `{path}`"
        for row in sorted(rows):
            name = row[len(section):]
            if row.startswith(section) and re.fullmatch(r"\w+", name) and name not in keys:
                if section or "." not in row:
                    yield f"docs/configuration.md has `{row}`, which the program does not take"


def faults_of_metrics():
    source = "".join(read(path) for path in glob.glob("src/*/*metrics.cpp"))
    page = read("docs/operating.md")
    names = r"(?:tidegate|process)_[a-z0-9_]+"
    for name in sorted(set(re.findall(rf'"({names})"', source)) - set(re.findall(names, page))):
        yield f"docs/operating.md lacks `{name}`"
    for name in sorted(set(re.findall(names, page))):
        if name not in source:
            yield f"docs/operating.md has `{name}`, which src/*/*metrics.cpp do not make"


def main():
    os.chdir(ROOT)
    found = [*faults_of_keys(), *faults_of_metrics()]
    print("\n".join(found) if found else "the reference has every key and every metric")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
