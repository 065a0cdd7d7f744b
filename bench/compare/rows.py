"""What is measured beside each other."""

import dataclasses
from typing import Callable

import peers
from peers import ONE, PLENTY


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    label: str
    start: Callable  # (World) -> Setup
    heads: str = "users"
    denied: bool = False
    # The share of answers that may be the other one: `limit_req` lets through one a minute.
    stray: float = 0.0
    # More than one command may become one script call, of requests of one name.
    joined: bool = False


def all_rows(program, node_folder):
    redis = "Redis, 2 names x 3 windows"
    own = peers.tidegate
    return [
        Row("direct", "no proxy", peers.direct),
        Row("tidegate", "Tidegate, no limits", own(program)),
        Row("tidegate-logged", "Tidegate, no limits, access log", own(program, logged=True)),
        Row("nginx", "nginx, no limits", peers.nginx_plain),
        Row("haproxy", "HAProxy, no limits", peers.haproxy_plain),
        Row("tidegate-memory", "Tidegate, in process, 2 names x 3 windows", own(program, PLENTY)),
        Row("nginx-limit-req", "nginx limit_req, 2 names x 1 rate",
            peers.nginx_limit_req(("100000r/s", " burst=100000 nodelay"))),
        Row("haproxy-stick-table", "HAProxy stick tables, 2 names x 1 window",
            peers.haproxy_stick_table(1_000_000_000)),
        Row("tidegate-redis", f"Tidegate, {redis}", own(program, PLENTY, "redis")),
        Row("tidegate-redis-logged", f"Tidegate, {redis}, access log",
            own(program, PLENTY, "redis", logged=True)),
        Row("tidegate-redis-hot", "Tidegate, Redis, one hot user", own(program, PLENTY, "redis"),
            heads="hot", joined=True),
        Row("tidegate-redis-jwt", "Tidegate, Redis, users by JWT",
            own(program, PLENTY, "redis", tokens=True), heads="tokens"),
        Row("nginx-lua-redis", f"nginx + Lua, {redis}", peers.nginx_lua_redis(PLENTY)),
        Row("nginx-lua-redis-fine", f"nginx + Lua, {redis} as fine as Tidegate's",
            peers.nginx_lua_redis(PLENTY, peers.FINE_US)),
        Row("node-redis", "Express + express-rate-limit, Redis, 2 names x 1 window",
            peers.node_redis(1_000_000_000, node_folder)),
        Row("tidegate-memory-denied", "Tidegate, in process, all denied", own(program, ONE),
            denied=True),
        Row("tidegate-redis-denied", "Tidegate, Redis, all denied", own(program, ONE, "redis"),
            denied=True),
        Row("tidegate-redis-denied-logged", "Tidegate, Redis, all denied, access log",
            own(program, ONE, "redis", logged=True), denied=True),
        Row("nginx-limit-req-denied", "nginx limit_req, all denied",
            peers.nginx_limit_req(("1r/m", "")), denied=True, stray=0.05),
        Row("haproxy-stick-table-denied", "HAProxy stick tables, all denied",
            peers.haproxy_stick_table(1), denied=True),
        Row("nginx-lua-redis-denied", "nginx + Lua, Redis, all denied",
            peers.nginx_lua_redis(ONE), denied=True),
    ]


# Which rows each part of a run has; `saturated` has all.
PARTS = {
    "saturated": None,
    "steady": ("direct", "tidegate", "nginx", "haproxy", "tidegate-memory", "tidegate-redis",
               "nginx-lua-redis"),
    "single": ("direct", "tidegate", "nginx", "haproxy", "tidegate-memory", "tidegate-redis",
               "nginx-lua-redis", "node-redis"),
    "pinned": ("direct", "tidegate", "nginx", "haproxy", "tidegate-memory",
               "haproxy-stick-table", "tidegate-redis", "nginx-lua-redis", "node-redis"),
    "calls": ("tidegate", "tidegate-logged", "nginx", "haproxy", "tidegate-memory",
              "haproxy-stick-table", "tidegate-redis", "nginx-lua-redis", "node-redis",
              "tidegate-redis-denied", "haproxy-stick-table-denied", "nginx-lua-redis-denied"),
    "idle": ("tidegate", "nginx", "haproxy"),
}
