"""The rows, which are measured beside each other."""

import dataclasses
from typing import Callable, Optional

import peers
from peers import ANSWER, BATCH, CHECKED_EVERY, ONE, PLENTY, SERVERS


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
    # The fields that a client sends, and the body of its 200; None: any.
    request_of: Callable = peers.request_of
    answer: Optional[str] = ANSWER
    checks: int = 1  # of one request
    like: Optional[str] = None  # the row whose parts it has, where not its own

    @property
    def kind(self):
        return self.like or self.name


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
        Row("tidegate-busy", f"Tidegate, no limits, {peers.BUSY_POLL}",
            own(program, more=f"{peers.BUSY_POLL}\n")),
        Row("tidegate-redis-busy", f"Tidegate, {redis}, {peers.BUSY_POLL}",
            own(program, PLENTY, "redis", more=f"{peers.BUSY_POLL}\n")),
        *face_rows(program),
        Row("tidegate-servers", f"Tidegate, {SERVERS} servers, not checked",
            peers.many_servers(program, False)),
        Row("tidegate-checked",
            f"Tidegate, {SERVERS} servers, each checked every {CHECKED_EVERY} s",
            peers.many_servers(program, True)),
        Row("tidegate-unobserved", "Tidegate, in process, without top, denials and tracing",
            own(program, PLENTY, more=peers.UNOBSERVED)),
        Row("tidegate-observed", "Tidegate, in process, with top, denials and tracing",
            own(program, PLENTY, more=peers.OBSERVED)),
    ]


def face_rows(program):
    """Questions of gateways, beside a limit in the gateway itself; and calls of programs."""
    asked = {"heads": "questions", "request_of": peers.question_of, "answer": ""}
    check = peers.check_api(program)
    return [
        Row("tidegate-auth", "Tidegate, forward_auth, 2 names x 3 windows",
            peers.forward_auth(program, PLENTY), **asked),
        Row("tidegate-auth-denied", "Tidegate, forward_auth, all denied",
            peers.forward_auth(program, ONE), denied=True, **asked),
        Row("nginx-tidegate", "nginx that asks Tidegate, 2 names x 3 windows",
            peers.nginx_auth_request(program, PLENTY)),
        Row("nginx-tidegate-denied", "nginx that asks Tidegate, all denied",
            peers.nginx_auth_request(program, ONE), denied=True),
        Row("tidegate-check", "Tidegate, check API, one check a call", check,
            heads="checks", request_of=peers.check_of, answer=None),
        Row("tidegate-check-batch", f"Tidegate, check API, {BATCH} checks a call", check,
            heads="batches", request_of=peers.batch_of, answer=None, checks=BATCH),
    ]


FACES = ("tidegate-auth", "tidegate-auth-denied", "nginx-tidegate", "nginx-tidegate-denied",
         "tidegate-check", "tidegate-check-batch")
CHECKS = ("tidegate-servers", "tidegate-checked")
OBSERVATION = ("tidegate-unobserved", "tidegate-observed")
BUSY = ("tidegate-busy", "tidegate-redis-busy")
# Which rows each part of a run has; `saturated` has all but those that only other parts have.
ELSEWHERE = FACES + CHECKS + OBSERVATION
PARTS = {
    "saturated": None,
    "steady": ("direct", "tidegate", "nginx", "haproxy", "tidegate-memory", "tidegate-redis",
               "nginx-lua-redis", *BUSY),
    "single": ("direct", "tidegate", "nginx", "haproxy", "tidegate-memory", "tidegate-redis",
               "nginx-lua-redis", "node-redis", *BUSY),
    "pinned": ("direct", "tidegate", "nginx", "haproxy", "tidegate-memory",
               "haproxy-stick-table", "tidegate-redis", "nginx-lua-redis", "node-redis"),
    "calls": ("tidegate", "tidegate-logged", "nginx", "haproxy", "tidegate-memory",
              "haproxy-stick-table", "tidegate-redis", "nginx-lua-redis", "node-redis",
              "tidegate-redis-denied", "haproxy-stick-table-denied", "nginx-lua-redis-denied"),
    "idle": ("tidegate", "nginx", "haproxy"),
    "faces": ("tidegate-memory-denied", "nginx-limit-req", "nginx-limit-req-denied", *FACES),
    "checks": CHECKS,
    "observation": OBSERVATION,
}
