#!/usr/bin/env bash
# Runs a command on x86-64 so that it can start programs for 64-bit ARM, which qemu then emulates:
#
#   scripts/emulate.sh [--cpu MODEL] dist/shruti-linux-arm64 doctor
#
# The program starts its worker processes by itself, so the kernel must know what to do with a program for ARM
# (binfmt_misc). This script says it for a namespace of its own. Nothing changes for other processes of the machine.
#
# Needs Linux 6.7 or newer with user namespaces, and Debian's packages qemu-user-static and libc6-arm64-cross. Prints in
# one line what is missing, with exit status 3. --check does only that.
#
#   --cpu MODEL    the processor, such as cortex-a72 or neoverse-n1 (qemu-aarch64-static -cpu help); default: qemu's
#                  own, which has all instructions that it knows

set -euo pipefail

QEMU=/usr/bin/qemu-aarch64-static
LIBRARIES=/usr/aarch64-linux-gnu
# The head of every ELF file of 64 bits for ARM: program or library. In the mask, bits of 0 may have any value.
HEAD='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
MASK='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'

# The second half runs in the namespace.
if [ "${1:-}" = --inside ]; then
  interpreter="$2" cpuinfo="$3"
  shift 3
  mount --bind "$cpuinfo" /proc/cpuinfo
  mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
  # P: the interpreter also receives the name that the program was called by.
  printf '%s' ":shruti-arm64:M::$HEAD:$MASK:$interpreter:P" >/proc/sys/fs/binfmt_misc/register
  exec "$@"
fi

cpu=max
check=false
case "${1:-}" in
  --cpu) cpu="${2:?a model}" && shift 2 ;;
  --check) check=true ;;
esac

missing=()
[ "$(uname -m)" = x86_64 ] || missing+=("a machine with x86-64")
[ -x "$QEMU" ] || missing+=("qemu-user-static")
[ -e "$LIBRARIES/lib/ld-linux-aarch64.so.1" ] || missing+=("libc6-arm64-cross")
unshare --user --map-root-user --mount mount -t binfmt_misc none /proc/sys/fs/binfmt_misc 2>/dev/null ||
  missing+=("binfmt_misc in user namespaces (Linux 6.7)")
if [ ${#missing[@]} -gt 0 ]; then
  (IFS=, && echo "emulate: missing: ${missing[*]}" >&2)
  exit 3
fi
if $check; then exit 0; fi
[ $# -gt 0 ] || { echo "usage: scripts/emulate.sh [--cpu MODEL] COMMAND [ARGUMENT]..." >&2 && exit 2; }

# Writes a file once. Others may be reading it.
keep() { # FILE, contents on standard input
  local unfinished
  unfinished="$(mktemp "$1.XXXXXX")"
  cat >"$unfinished"
  chmod 0755 "$unfinished"
  mv "$unfinished" "$1"
}

folder="$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")/build"
mkdir -p "$folder"
# Programs start others without this environment, so the options of qemu are in a script.
interpreter="$folder/emulate-arm64-$cpu"
# shellcheck disable=SC2016
[ -x "$interpreter" ] ||
  printf '#!/bin/sh\npath="$1" name="$2"\nshift 2\nexec %s -L %s -cpu %s -0 "$name" "$path" "$@"\n' \
    "$QEMU" "$LIBRARIES" "$cpu" | keep "$interpreter"
# qemu shows this machine's /proc/cpuinfo, and the ONNX runtime for ARM crashes when it reads that.
cpuinfo="$folder/emulate-arm64-cpuinfo"
for ((n = 0; n < $(nproc --all); n++)); do
  printf 'processor\t: %s\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\n' "$n"
  printf 'CPU variant\t: 0x3\nCPU part\t: 0xd0c\nCPU revision\t: 1\n\n'
done | keep "$cpuinfo"
exec unshare --user --map-root-user --mount "$(realpath "${BASH_SOURCE[0]}")" --inside "$interpreter" "$cpuinfo" "$@"
