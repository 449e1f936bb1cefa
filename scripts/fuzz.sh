#!/bin/sh
# Fuzzes every target, or those named, for so many seconds each; fails on the first finding:
#     scripts/fuzz.sh SECONDS [TARGET ...]
# Needs a nightly toolchain; installs cargo-fuzz if it is missing. What it finds worth keeping stays in
# fuzz/corpus/, the input of a finding in fuzz/artifacts/.
set -eu
seconds=${1:?usage: scripts/fuzz.sh SECONDS [TARGET ...]}
shift
cd "$(dirname "$0")/.."
PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH

scripts/install-missing.sh c++=g++
command -v cargo-fuzz >/dev/null || cargo install --locked cargo-fuzz
corpus() {
    cargo run -q -p nanocm-core --features testing --example fuzz_corpus "$@"
}
corpus write fuzz/corpus
targets=${*:-$(corpus list)}

# Six programs of one library: optimizing each as a whole takes minutes and makes none faster.
export CARGO_PROFILE_RELEASE_LTO=off
# The code is free of unsafe, so no sanitizer; debug assertions and overflow checks are on.
cargo +nightly fuzz build --sanitizer none
for target in $targets; do
    echo "== $target, $seconds s"
    log=$(mktemp)
    if ! RUST_BACKTRACE=0 cargo +nightly fuzz run --sanitizer none "$target" -- -max_total_time="$seconds" \
        -max_len=4096 -timeout=20 -rss_limit_mb=1024 -print_final_stats=1 >"$log" 2>&1; then
        grep -m 1 -A 2 "panicked at" "$log" || true
        tail -n 25 "$log"
        rm "$log"
        exit 1
    fi
    grep -E '^(stat::number_of_executed_units|stat::peak_rss_mb|#[0-9]+.DONE)' "$log"
    rm "$log"
done
