#!/bin/sh
# Asks Tidegate before a piece of work: client.sh URL USER
# Exits 0 if the user may go on, 1 if a limit refuses, 2 if there is no answer.
set -u
url=$1 user=$2

status=$(curl -s -o /dev/null -w '%{http_code}' "$url/v1/check" \
    -d "{\"policy\":\"per-user\",\"identifiers\":{\"user\":\"$user\"}}")
case $status in
    200) echo admitted ;;
    429) echo refused; exit 1 ;;
    *) echo "no answer: $status" >&2; exit 2 ;;
esac
