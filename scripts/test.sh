#!/usr/bin/env bash
# Sets everything up and runs lint, types and all tests. The last line is "N passed, N failed".
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/setup.sh
shruti_setup ffmpeg sox espeak-ng openssl chromium libstdc++-11-pic libgcc-11-dev
shruti_messaging_server
bun run build
exec bun scripts/run-tests.ts "$@"
