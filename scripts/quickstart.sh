#!/usr/bin/env bash
# From a fresh clone to a transcript: builds the executable, starts it on a temporary data directory, uploads a
# sample recording over HTTP, and prints what was said.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh
shruti_setup
bun run build
exec bun scripts/quickstart.ts "$@"
