#!/bin/sh
# Fails if the nanocm library without its program depends on LIMIT crates or more, itself included.
set -eu
limit=${1:?usage: scripts/crate-count.sh LIMIT}
count=$(cargo tree -p nanocm --no-default-features -e normal --prefix none | sed 's/ (\*)$//' | sort -u | wc -l)
echo "nanocm without its program: $count crates (limit: fewer than $limit)"
[ "$count" -lt "$limit" ]
