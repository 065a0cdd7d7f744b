"""nginx, HAProxy, Redis and Valkey of Debian 13, beside those of this machine.

They run from a root that `scripts/bench --debian13` makes with mmdebstrap: in a mount namespace of
their own, but with the network and the processes of this machine (World.program). The upstream, the
load and Node are this machine's in every row.
"""

import dataclasses
import functools
import os
import re
import subprocess

from machine import ROOT, Wrong

FOLDER = ROOT / "build" / "bench" / "debian13" / "root"
SUFFIX = "-debian13"
PROXIES = {"nginx": "/usr/sbin/nginx", "haproxy": "/usr/sbin/haproxy"}
STORES = {"redis": "/usr/bin/redis-server", "valkey": "/usr/bin/valkey-server"}
# The same servers, where more than one thread of theirs reads and writes.
IO_THREADS = 2
THREADED = {f"{store}-io-threads": store for store in STORES}
THREADED_ROWS = ("tidegate-redis", "tidegate-redis-denied")
# The rows that decide in Redis and are measured with each of STORES.
STORE_ROWS = ("tidegate-redis", "tidegate-redis-hot", "tidegate-redis-denied", "nginx-lua-redis",
              "nginx-lua-redis-fine", "nginx-lua-redis-denied")
# Packages whose versions a report has, and what labels call the programs in them.
PACKAGES = {"nginx": "nginx", "libnginx-mod-http-lua": None, "lua-nginx-redis": None,
            "haproxy": "HAProxy", "redis-server": "Redis", "valkey-server": "Valkey",
            "openssl": None}


def names(row):
    """By store, or `None`: the names of the rows of Debian 13 beside this one; often none."""
    if row in STORE_ROWS:
        stores = [*STORES, *(THREADED if row in THREADED_ROWS else ())]
        return {store: row.replace("redis", store) + SUFFIX for store in stores}
    return {None: row + SUFFIX} if row.partition("-")[0] in PROXIES else {}


def beside(rows, here):
    """`rows`, each followed by those of Debian 13 that do the same. All labels say the versions of
    nginx, HAProxy and Redis; `here`: those of this machine, as machine.versions() has them."""
    if os.geteuid() != 0:
        raise Wrong("--debian13 needs root: it changes the root of processes and mounts folders")
    if not FOLDER.is_dir():
        raise Wrong(f"no {FOLDER}: scripts/bench --debian13 makes it")
    found = installed()
    old = short({word: here.get(package) for package, word in PACKAGES.items()})
    new = short({word: found.get(package) for package, word in PACKAGES.items()})
    together = []
    for row in rows:
        together.append(dataclasses.replace(row, label=versioned(row.label, old)))
        for store, name in names(row.name).items():
            together.append(dataclasses.replace(
                row, name=name, label=label_with(store, row.label, new), like=row.name,
                start=functools.partial(start_newer, row.start, store)))
    return together


def label_with(store, label, versions_by_word):
    """The label of a row with this store, or with another proxy where it has none."""
    kind = THREADED.get(store, store)
    if kind == "valkey":
        label = label.replace("Redis", "Valkey")
    label = versioned(label, versions_by_word)
    return f"{label}, `io-threads {IO_THREADS}`" if store in THREADED else label


def start_newer(start, store, world):
    """Starts a row with the proxies of Debian 13, and with a store where it has one."""
    world.root, world.programs = FOLDER, dict(PROXIES)
    if store:
        world.programs["redis-server"] = STORES[THREADED.get(store, store)]
    if store in THREADED:
        world.redis_options = ("--io-threads", IO_THREADS)
    return start(world)


@functools.cache
def installed():
    """Versions by package."""
    done = subprocess.run(
        ["chroot", FOLDER, "dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n",
         *PACKAGES], capture_output=True, text=True, timeout=20)
    lines = (line.split() for line in done.stdout.splitlines())
    return {words[0]: re.sub(r"^\d+:", "", words[1]) for words in lines
            if words[2:] == ["installed"]}


def versions():
    """For the report."""
    return {f"Debian 13 {package}": version for package, version in installed().items()}


def short(versions_by_word):
    """1.26.3-3+deb13u11 as 1.26."""
    return {word: re.match(r"\d+(\.\d+)?", version)[0]
            for word, version in versions_by_word.items() if word and version}


def versioned(label, versions_by_word):
    """A label with a version behind the first mention of each program."""
    for word, version in versions_by_word.items():
        label = re.sub(rf"\b{word}\b", f"{word} {version}", label, count=1)
    return label


def rivals(pairs):
    """Pairs of a row of Tidegate and a peer's, and of those pairs the rows of Debian 13."""
    found = list(pairs)
    for own, peer in pairs:
        ours, theirs = names(own), names(peer)
        for store in ours if None in theirs and ours else theirs:
            found.append((ours.get(store, own), theirs.get(store, theirs.get(None))))
    return found
