#!/usr/bin/env bash
# Builds a GPU backend for `[engine] device`, from the same ggml source as the program.
#
#   scripts/build-backend.sh [--target linux-x64|linux-arm64] cuda|vulkan [FOLDER]
#
# Writes libggml-cuda.so or libggml-vulkan.so into FOLDER (default: dist/backends). Copy it into `backends/` of the
# data directory; `shruti doctor` reports whether it loads. The graphics driver, and for CUDA the run-time libraries of
# the toolkit with which it was built (libcudart, libcublas), must be installed on the machine that uses it. The file ends
# with the version of whisper.cpp for which it was built; a program with another version does not load it.
#
# --target builds a companion of a release (scripts/build.ts --target) with the same pinned compiler, for glibc 2.28 and
# newer, into dist/shruti-backend-vulkan-VERSION-TARGET by default. Its exceptions reach the release's code; those of
# another compiler end the worker process. `scripts/bun.sh run release --backend vulkan` packs it beside a release. It
# needs the headers, glslc and g++ of the machine, but not its Vulkan loader, which may be that of another processor.
# CUDA's compiler needs g++: run this script without --target on the oldest system that has to be supported, such as a
# container of RHEL 8 with the toolkit.
#
# Environment:
#   JOBS                number of processors that the build uses; default: all
#   CUDA_ARCHITECTURES  the value for CMake, such as 80 or "75;86"; default: ggml's own list, which takes longer to build
#   CUDACXX             the CUDA compiler; default: nvcc
#   VULKAN_SDK          folder whose include/, lib/, bin/ and share/cmake/ are searched before the system's. A Vulkan SDK
#                       sets it. The headers of Debian 12 are too old; those of Debian 13 (libvulkan-dev and
#                       spirv-headers) can be used there without compiling: unpack them with `dpkg-deb -x`, set
#                       VULKAN_SDK=…/usr, and install glslc and libvulkan-dev of Debian 12 (with --target only glslc).

set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
SOURCE="$ROOT/node_modules/nodejs-whisper/cpp/whisper.cpp"
PROJECT="$ROOT/src/native/whisper-backend"

die() {
  echo "build-backend: $*" >&2
  exit 1
}

usage() {
  echo "usage: scripts/build-backend.sh [--target linux-x64|linux-arm64] cuda|vulkan [FOLDER]" >&2
  exit 2
}

missing=()

need_program() { # NAME, what it belongs to
  command -v "$1" >/dev/null || missing+=("$1 ($2)")
}

need_common() {
  need_program cmake "CMake 3.19 or newer"
  need_program "${CXX:-c++}" "a C++17 compiler"
  # Only our patch has this line. The executable is built from the patched source as well.
  grep -qs 'shruti: ' "$SOURCE/ggml/src/ggml-cpu/amx/mmq.cpp" ||
    missing+=("node_modules/nodejs-whisper, patched (run scripts/quickstart.sh or bun install)")
}

# Makes the pinned compiler of a target that of CMake and of the checks below.
use_target() {
  local variables
  variables="$("$ROOT/scripts/bun.sh" "$ROOT/src/native/build/toolchain.ts" "$target")" || die "the pinned compiler is missing"
  eval "$variables"
  export ZIG_LOCAL_CACHE_DIR="$work/zig-cache"
  flags+=(-DSHRUTI_RELEASE=ON -DCMAKE_SYSTEM_NAME=Linux "-DCMAKE_SYSTEM_PROCESSOR=$PROCESSOR")
  flags+=("-DCMAKE_C_COMPILER=$(command -v "$CC")" "-DCMAKE_CXX_COMPILER=$(command -v "$CXX")")
  compiler_flags="$MAP_FLAGS -ffile-prefix-map=$work=build -ffile-prefix-map=$SOURCE=whisper.cpp"
}

# Gives the pinned compiler the headers of Vulkan and SPIR-V and nothing else of this machine, and a library to link
# with that has the names of the Vulkan loader. The real loader is found when the program runs.
use_vulkan_of_machine() {
  local include name headers="$work/headers" loader="$work/libvulkan.so"
  mkdir "$headers"
  for name in vulkan vk_video spirv; do
    for include in ${VULKAN_SDK:+"$VULKAN_SDK/include"} /usr/include; do
      [ ! -d "$include/$name" ] || [ -e "$headers/$name" ] || cp -rL "$include/$name" "$headers/$name"
    done
  done
  sed -n 's/.*VKAPI_CALL \(vk[A-Za-z0-9]*\)(.*/void \1(void) {}/p' "$headers/vulkan/vulkan_core.h" 2>/dev/null |
    sort -u >"$work/loader.c"
  "$CC" -shared -Wl,-soname,libvulkan.so.1 "$work/loader.c" -o "$loader" || die "the pinned compiler does not link"
  compiler_flags+=" -isystem $headers"
  flags+=("-DVulkan_INCLUDE_DIR=$headers" "-DVulkan_LIBRARY=$loader")
}

# Reports whether a compiler (all arguments, with its source) can compile and link.
makes_program() {
  "$@" -o "$work/probe" >/dev/null 2>&1
}

