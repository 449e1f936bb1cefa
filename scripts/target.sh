#!/bin/sh
# Prints the cargo arguments that build for a bare-metal target on this machine:
#     cargo $(scripts/target.sh thumbv7m-none-eabi) build -p nanocm-core
# Takes whichever there is: the target installed by rustup, or one that rustup can fetch; else a
# nightly that builds the core library itself, from the rust-src component or from an archive of the
# library sources (NANOCM_RUST_SRC, or ../shared/toolchain/rust-src-*.tar.xz beside the project).
set -eu

target=${1:?usage: scripts/target.sh TARGET}
root=$(cd "$(dirname "$0")/.." && pwd)

have_std() {
    [ -d "$(rustc "$@" --print sysroot)/lib/rustlib/$target/lib" ]
}

if have_std || { rustup target add "$target" >/dev/null 2>&1 && have_std; }; then
    echo "--config build.target=\"$target\""
    exit 0
fi

if ! nightly=$(rustc +nightly --print sysroot 2>/dev/null); then
    echo "scripts/target.sh: rustup cannot fetch $target, and there is no nightly toolchain to build" \
        "its core library with: rustup target add $target, or rustup toolchain add nightly" >&2
    exit 1
fi
sources=$nightly/lib/rustlib/src/rust
if [ ! -d "$sources/library/core" ] && ! rustup +nightly component add rust-src >/dev/null 2>&1; then
    archive=${NANOCM_RUST_SRC:-$(ls "$root"/../shared/toolchain/rust-src-*.tar.xz 2>/dev/null | tail -n 1)}
    if [ ! -f "$archive" ]; then
        echo "scripts/target.sh: rustup can fetch neither $target nor rust-src; set NANOCM_RUST_SRC to" \
            "an archive of Rust's library folder" >&2
        exit 1
    fi
    unpacked=$(mktemp -d)
    tar -xJf "$archive" -C "$unpacked"
    mkdir -p "$sources"
    cp -r "$(dirname "$(find "$unpacked" -type d -path '*/library/core' | head -n 1)")" "$sources/"
    rm -rf "$unpacked"
fi
echo "+nightly -Zbuild-std=core --config build.target=\"$target\""
