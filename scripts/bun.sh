#!/usr/bin/env bash
# Runs the Bun that package.json pins, and installs it first where it is missing: scripts/bun.sh run build
# What `run` and `scripts/…` need is installed, too: Debian packages of the build, and node_modules.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
# What a release is linked with.
archives=(libstdc++-11-pic libgcc-11-dev)
case "$*" in *linux-arm64*) archives+=(libstdc++-11-pic-arm64-cross libgcc-11-dev-arm64-cross) ;; esac
case "$*" in
  "run release"* | scripts/release.ts* | "run build "*--target*) shruti_setup "${archives[@]}" >&2 ;;
  run\ * | scripts/* | *scripts/*.ts*) shruti_setup >&2 ;;
  test | test\ * | x\ *)
    shruti_bun >&2
    shruti_node_modules >&2
    ;;
  *) shruti_bun >&2 ;;
esac
exec bun "$@"
