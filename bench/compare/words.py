"""What the pages of measured figures say around them."""

import grpc_calls
import http2
import tunnels
from load import CONNECTIONS, IDLE_CLIENTS, STEADY_RATE, USERS
from measure import UNASKED_SECONDS
from peers import BATCH, CHECKED_EVERY, SERVERS

HEAD = f"""# Performance

Requests a second, and CPU of the proxy a request, with {CONNECTIONS} connections. Load, proxy, Redis and
upstream share two CPUs:

"""

SUMMARY_NOTES = """
"2 x 3" are two names (an address and a user) with three windows each; peers that have one rate or window a
name do less. [What was not met](#what-was-not-met) and [where peers are better](#where-peers-are-better)
are at the end. TLS, HTTP/2, gRPC and WebSockets have [a page of their own](performance-transport.md).

`scripts/bench` measures all of it, and `scripts/bench --document` writes this page of its figures
([every round](performance/measured.json)). They are of one machine and one day: run it on yours.

"""

HEAD_OF_NEWER_PEERS = f"""# Performance beside newer peers

The rows of [Performance](performance.md) with the nginx, HAProxy, Redis and Valkey of Debian 12 and of
Debian 13. Another machine measured them: compare figures of this page with each other alone. Requests a
second, and CPU of the proxy a request, with {CONNECTIONS} connections and the peers of Debian 12:

"""

SUMMARY_NOTES_OF_NEWER_PEERS = """
"2 x 3" are two names with three windows each; peers that have one rate or window a name do less.
[What was not met](#what-was-not-met) and [where peers are better](#where-peers-are-better) are at the
end. `scripts/bench --debian13` measures all of it, `scripts/bench --document` writes this page of its
figures ([every round](performance/debian13.json)), and the words on [how it was
measured](performance.md#how-it-was-measured) hold here, too.

CPU of Redis or Valkey for one decision about two names with three windows, and what `io-threads` change:

"""

HEAD_OF_TRANSPORT = """# Performance of TLS, HTTP/2, gRPC and WebSockets

Microseconds of CPU of the proxy, and its private memory for an idle connection:

"""

SUMMARY_NOTES_OF_TRANSPORT = """
`scripts/bench --tls --http2 --grpc --tunnels` measures all of it, and `scripts/bench --document` writes
this page of its figures ([every round](performance/transport.json)). They are of one machine and one day:
run it on yours.

"""

SATURATED = f"""
`wrk`, {CONNECTIONS} connections, one thread; {USERS:,} users, each with an address of its own, take
turns. All programs share one machine, so **CPU a request says more than requests a second**. A proxy
that decides in Redis sleeps between the answers of Redis and pays for being woken; a [table
below](#proxy-and-upstream-on-one-cpu-all-else-on-another) has the proxy as the bottleneck.
"""
COMPARISON = "\n![Bars: CPU a request and requests a second](performance/comparison.svg)\n"

STEADY = f"""
{STEADY_RATE:,} requests a second, less than each row here can do, over {CONNECTIONS} connections. A
time counts from when its request was due by the clock, not from when a connection was free for it.
"""

SINGLE = """
The next request is sent when the answer is there: what a proxy and a decision add without other load.
"""

PINNED = """
Proxy and upstream share one CPU; Redis and `wrk` have the other. So the proxy is the bottleneck.
"""

CALLS = """
Counted by `strace -f -c` in rounds of their own, as it slows everything down. Slower requests come
in fewer at a time, so one wait for events serves fewer of them than at full speed.
"""

IDLE = f"""
{IDLE_CLIENTS:,} clients that asked once. nginx takes memory for all connections before the first comes,
which is in its first figure.
"""

FACES = f"""
Load as in the first table. A gateway asks Tidegate (`forward_auth`) and forwards by itself: the rows
of Tidegate alone answer the question only, and those of nginx that asks have the CPU of both. Beside
them, `limit_req` in the same nginx, and a request that the proxy denies. A program asks the check
API for one user, or for {BATCH} with `each`; a request is one call.
"""