need_cuda() {
  local nvcc="${CUDACXX:-nvcc}"
  need_program "$nvcc" "the CUDA toolkit"
  command -v "$nvcc" >/dev/null || return 0
  echo '#include <cublas_v2.h>' >"$work/probe.cu"
  "$nvcc" -E "$work/probe.cu" >/dev/null 2>&1 || missing+=("cublas_v2.h (cuBLAS, development files)")
  echo 'int main() { return 0; }' >"$work/probe.cu"
  makes_program "$nvcc" "$work/probe.cu" -lcublas || missing+=("libcublas (cuBLAS, libraries)")
}

need_vulkan() {
  local cxx=("${CXX:-c++}" -std=c++17) probe="$work/probe.cpp"
  if [ -n "$target" ]; then
    need_program g++ "a C++ compiler for this machine, for the program that generates the shaders"
    use_vulkan_of_machine
    cxx+=(-isystem "$work/headers" "-L$work")
  elif [ -n "${VULKAN_SDK:-}" ]; then
    # Compilers search these folders after -I and before their own, so both headers are found, also where CMake omits one.
    export CPLUS_INCLUDE_PATH="$VULKAN_SDK/include${CPLUS_INCLUDE_PATH:+:$CPLUS_INCLUDE_PATH}"
    cxx+=("-L$VULKAN_SDK/lib")
  fi
  if [ -n "${VULKAN_SDK:-}" ]; then
    export PATH="$VULKAN_SDK/bin:$PATH"
    export CMAKE_PREFIX_PATH="$VULKAN_SDK${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH}"
  fi
  need_program glslc "the shader compiler of shaderc"
  # The newest part of the headers that ggml always uses, whatever the shader compiler supports.
  printf '%s\n' '#include <vulkan/vulkan.hpp>' 'int main() { return sizeof(vk::LayerSettingEXT) == 0; }' >"$probe"
  makes_program "${cxx[@]}" "$probe" -c ||
    missing+=("vulkan/vulkan.hpp with VK_EXT_layer_settings (Vulkan headers; 1.3.239 of Debian 12 is too old)")
  printf '%s\n' '#include <spirv/unified1/spirv.hpp>' 'int main() {}' >"$probe"
  makes_program "${cxx[@]}" "$probe" || missing+=("spirv/unified1/spirv.hpp (SPIRV-Headers)")
  echo 'int main() {}' >"$probe"
  makes_program "${cxx[@]}" "$probe" -lvulkan ||
    missing+=("libvulkan (the Vulkan loader, development files)")
}

target=""
if [ "${1:-}" = --target ]; then
  target="${2:-}"
  case "$target" in linux-x64 | linux-arm64) shift 2 ;; *) usage ;; esac
fi
[ $# -ge 1 ] && [ $# -le 2 ] || usage
backend="$1"
folder="${2:-$ROOT/dist/backends}"
if [ -n "$target" ] && [ $# = 1 ]; then
  release="$(sed -n 's/^ *"version": *"\([^"]*\)".*/\1/p' "$ROOT/package.json")"
  folder="$ROOT/dist/shruti-backend-$backend-$release-$target"
fi
case "$backend" in
  cuda) flags=(-DGGML_CUDA=ON) ;;
  vulkan) flags=(-DGGML_VULKAN=ON) ;;
  *) usage ;;
esac
if [ "$backend" = cuda ] && [ -n "${CUDA_ARCHITECTURES:-}" ]; then
  flags+=("-DCMAKE_CUDA_ARCHITECTURES=$CUDA_ARCHITECTURES")
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

compiler_flags=""
if [ -n "$target" ]; then
  [ "$backend" != cuda ] || die "CUDA's compiler needs g++: build without --target, on an old system (see the head of this script)"
  use_target
fi
need_common
"need_$backend"
if [ ${#missing[@]} -gt 0 ]; then
  printf 'build-backend: missing: %s\n' "${missing[@]}" >&2
  exit 1
fi

version="$(sed -n 's/^project("whisper.cpp" VERSION \([0-9.]*\).*/\1/p' "$SOURCE/CMakeLists.txt")"
[ -n "$version" ] || die "cannot find the version of whisper.cpp in $SOURCE/CMakeLists.txt"

# Without git, ggml's build does not write the commit of this repository into its libraries.
cmake -S "$PROJECT" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DGIT_EXE=/bin/false \
  "-DWHISPER_SOURCE=$SOURCE" "${flags[@]}" ${target:+"-DCMAKE_C_FLAGS=$compiler_flags" "-DCMAKE_CXX_FLAGS=$compiler_flags"}
cmake --build "$work/build" --parallel "${JOBS:-$(nproc)}" --target "ggml-$backend"

library="libggml-$backend.so"
[ -f "$work/build/bin/$library" ] || die "the build made no $library"
mkdir -p "$folder"
cp "$work/build/bin/$library" "$folder/$library.unfinished"
# A target's linker has left the symbols out.
[ -n "$target" ] || strip --strip-unneeded "$folder/$library.unfinished"
# The dynamic linker does not read these bytes at the end. src/native/backend-files.ts looks for them.
printf '\nshruti backend of whisper.cpp %s\n' "$version" >>"$folder/$library.unfinished"
mv "$folder/$library.unfinished" "$folder/$library"
echo "$folder/$library"
