#!/usr/bin/env python3
"""Writes an access log as nginx would: make_log.py > access.log

An hour of an API: 300 clients that ask now and then, 20 that load pages of 15 requests at once, and two
scrapers. The same lines each time.
"""

import random
import time

BEGIN = 1795946400  # 2026-11-29T10:00:00Z
SECONDS = 3600


def requests(chance):
    """Each request as its time, its client and its path."""
    for client in range(300):
        at = chance.uniform(0, 60)
        while at < SECONDS:
            yield at, f"203.0.113.{client}" if client < 250 else f"198.51.100.{client - 250}", "/v1/items"
            at += chance.expovariate(1 / 60)
    for client in range(20):
        at = chance.uniform(0, 300)
        while at < SECONDS:
            for part in range(15):
                yield at + part * 0.02, f"192.0.2.{client}", f"/v1/items/{part}"
            at += chance.expovariate(1 / 300)
    for client, every in (("198.18.0.7", 0.5), ("198.18.0.8", 0.1)):
        at = chance.uniform(900, 1200)
        end = at + 1200
        while at < end:
            yield at, client, f"/v1/search?page={int(at)}"
            at += every


def main():
    chance = random.Random(44)
    lines = []
    for at, client, path in requests(chance):
        took = chance.uniform(0.002, 0.2)
        ended = BEGIN + at + took
        shown = time.strftime("%d/%b/%Y:%H:%M:%S +0000", time.gmtime(int(ended)))
        lines.append((ended, f'{client} - - [{shown}] "GET {path} HTTP/1.1" 200 512 "-" "client/1" {took:.3f}'))
    lines.sort()
    for _, line in lines:
        print(line)


main()
