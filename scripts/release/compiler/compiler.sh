#!/usr/bin/env bash
# zig as compiler and archiver of a release. toolchain.ts copies this file under the names that build tools call, into a
# folder with `target` (a file: processor and version of glibc), `zig` and `zig-lib` (links).

set -euo pipefail

folder="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
read -r processor glibc <"$folder/target"
export ZIG_LIB_DIR="$folder/zig-lib"

case "${0##*/}" in
  shruti-cc) command=(cc -target "$processor-linux-gnu.$glibc") ;;
  shruti-c++) command=(c++ -target "$processor-linux-gnu.$glibc") ;;
  # A program without shared libraries: zig has no static glibc.
  shruti-static-cc) command=(cc -target "$processor-linux-musl") ;;
  shruti-ar) exec "$folder/zig" ar "$@" ;;
  shruti-ranlib) exec "$folder/zig" ranlib "$@" ;;
esac

# zig adds checks of undefined behaviour and frame pointers, for debugging.
command+=(-fno-sanitize=undefined -fomit-frame-pointer -Wno-nullability-completeness)
for argument in "$@"; do
  # zig takes names of ARM processors where other compilers take an architecture, such as -march=armv8.2-a+fp16.
  if [[ $argument =~ ^-march=armv([0-9.]+)-a(.*)$ ]]; then
    version="${BASH_REMATCH[1]}" features="${BASH_REMATCH[2]}"
    argument="-mcpu=generic+v${version/./_}a${features/+fp16/+fullfp16}"
  fi
  command+=("$argument")
done
exec "$folder/zig" "${command[@]}"
