#!/bin/sh
# Installs the Debian packages of those programs that are not here: install-missing.sh PROGRAM=PACKAGE ...
set -eu
PATH=$PATH:/usr/sbin:/sbin
packages=
for pair in "$@"; do
    command -v "${pair%%=*}" >/dev/null || packages="$packages ${pair#*=}"
done
[ -n "$packages" ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "please install:$packages" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
# shellcheck disable=SC2086 # a list
apt-get -q install --yes --no-install-recommends $packages
