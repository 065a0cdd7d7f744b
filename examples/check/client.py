#!/usr/bin/env python3
"""Takes units before a piece of work, and settles its true cost: client.py URL USER RESERVED ACTUAL

Exits 0 if the user may go on, 1 if a limit refuses.
"""

import json
import sys
import time
import urllib.error
import urllib.request


def call(url, path, body):
    """The status of the answer, and its JSON."""
    request = urllib.request.Request(url + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.load(refusal)


def settle(url, reservation, cost):
    """The same settle may be sent again, also if its answer was lost: it counts once."""
    for pause in (0.1, 1, 3):
        try:
            status, answer = call(url, "/v1/settle", {"id": reservation, "cost": cost})
            if status != 503:
                return status, answer
        except OSError:
            pass  # no answer: the call may have arrived or not
        time.sleep(pause)
    return call(url, "/v1/settle", {"id": reservation, "cost": cost})


def main():
    url, user, reserved, actual = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    status, answer = call(url, "/v1/reserve", {
        "policy": "per-user", "identifiers": {"user": user}, "cost": reserved, "ttl": "30s"})
    if status == 429:
        print("refused, again in", answer["retry_after_ms"], "ms")
        return 1
    if status != 200:
        raise SystemExit(f"{status}: {answer.get('detail')}")
    # ... the work, which costs `actual` units ...
    status, answer = settle(url, answer["id"], actual)
    if status != 200:
        raise SystemExit(f"{status}: {answer.get('detail')}")
    print("admitted,", actual, "units settled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
