#!/usr/bin/env bash
# Builds a GPU backend for `[engine] device`, from the same ggml source as the program.
#
#   scripts/build-backend.sh cuda|vulkan [FOLDER]
#
# Writes libggml-cuda.so or libggml-vulkan.so into FOLDER (default: dist/backends). Copy it into `backends/` of the
# data directory; `shruti doctor` tells whether it loads. The graphics driver, and for CUDA the run-time libraries of
# the toolkit that it was built with (libcudart, libcublas), must be installed where it runs.
#
# Environment: CUDA_ARCHITECTURES (as CMake's; default: ggml's own list), JOBS (default: number of processors).

set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
SOURCE="$ROOT/node_modules/nodejs-whisper/cpp/whisper.cpp"
PROJECT="$ROOT/scripts/native/whisper-backend"

die() {
  echo "build-backend: $*" >&2
  exit 1
}

usage() {
  echo "usage: scripts/build-backend.sh cuda|vulkan [FOLDER]" >&2
  exit 2
}

missing=()

need_program() { # NAME, what it belongs to
  command -v "$1" >/dev/null || missing+=("$1 ($2)")
}

need_common() {
  need_program cmake "CMake 3.19 or newer"
  need_program "${CXX:-c++}" "a C++17 compiler"
  [ -f "$SOURCE/ggml/CMakeLists.txt" ] || missing+=("node_modules/nodejs-whisper (run scripts/quickstart.sh or bun install)")
}

need_cuda() {
  need_program nvcc "the CUDA toolkit"
  command -v nvcc >/dev/null || return 0
  echo '#include <cublas_v2.h>' | nvcc -x cu -E - >/dev/null 2>&1 || missing+=("cublas_v2.h (cuBLAS, development files)")
  local probe
  probe="$(mktemp -d)"
  echo 'int main() { return 0; }' >"$probe/probe.cu"
  nvcc -o "$probe/probe" "$probe/probe.cu" -lcublas >/dev/null 2>&1 || missing+=("libcublas (cuBLAS, libraries)")
  rm -rf "$probe"
}

need_vulkan() {
  need_program glslc "the shader compiler of shaderc"
  echo '#include <vulkan/vulkan.hpp>' | "${CXX:-c++}" -x c++ -E - >/dev/null 2>&1 ||
    missing+=("vulkan/vulkan.hpp (Vulkan headers; those of Debian 12, 1.3.239, are too old)")
  echo '#include <spirv/unified1/spirv.hpp>' | "${CXX:-c++}" -x c++ -E - >/dev/null 2>&1 ||
    missing+=("spirv/unified1/spirv.hpp (SPIRV-Headers)")
  local probe
  probe="$(mktemp -d)"
  echo 'int main() { return 0; }' | "${CXX:-c++}" -x c++ - -o "$probe/probe" -lvulkan >/dev/null 2>&1 ||
    missing+=("libvulkan (the Vulkan loader, development files)")
  rm -rf "$probe"
}

[ $# -ge 1 ] && [ $# -le 2 ] || usage
backend="$1"
folder="${2:-$ROOT/dist/backends}"
case "$backend" in
  cuda) flags=(-DGGML_CUDA=ON) ;;
  vulkan) flags=(-DGGML_VULKAN=ON) ;;
  *) usage ;;
esac
if [ "$backend" = cuda ] && [ -n "${CUDA_ARCHITECTURES:-}" ]; then
  flags+=("-DCMAKE_CUDA_ARCHITECTURES=$CUDA_ARCHITECTURES")
fi

need_common
"need_$backend"
if [ ${#missing[@]} -gt 0 ]; then
  printf 'build-backend: missing: %s\n' "${missing[@]}" >&2
  exit 1
fi

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
# Without git ggml's build does not put the commit of this repository into its libraries.
cmake -S "$PROJECT" -B "$work" -DCMAKE_BUILD_TYPE=Release -DGIT_EXE=/bin/false \
  "-DWHISPER_SOURCE=$SOURCE" "${flags[@]}"
cmake --build "$work" --parallel "${JOBS:-$(nproc)}" --target "ggml-$backend"

library="libggml-$backend.so"
[ -f "$work/bin/$library" ] || die "the build made no $library"
mkdir -p "$folder"
cp "$work/bin/$library" "$folder/$library.unfinished"
strip --strip-unneeded "$folder/$library.unfinished"
mv "$folder/$library.unfinished" "$folder/$library"
echo "$folder/$library"
