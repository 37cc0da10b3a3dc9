#!/usr/bin/env bash
# Runs the Bun that package.json pins, and installs it first where it is missing: scripts/bun.sh run build
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
shruti_bun >&2
exec bun "$@"
