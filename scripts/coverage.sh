#!/bin/sh
# How many lines of the core's rooms the fuzz corpora reach by themselves; fails where it is less than
# LIMIT percent:
#     scripts/coverage.sh LIMIT [ROOM ...]
# Takes llvm-tools from rustup if they are missing, or LLVM's own, if they are of rustc's version.
# `DETAILS=file scripts/coverage.sh 90` writes the lines of each file with their counts.
set -eu
limit=${1:?usage: scripts/coverage.sh LIMIT [ROOM ...]}
shift
rooms=${*:-wire conn id port}
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
major=$(rustc -vV | sed -n 's/^LLVM version: \([0-9]*\).*/\1/p')
tools=$(rustc --print sysroot)/lib/rustlib/$host/bin
if [ ! -x "$tools/llvm-cov" ]; then
    rustup component add llvm-tools >/dev/null 2>&1 || true
fi
profdata=$tools/llvm-profdata cov=$tools/llvm-cov
if [ ! -x "$cov" ]; then
    scripts/install-missing.sh "llvm-cov-$major=llvm-$major"
    profdata=llvm-profdata-$major cov=llvm-cov-$major
fi

target=${CARGO_TARGET_DIR:-target}/coverage
RUSTFLAGS="-C instrument-coverage" CARGO_PROFILE_DEV_DEBUG=0 cargo build -q --target-dir "$target" \
    -p nanocm-core --features testing --example fuzz_corpus
program=$target/debug/examples/fuzz_corpus
profiles=$(mktemp -d)
trap 'rm -rf "$profiles"' EXIT
LLVM_PROFILE_FILE="$profiles/%p.profraw" "$program" replay
"$profdata" merge -sparse "$profiles"/*.profraw -o "$profiles/all"
if [ -n "${DETAILS:-}" ]; then
    "$cov" show "$program" -instr-profile="$profiles/all" core/src >"$DETAILS"
fi

# What runs in the compiler alone (wire/check.rs) is not counted. Columns of the report: name, then regions, functions and lines, each with how many were missed.
"$cov" report "$program" -instr-profile="$profiles/all" -ignore-filename-regex=wire/check.rs core/src |
    awk -v rooms="$rooms" -v limit="$limit" '
        { for (at = 1; at <= split(rooms, room, " "); at++)
            if ($1 ~ "(^|/)" room[at] "/" && $1 !~ /testing\//) {
                lines[room[at]] += $8; missed[room[at]] += $9 } }
        END {
            for (at = 1; at <= split(rooms, room, " "); at++) {
                name = room[at]
                reached = lines[name] ? 100 * (lines[name] - missed[name]) / lines[name] : 0
                printf "%-6s %5.1f %% of %d lines\n", name, reached, lines[name]
                if (reached < limit) low = low " " name
            }
            if (low) { print "below " limit " %:" low; exit 1 }
        }'
