#!/usr/bin/env python3
"""Writes an access log to measure with: make_log.py LINES > access.log

The combined format, 300 requests a second: 20,000 addresses, of which some ask much more often than others, and
200 targets. The same bytes each time.
"""

import itertools
import random
import sys
import time

BEGIN = 1795946400  # 2026-11-29T10:00:00Z
A_SECOND = 300
AT_ONCE = 100_000
WORDS = "users orders items search cart login assets img api v1 v2 report session profile feed".split()
AGENTS = ["Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
          "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
          "curl/8.5.0", "python-requests/2.32.3"]
REFERERS = ["-", "https://www.example.com/", "https://www.example.com/search?q=a"]


def main():
    lines = int(sys.argv[1])
    chance = random.Random(7)
    addresses = [f"{chance.randrange(1, 224)}.{chance.randrange(256)}.{chance.randrange(256)}.{chance.randrange(1, 255)}"
                 for _ in range(20_000)]
    address_weights = list(itertools.accumulate(1 / (i + 10) ** 0.9 for i in range(20_000)))
    targets = []
    for i in range(200):
        path = "/" + "/".join(chance.choice(WORDS) for _ in range(chance.randrange(1, 4))) + f"/{chance.randrange(1000)}"
        targets.append(path + (f"?page={chance.randrange(50)}&sort=asc" if i % 5 == 0 else ""))
    target_weights = list(itertools.accumulate(1 / (i + 3) for i in range(200)))
    for first in range(0, lines, AT_ONCE):
        count = min(AT_ONCE, lines - first)
        columns = zip(range(first, first + count),
                      chance.choices(addresses, cum_weights=address_weights, k=count),
                      chance.choices(targets, cum_weights=target_weights, k=count),
                      chance.choices(AGENTS, k=count),
                      chance.choices(REFERERS, k=count),
                      chance.choices([200, 304, 404, 302], weights=[85, 8, 5, 2], k=count),
                      chance.choices(["GET", "POST", "HEAD"], weights=[85, 12, 3], k=count),
                      chance.choices(range(100, 50_000), k=count))
        written = []
        for number, address, target, agent, referer, status, method, size in columns:
            at = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(BEGIN + number // A_SECOND))
            written.append(f'{address} - - [{at}] "{method} {target} HTTP/1.1" {status} {size} "{referer}" "{agent}"\n')
        sys.stdout.write("".join(written))


main()
