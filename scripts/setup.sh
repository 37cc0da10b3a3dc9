# shellcheck shell=bash
# Sourced by quickstart.sh and test.sh: gets the pinned Bun, the system's build tools and node_modules ready.
#
#   . scripts/setup.sh
#   shruti_setup                    # what a build needs
#   shruti_setup ffmpeg sox         # and these programs (Debian packages of the same name) too
#   shruti_setup libstdc++-11-pic libgcc-11-dev     # and what a release for x86-64 is linked with; -arm64-cross: for ARM
#
# Adds Bun's folder to PATH. Prints what is missing in one line and returns 1 when it cannot install it.

set -euo pipefail

SHRUTI_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

shruti_setup() {
  shruti_system_packages "$@" || return 1
  shruti_bun || return 1
  shruti_node_modules || return 1
}

# Prints the version that package.json pins.
shruti_bun_version() {
  sed -n 's/^ *"packageManager": *"bun@\([0-9][0-9.]*\)".*/\1/p' "$SHRUTI_ROOT/package.json"
}

# Puts exactly the pinned Bun first in PATH; another version could resolve or bundle differently.
shruti_bun() {
  local version folder
  version="$(shruti_bun_version)"
  if [ -z "$version" ]; then
    echo "setup: package.json pins no Bun (packageManager)" >&2
    return 1
  fi
  if command -v bun >/dev/null && [ "$(bun --version 2>/dev/null)" = "$version" ]; then return 0; fi
  folder="${XDG_CACHE_HOME:-$HOME/.cache}/shruti/tools/bun-$version"
  if [ "$("$folder/node_modules/.bin/bun" --version 2>/dev/null)" != "$version" ]; then
    if ! command -v npm >/dev/null; then
      echo "setup: npm is needed to install Bun $version, and is missing" >&2
      return 1
    fi
    echo "setup: installing Bun $version with npm"
    mkdir -p "$folder"
    # npm needs Bun's own install step, which fetches nothing: the binary is in a package for this platform.
    npm install --prefix "$folder" --no-audit --no-fund --no-save --loglevel=error "bun@$version" || return 1
    if [ "$("$folder/node_modules/.bin/bun" --version 2>/dev/null)" != "$version" ]; then
      echo "setup: npm installed Bun $version, but it does not run; does npm ignore install scripts?" >&2
      return 1
    fi
  fi
  PATH="$folder/node_modules/.bin:$PATH"
  export PATH
}

# Prints the Debian packages that are missing, one a line. Each is detected by what it provides, not by its name.
shruti_missing_packages() {
  command -v cc >/dev/null && command -v c++ >/dev/null || echo g++
  command -v make >/dev/null || echo make
  command -v cmake >/dev/null || echo cmake
  command -v strip >/dev/null && command -v objdump >/dev/null && command -v readelf >/dev/null || echo binutils
  command -v xz >/dev/null || echo xz-utils
  command -v git >/dev/null || echo git
  command -v curl >/dev/null || echo curl
  case "$(uname -m)" in
    x86_64 | amd64) command -v nasm >/dev/null || echo nasm ;;
  esac
  if command -v cc >/dev/null; then
    shruti_compiles 'zlib.h' -lz || echo zlib1g-dev
  else
    echo zlib1g-dev
  fi
  shruti_has_node_headers || echo libnode-dev
  local name
  for name in "$@"; do
    shruti_is_there "$name" || echo "$name"
  done
}

# Is there what a package gives: a program of its name, or archives of GCC?
shruti_is_there() {
  case "$1" in
    libstdc++-11-pic) [ -f /usr/lib/gcc/x86_64-linux-gnu/11/libstdc++_pic.a ] ;;
    libgcc-11-dev) [ -f /usr/lib/gcc/x86_64-linux-gnu/11/libgcc_eh.a ] ;;
    libstdc++-11-pic-arm64-cross) [ -f /usr/lib/gcc-cross/aarch64-linux-gnu/11/libstdc++_pic.a ] ;;
    chromium) command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ;;
    libgcc-11-dev-arm64-cross) [ -f /usr/lib/gcc-cross/aarch64-linux-gnu/11/libgcc_eh.a ] ;;
    nats-server) command -v nats-server >/dev/null || [ -x /usr/sbin/nats-server ] ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

# Installs the messaging server, with which the fleet is tested. Without it those tests are skipped.
shruti_messaging_server() {
  if shruti_is_there nats-server; then return 0; fi
  shruti_system_packages nats-server || echo "setup: the tests of the fleet are skipped without nats-server"
  # Debian's package starts a server that anybody may use.
  if [ "$(id -u)" = 0 ] && [ -d /run/systemd/system ]; then systemctl disable -q --now nats-server || true; fi
}

# Node's headers come with some packages of Node itself, with libnode-dev on Debian, or by npm_config_nodedir.
shruti_has_node_headers() {
  local node home
  node="$(command -v node || true)"
  for home in "${npm_config_nodedir:-}" "${node:+$(dirname "$(dirname "$(readlink -f "$node")")")}" /usr /usr/local; do
    if [ -n "$home" ] && [ -f "$home/include/node/node_api.h" ]; then return 0; fi
  done
  return 1
}

# Reports whether a program with this header compiles and links, statically where the system can.
shruti_compiles() {
  local header="$1" static=""
  shift
  [ "$(uname -s)" = Linux ] && static=-static
  printf '#include <%s>\nint main(void) { return 0; }\n' "$header" | cc -x c - $static "$@" -o /dev/null 2>/dev/null
}

shruti_system_packages() {
  local missing
  missing="$(shruti_missing_packages "$@" | tr '\n' ' ')"
  [ -n "$missing" ] || return 0
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "setup: installing ${missing% }"
    apt-get update -qq || true
    # The names come from this script, so splitting at blanks is safe.
    # shellcheck disable=SC2086
    if DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null; then
      missing="$(shruti_missing_packages "$@" | tr '\n' ' ')"
      [ -n "$missing" ] || return 0
    fi
  fi
  echo "setup: please install (Debian package names): ${missing% }" >&2
  return 1
}

# Installs node_modules again when the lock file, package.json or a patch has changed since the last time.
shruti_node_modules() {
  local stamp="$SHRUTI_ROOT/node_modules/.shruti-setup" wanted
  wanted="$(cd "$SHRUTI_ROOT" && cat package.json bun.lock patches/* 2>/dev/null | cksum)"
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then return 0; fi
  echo "setup: installing node_modules"
  # No package's own script runs, because src/native/build builds the native parts.
  # Bun says that it has blocked the scripts, as if something were wrong.
  (cd "$SHRUTI_ROOT" && bun install --frozen-lockfile --ignore-scripts | sed '/^Blocked [0-9]* postinstall/d') || return 1
  echo "$wanted" >"$stamp"
}