CHECKS = f"""
{SERVERS} servers on loopback, each asked for `/` every {CHECKED_EVERY} s, over a connection that
serves checks for up to a minute. First {UNASKED_SECONDS} s without requests: what all threads of
the proxy had of one CPU. Then load as in the first table.
"""

OBSERVATION = """
Load as in the first table. One row has `telemetry: {top: off}` and no `tracing`; the other has the
most frequent identifiers, the last denials, and spans of 1% of the requests, sent to a collector.
"""

CPU = """- **CPU** is what the kernel says all threads of the proxy had (`/proc/PID/task/*/schedstat`,
  system calls included), divided by the requests. Over loopback, sending includes most of what
  the receiver costs the kernel. Memory is RSS of all processes at the end of the load.
"""

NEWER_PEERS = """- **Newer peers**: `scripts/bench --debian13` adds rows of the nginx, HAProxy, Redis and Valkey of
  Debian 13, each after the row of this machine that does the same. Then labels say the versions.
  mmdebstrap makes that Debian; peers run from it with changed root, on the network of this machine.
  The kernel accounts for their CPU and memory as for the others'. Tidegate, load, upstream and Node
  are the same in all rows. Two rows have a Redis and a Valkey with `io-threads 2`. `--growth` and
  `--size` have no rows of Debian 13.
"""

METHOD = f"""
## How it was measured

- **One run, rounds that take turns.** Each round starts every row afresh, one after the other:
  upstream, Redis, proxy. Figures are medians over the rounds, ratios medians of the ratios within
  a round, so that what slows the machine for a while slows both sides.
- **Every row is checked before and after it is measured**: a user is answered 200 with the
  upstream's body, and its requests are counted one by one (what is left in Tidegate's answers,
  the field in Redis, the entry in HAProxy's table; `limit_req` does not tell). Where all is
  denied, a new user gets as much as the limit says and then 429. Of the measured requests all
  must have the status they should, Redis must hold a key for each name and, where requests are
  admitted, have run a script or written two values for each (of one hot user, many share one).
- **Load** is `wrk`, or `bench/rate_client.cpp` at a constant rate and with one connection. A row
  is warmed up with {USERS + 2_000:,} requests, each user at least once.
{CPU}- **All proxies alike**: one worker, 256 kept connections to the upstream, no access log but where
  it says so, the address added to `X-Forwarded-For`. Tidegate's metrics are always on. The access
  log of Tidegate goes to a file, as JSON, every request. The upstream is nginx with 100 bytes.
- **Limits**: per second, minute and hour, for the address and for the user; they admit all, or
  one. `limit_req` has one rate a name, a stick table and express-rate-limit one window a name,
  and they do accordingly less. The nginx + Lua row runs
  [`bench/hash_limiter.lua`](../bench/hash_limiter.lua), the usual hash with a field for each
  sub-bucket, once a request, through the driver that Debian has for it (`lua-nginx-redis`, which
  is lua-resty-redis), with the driver's pool of connections. Each window is one sub-bucket there,
  as such lists are mostly written. With "as fine" it has the 50 to 60 sub-buckets a window that
  Tidegate has in every row.
{NEWER_PEERS}- **What it cannot say**: how all this is over a network, or on many cores. Loopback
  makes the kernel's part smaller than a network card would; with two CPUs, clients, proxy, Redis
  and upstream get into each other's way.
- The cost of a charge in process is in the micro-benchmarks of `bench/`.
"""

