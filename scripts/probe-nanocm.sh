#!/bin/sh
# Writes docs/probe-nanocm.md: what `nanocm probe` says of `nanocm listen`, in a network namespace of their own (root).
set -eu
cd "$(dirname "$0")/.."
nanocm=${NANOCM_BIN:-target/release/nanocm}
[ -x "$nanocm" ] || { echo "There is no program $nanocm: please build it (\`cargo build --release\`)." >&2; exit 1; }

probe() { # options of `listen`, title
    # What the one before has said is no sign of this one.
    : >"$said"
    "$nanocm" listen 127.0.0.2:7471 $1 --json >"$said" &
    listener=$!
    until grep -q LISTENING "$said"; do sleep 0.1; done
    "$nanocm" probe 127.0.0.2:7471 --from 127.0.0.1 --rude --markdown "$2"
    kill -INT $listener
    wait $listener
    listener=
}

if [ "${1:-}" = inside ]; then
    ip link set lo up
    said=$(mktemp)
    listener=
    trap 'rm -f "$said"; [ -z "$listener" ] || kill $listener' EXIT
    version=$("$nanocm" --version)
    probe "" "$version, a listener for connections"
    echo
    probe "--space udp" "$version, a datagram service"
else
    report=$(mktemp)
    trap 'rm -f "$report"' EXIT
    unshare -n "$0" inside >"$report"
    cp "$report" docs/probe-nanocm.md
fi