METHOD_OF_TRANSPORT = f"""
## How it was measured

- **Rounds that take turns.** Each round starts every row afresh, one after the other. Figures are
  medians over the rounds, ratios medians of the ratios within a round.
{CPU}- **All proxies alike**: one worker, connections to the upstream are kept, no access log.
- **TLS** is 1.3 with an ECDSA certificate (P-256) and X25519. Sessions are resumed only in the rows
  that say so. The memory of an idle connection is the proxy's private memory, divided by the number
  of connections. After the measurement each of them was still open.
- **HTTP/2** is between client and proxy; but for gRPC, all proxies speak HTTP/1.1 with the
  upstream. For gRPC, the upstream is `nghttpd`. `h2load`
  begins anew every half second, as servers end connections that have had many streams. Its
  handshakes and first 100 ms are not in the figures.
- **Tunnels** are WebSockets, from `bench/tunnel_client.cpp` to `bench/tunnel_echo.cpp`. Each frame
  of the client has a mask of its own, and each message is compared with what was sent. The opening
  handshakes are not in the figures.
{NEWER_PEERS}- **What it cannot say**: how all this is over a network, or on many cores. Loopback makes the
  kernel's part smaller than a network card would.

## What to expect of more cores

Not measured: it follows from a profile of new connections on two cores (`perf record`, and callgrind for
the counts; OpenSSL 3.0).

- About half of the CPU of a new connection is OpenSSL's cryptography, most of it key exchange and
  signature. Threads do these side by side, so new connections a second grow with the cores until
  threads contend for OpenSSL's own locks: version 3.0 takes them some 600 times in a handshake, for
  reading.
- Resuming a session spares the signature, not the key exchange. RSA costs more than
  [ECDSA](tls.md#certificates-by-name).
- Then memory bounds the number of idle connections: the tables above say what each takes.
"""

TLS_NEW = """
`bench/tls_client.cpp`, eight threads: each connects, asks once and ends, then connects anew.
"""
TLS_RESUMED = """
The same, each connection with the ticket of the one before.
"""
TLS_KEPT = f"""
`wrk` over {CONNECTIONS} connections that stay. Their handshakes are in the figures.
"""
TLS_IDLE = """
Clients that asked once.
"""
H2 = {part: f"""
`h2load`, {connections} connections, on each {streams} at a time. The row in the clear is HTTP/2 by
prior knowledge.
""" for part, (connections, streams) in http2.LOADS.items()}
H2_IDLE = """
Clients that asked once in HTTP/2.
"""
GRPC = {part: f"""
`h2load`, {connections} connections, on each {streams} at a time: calls of 100 bytes each way, in
the clear by prior knowledge. Proxy and upstream speak HTTP/2, too.
""" for part, (connections, streams) in grpc_calls.FORWARDED.items()}
RLS = """
Calls of Envoy's rate limit service with one descriptor. Its limit is counted in process; of the
other row, the descriptor has no limit, so it shows what a call costs beside the decision.
"""
TUNNEL_ECHO = f"""
{tunnels.OPEN} tunnels, in each the next message of 64 bytes as soon as the one before is back. A
request is one message, there and back.
"""
TUNNEL_IDLE = """
Tunnels that have carried one message each. Each has a connection to the upstream, too.
"""

GROWTH_WORDS = """
## Growth

One thing grows, the rest stays: `scripts/bench --growth`. Names have three windows each; of routes
the last is asked for; limits are of one name; bodies of a megabyte and more go by one client,
smaller ones by sixteen.

"""

COMMANDS_WORDS = """
The threads of the proxy share commands to Redis ([redis.md](redis.md#many-threads)). So many decisions one
command carries, by threads; one name is a user, two names are an address and a user. The upstream has
the same work at any number of threads: what it takes more in the table above is what so many threads
on these CPUs cost each process.

"""

# By part.
WORDS = {"saturated": SATURATED, "steady": STEADY, "single": SINGLE, "pinned": PINNED,
         "calls": CALLS, "idle": IDLE, "faces": FACES, "checks": CHECKS,
         "observation": OBSERVATION, "tls-new": TLS_NEW,
         "tls-resumed": TLS_RESUMED, "tls-kept": TLS_KEPT, "tls-idle": TLS_IDLE, **H2,
         "h2-idle": H2_IDLE, **GRPC, "rls": RLS, "tunnel-echo": TUNNEL_ECHO,
         "tunnel-idle": TUNNEL_IDLE}
