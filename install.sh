#!/bin/sh
# Installs Shruti as a systemd service, or upgrades it: executable, user, config, data directory, unit, completions for
# shells and manual page.
# Config and recordings are kept. It looks first, and changes nothing when this machine cannot run the program.
# An upgrade that is not ready in time is undone: executable, unit and database are then those from before.
#
#   ./install.sh [OPTION]… [EXECUTABLE]   default: dist/shruti or shruti beside this script, else ./shruti
#   ./install.sh --uninstall              removes what it installed; config, recordings and user remain
#   ./install.sh --packaged [--uninstall] for the scripts of a .deb or .rpm: brings the service to the files of the package
#
#   --prefix DIR    the executable goes into DIR/bin, completions and manual page into DIR/share; default /usr/local
#   --listen A:P    address and port of a first installation; default 127.0.0.1:8080
#   --no-systemd    installs no unit and starts nothing: you run `shruti serve` with a supervisor of your own
#   --key FILE      public key of the signer (Ed25519, PEM); SHA256SUMS and its signature must be beside EXECUTABLE.
#                   The key is kept as /etc/shruti/release.pem, and every later upgrade must be signed with it
#   --no-signature  installs although the signature is not verified: your decision, such as where nothing here can do that
#   --wait SECONDS  how long an upgrade may take until it is ready; default 60, at most 240
#   --dry-run       looks, prints every step and changes nothing
#
# Needs root. DESTDIR=… stages the files elsewhere, without user, key or service, as packagers do. OpenRC and other
# init systems are not supported; use --no-systemd there.
#
# Exit status: 0 done · 1 failed · 2 wrong usage · 3 this machine or its config does not fit, nothing was changed
# · 4 the executable is not what was released, nothing was changed · 5 the upgrade failed, the version from before runs
# again · 6 the upgrade failed and could not be undone: the messages say what to do
set -eu
# The modes of what is made here do not depend on the admin's shell.
umask 022
# The forms of numbers and messages must not depend on it either.
LC_ALL=C
export LC_ALL

DESTDIR="${DESTDIR:-}"
PREFIX=""
CONFIG=/etc/shruti/shruti.toml
KEPT_KEY=/etc/shruti/release.pem
STATE_DIR=/var/lib/shruti
UNIT=/etc/systemd/system/shruti.service
KEY=""
ASKED_LISTEN=""
WAIT_SECONDS=60
MAX_WAIT_SECONDS=240
WAIT_IS_GIVEN=no
# yes: executable, unit, completions and manual page are files of a package, which dpkg or rpm puts into place and removes.
PACKAGED=no
PACKAGE_DIR=/usr/lib/shruti
USE_SYSTEMD=yes
DRY_RUN=no
SKIP_SIGNATURE=no
ACTION=install
EXECUTABLE=""
# Native parts that the program copies into its data directory, and the log of an upgrade, KiB.
DATA_KIB=409600
# A program that does not answer within this time hangs.
RUN_SECONDS=60
# The SHA-256 that SHA256SUMS lists for the executable; empty: there is no list.
LISTED=""
# What `hear` runs now, and the file that it prints into.
LOOK=""
NOTES=""

# The terminal may be gone: then a message fails, and the work must not end with it.
tell() {
  echo "install: $1" >&2 || true
}

fail() {
  tell "$1"
  exit "${2:-1}"
}

say() {
  echo "$1  $2"
}

# The same for a step that a dry run has only printed.
did() {
  [ "$DRY_RUN" = yes ] || say "$1" "$2"
}

usage() {
  sed -n '2,26s/^# \{0,1\}//p' "$0"
}

# Brings a file to the disk; older versions of sync know no files.
sync_file() {
  sync "$1" 2>/dev/null || sync
}

# Runs a step that changes something, or only prints it.
act() {
  if [ "$DRY_RUN" = yes ]; then
    echo "would run   $*"
  else
    "$@"
  fi
}

# ---- arguments

# An empty value comes from a variable that is not set. Without it, `--key ""` would verify no signature.
needs_value() {
  [ -n "$2" ] || fail "$1 needs a value; see $0 --help" 2
}

parse() {
  while [ $# -gt 0 ]; do
    case "$1" in
      -h | --help)
        usage
        exit 0
        ;;
      --uninstall) ACTION=uninstall ;;
      --packaged) PACKAGED=yes ;;
      --no-systemd) USE_SYSTEMD=no ;;
      --dry-run) DRY_RUN=yes ;;
      --no-signature) SKIP_SIGNATURE=yes ;;
      --prefix)
        needs_value "$1" "${2-}"
        PREFIX="$2"
        shift
        ;;
      --listen)
        needs_value "$1" "${2-}"
        ASKED_LISTEN="$2"
        shift
        ;;
      --key)
        needs_value "$1" "${2-}"
        KEY="$2"
        shift
        ;;
      --wait)
        needs_value "$1" "${2-}"
        WAIT_SECONDS="$2"
        WAIT_IS_GIVEN=yes
        shift
        ;;
      -*) fail "there is no option $1; see $0 --help" 2 ;;
      *)
        [ -z "$EXECUTABLE" ] || fail "one executable at most; see $0 --help" 2
        EXECUTABLE="$1"
        ;;
    esac
    shift
  done
  check_arguments
}

check_arguments() {
  if [ "$PACKAGED" = yes ]; then check_packaged; fi
  case "$WAIT_SECONDS" in
    '' | *[!0-9]*) fail "--wait: $WAIT_SECONDS is not a number of seconds" 2 ;;
  esac
  # A server that is not ready accepts work again after five minutes, and then there is no way back.
  [ "$WAIT_SECONDS" -le "$MAX_WAIT_SECONDS" ] || fail "--wait: at most $MAX_WAIT_SECONDS seconds" 2
  if [ -z "$PREFIX" ]; then PREFIX="$(installed_prefix)"; fi
  PREFIX="${PREFIX%/}"
  case "$PREFIX" in
    /*) ;;
    *) fail "--prefix: $PREFIX is not an absolute path" 2 ;;
  esac
  is_plain "$PREFIX" || fail "--prefix: a unit cannot name $PREFIX; use letters, digits and . _ - + @ /" 2
  if [ -n "$ASKED_LISTEN" ]; then
    echo "$ASKED_LISTEN" | grep -qE '^([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\]):[0-9]{1,5}$' ||
      fail "--listen: $ASKED_LISTEN is not address:port" 2
    [ "${ASKED_LISTEN##*:}" -le 65535 ] || fail "--listen: ${ASKED_LISTEN##*:} is not a port: 65535 at most" 2
  fi
  if [ -n "$KEY" ]; then [ -f "$KEY" ] || fail "--key: there is no file $KEY" 2; fi
  BIN="$PREFIX/bin/shruti"
  BASH_COMPLETION="$PREFIX/share/bash-completion/completions/shruti"
  ZSH_COMPLETION="$PREFIX/share/zsh/site-functions/_shruti"
  FISH_COMPLETION="$PREFIX/share/fish/vendor_completions.d/shruti.fish"
  MANUAL="$PREFIX/share/man/man1/shruti.1"
  # Exists from the first change of an upgrade until its end, so that a run after a kill knows what has been done.
  STATE="$PREFIX/bin/.shruti.upgrade"
  LOCK="$PREFIX/bin/.shruti.lock"
  PREVIOUS="$BIN.previous"
  if [ "$PACKAGED" = yes ]; then name_packaged; fi
}

check_packaged() {
  [ -z "$EXECUTABLE$PREFIX$ASKED_LISTEN$KEY$DESTDIR" ] && [ "$USE_SYSTEMD" = yes ] && [ "$SKIP_SIGNATURE" = no ] ||
    fail "--packaged goes with --uninstall, --wait and --dry-run alone" 2
  PREFIX=/usr
  # Nobody chooses it with apt or dnf, and large models take long to load. A server that ends is noticed before.
  if [ "$WAIT_IS_GIVEN" = no ]; then WAIT_SECONDS="${INSTALL_WAIT_SECONDS:-$MAX_WAIT_SECONDS}"; fi
}

# The places of a package. What is beside the package's files in its folder belongs to this script.
name_packaged() {
  UNIT=/usr/lib/systemd/system/shruti.service
  STATE="$PACKAGE_DIR/.shruti.upgrade"
  LOCK="$PACKAGE_DIR/.shruti.lock"
  # The executable of the last run that succeeded: dpkg and rpm keep none. In a folder of this name, SELinux's policies give
  # programs the same label as in /usr/bin, and the two names are of one file.
  PREVIOUS="$PACKAGE_DIR/bin/shruti.previous"
  DROP_INS=/etc/systemd/system/shruti.service.d
  FIRST_KEY="$(dirname "$CONFIG")/first-key"
  EXECUTABLE="$BIN"
}

# The unit of the installation that is there says where its executable is.
installed_prefix() {
  found=""
  if [ -z "$DESTDIR" ] && [ -f "$UNIT" ]; then
    found="$(sed -n 's|^ExecStart=\(/.*\)/bin/shruti serve .*|\1|p' "$UNIT")"
  fi
  echo "${found:-/usr/local}"
}

# Paths that need no quoting in a unit.
is_plain() {
  case "$1" in
    *[!A-Za-z0-9._@+/-]*) return 1 ;;
  esac
}

find_executable() {
  if [ -n "$EXECUTABLE" ]; then
    [ -f "$EXECUTABLE" ] || fail "there is no file $EXECUTABLE" 2
    return
  fi
  here="$(cd "$(dirname "$0")" && pwd)"
  for candidate in "$here/dist/shruti" "$here/shruti" ./shruti; do
    if [ -f "$candidate" ]; then
      EXECUTABLE="$candidate"
      return
    fi
  done
  fail "no executable found; build it with 'bun run build' or name it"
}

# ---- looks

# Runs a look at the machine and keeps what it prints in HEARD. A signal ends the wait for it at once: for what runs in
# `$(...)`, the shell would first wait until that has ended.
hear() {
  HEARD=""
  make_notes
  (
    exec >"$NOTES" 9>&-
    "$@"
  ) &
  LOOK=$!
  wait_for_step || true
  LOOK=""
  HEARD="$(cat "$NOTES")"
  rm -f "$NOTES"
  NOTES=""
  return "$step_status"
}

# A folder for temporary files may be read-only, or full: then a file can be made there, and nothing be written into it.
make_notes() {
  for folder_of_notes in "${TMPDIR:-/tmp}" /run /dev/shm; do
    NOTES="$(mktemp "$folder_of_notes/shruti-install.XXXXXX" 2>/dev/null)" || continue
    if head -c 65536 /dev/zero 2>/dev/null >"$NOTES" 2>/dev/null && [ "$(wc -c <"$NOTES")" = 65536 ]; then
      : >"$NOTES"
      return 0
    fi
    rm -f "$NOTES"
    NOTES=""
  done
  fail "${TMPDIR:-/tmp} is full or read-only, and so are /run and /dev/shm: make room, or set TMPDIR to another folder"
}

# Ends the look that a signal has interrupted. The program in it would go on alone.
end_look() {
  if [ -n "$LOOK" ]; then kill "$LOOK" 2>/dev/null || true; fi
  if [ -n "$NOTES" ]; then rm -f "$NOTES"; fi
}

with_errors() {
  "$@" 2>&1
}

# Takes the place of the subshell that calls it: a signal to that is then one to the program.
limited() {
  if command -v timeout >/dev/null 2>&1; then exec timeout "$RUN_SECONDS" "$@"; fi
  exec "$@"
}

run_new() {
  limited "$EXECUTABLE" "$@"
}

# ---- is it what was released

# The last 112 bytes of an executable are a line with the checksum of all bytes before it.
check_seal() {
  is_elf || return 0
  size=$(($(wc -c <"$EXECUTABLE") - 112))
  [ "$size" -gt 0 ] || fail "$EXECUTABLE is damaged: it is too short" 4
  wanted="$(tail -c 112 "$EXECUTABLE" | tr -d '\000' | sed -n 's/^#shruti-seal 1 bytes=[0-9]* sha256=\([0-9a-f]\{64\}\) *$/\1/p')"
  [ -n "$wanted" ] || fail "$EXECUTABLE is cut off or damaged: its end is not that of this program" 4
  hear sum_of_first "$size"
  [ "$wanted" = "$HEARD" ] || fail "$EXECUTABLE is damaged: its SHA-256 is not that of the build" 4
}

# Prints the SHA-256 of the first bytes of the executable.
sum_of_first() {
  head -c "$1" "$EXECUTABLE" | sha256sum | cut -d ' ' -f 1
}

# Every program for Linux begins with the same four bytes.
is_elf() {
  [ "$(head -c 4 "$EXECUTABLE" | od -An -tx1 | tr -d ' \n')" = 7f454c46 ]
}

# SHA256SUMS and its signature, where they are beside the executable; with a key they must be there.
check_release() {
  folder="$(cd "$(dirname "$EXECUTABLE")" && pwd)"
  name="$(basename "$EXECUTABLE")"
  sums="$folder/SHA256SUMS"
  if [ -z "$KEY" ] && [ -f "$KEPT_KEY" ] && [ -z "$DESTDIR" ]; then KEY="$KEPT_KEY"; fi
  if [ ! -f "$sums" ]; then
    [ -z "$KEY" ] || [ "$SKIP_SIGNATURE" = yes ] ||
      fail "the key $KEY is given, but there is no $sums to verify $name with" 4
    say "checksum  " "no SHA256SUMS beside $name: only its own checksum is compared"
    return 0
  fi
  check_sum
  if [ -n "$KEY" ]; then check_signature; else say "signature " "not verified: no --key was given"; fi
  LISTED="$wanted"
}

check_sum() {
  # Names are compared as text, not as a pattern.
  wanted="$(awk -v name="$name" 'substr($0, 67) == name { print $1 }' "$sums")"
  [ -n "$wanted" ] || fail "$sums does not list $name" 4
  hear sum_of_all
  [ "$wanted" = "$HEARD" ] || fail "$EXECUTABLE is not the file that $sums lists: its SHA-256 differs" 4
  say "checksum  " "$name is as SHA256SUMS lists it"
}

sum_of_all() {
  sha256sum <"$EXECUTABLE" | cut -d ' ' -f 1
}

sum_of_copy() {
  sha256sum <"$DESTDIR$BIN.new" | cut -d ' ' -f 1
}

# The new executable is not asked: a program that was changed would say that it was not.
check_signature() {
  if [ "$SKIP_SIGNATURE" = yes ]; then
    say "signature " "NOT verified, as --no-signature asks"
    return 0
  fi
  [ -f "$sums.sig" ] || fail "$sums has no signature SHA256SUMS.sig beside it" 4
  if openssl pkeyutl -help 2>&1 | grep -q -e '-rawin'; then
    openssl pkeyutl -verify -rawin -pubin -inkey "$KEY" -in "$sums" -sigfile "$sums.sig" >/dev/null 2>&1 || does_not_fit
    say "signature " "SHA256SUMS is signed with $KEY"
  elif [ -f "$sums.csr" ] && openssl pkey -pubin -in "$KEY" -noout >/dev/null 2>&1; then
    is_requested || does_not_fit
    say "signature " "SHA256SUMS is signed with $KEY, by SHA256SUMS.csr"
  else
    ask_installed
  fi
}

does_not_fit() {
  fail "the signature of $sums does not fit the key $KEY" 4
}

# OpenSSL 1.1.1 verifies no Ed25519 signature of a file, but that of a certificate request. It is signed with the release's key,
# and its name is the SHA-256 of SHA256SUMS. The exit status of that version does not tell, but what it prints does.
is_requested() {
  openssl req -in "$sums.csr" -verify -noout 2>&1 | grep -q 'verify OK$' || return 1
  signer="$(openssl req -in "$sums.csr" -noout -pubkey 2>/dev/null)"
  [ "$signer" = "$(openssl pkey -pubin -in "$KEY" -pubout 2>/dev/null)" ] || return 1
  named="$(openssl req -in "$sums.csr" -noout -subject 2>/dev/null | sed -n 's/^subject= *CN *= *\([0-9a-f]\{64\}\)$/\1/p')"
  [ -n "$named" ] && [ "$named" = "$(sha256sum <"$sums" | cut -d ' ' -f 1)" ]
}

# The executable that is installed judges its successor, where only root can have changed it.
ask_installed() {
  if [ -z "$DESTDIR" ] && is_roots "$BIN" && is_roots "$PREFIX/bin"; then
    status=0
    hear with_errors limited "$BIN" verify "$sums" --key "$KEY" || status=$?
    case "$status" in
      0)
        say "signature " "SHA256SUMS is signed with $KEY; the installed $BIN has verified it"
        return 0
        ;;
      1) does_not_fit ;;
    esac
  fi
  fail "nothing on this machine can verify the signature of $sums: install OpenSSL 3, or 1.1.1 where there is a SHA256SUMS.csr, or verify it on another machine (docs/release.md section 3) and then decide with --no-signature" 4
}

# Does it belong to root, and may nobody else write there?
is_roots() {
  [ -n "$(find "$1" -prune -user 0 ! -type l ! -perm -020 ! -perm -002 2>/dev/null)" ]
}

# ---- does it fit this machine

REFUSALS=0
refuse() {
  echo "install: refused: $1" >&2
  REFUSALS=$((REFUSALS + 1))
}

stop_if_refused() {
  [ "$REFUSALS" = 0 ] || fail "nothing was changed$([ "$PACKAGED" = no ] || echo " but the files of the package")" 3
}

look_at_system() {
  [ "$(uname -s)" = Linux ] || refuse "this system is $(uname -s); the program runs on Linux only"
  [ -r /proc/self/stat ] || refuse "/proc is not mounted, and the program needs it"
  # A file that is not ELF is a script in its place, as in tests.
  if is_elf; then
    look_at_architecture
    look_at_processor
    look_at_glibc
  fi
}

look_at_architecture() {
  case "$(od -An -tx1 -j18 -N2 "$EXECUTABLE" | tr -d ' \n')" in
    3e00) wanted=x86_64 ;;
    b700) wanted=aarch64 ;;
    *) wanted=unknown ;;
  esac
  machine="$(uname -m)"
  [ "$wanted" = "$machine" ] || refuse "$EXECUTABLE is for processors of the kind $wanted; this machine is $machine"
}

look_at_processor() {
  [ "$(uname -m)" = x86_64 ] && [ -r /proc/cpuinfo ] || return 0
  flags="$(sed -n '/^flags/{s/^[^:]*://;p;q;}' /proc/cpuinfo)"
  [ -n "$flags" ] || return 0
  for flag in sse4_2 popcnt; do
    case " $flags " in
      *" $flag "*) ;;
      *) refuse "this processor lacks $flag, which the program needs (any x86-64 processor since about 2009 has it; a virtual machine may hide it: choose the CPU model \"host\")" ;;
    esac
  done
}

# The list of parts in the executable names the newest glibc that a library in it needs.
look_at_glibc() {
  hear newest_glibc
  needed="$HEARD"
  [ -n "$needed" ] || return 0
  present="$(getconf GNU_LIBC_VERSION 2>/dev/null | sed -n 's/^glibc //p')"
  if [ -z "$present" ]; then
    refuse "this system has no glibc (Alpine and others have musl); the program needs glibc $needed or newer"
  elif [ "${present#2.}" != "$present" ]; then
    minor="${present#2.}"
    [ "${minor%%[!0-9]*}" -ge "${needed#2.}" ] ||
      refuse "this system has glibc $present; the program needs $needed or newer"
  fi
}

newest_glibc() {
  grep -aoE 'GLIBC_2\.[0-9]+' "$EXECUTABLE" | sort -u | sort -t . -k 2 -n | tail -n 1 | cut -d _ -f 2
}

# The reason why a program does not start, from its exit status and what it printed.
explain_start() {
  case "$1" in
    124) echo "it hangs" ;;
    126) if [ -x "$EXECUTABLE" ]; then echo "the file cannot be executed here (is its folder on a mount with noexec?)"; else echo "it is not executable: chmod +x $EXECUTABLE"; fi ;;
    127) if is_elf; then echo "its loader is missing: this system has no glibc for it"; else echo "it is not a program for Linux"; fi ;;
    134) echo "it ends with an abort" ;;
    132) echo "this processor lacks instructions that it needs" ;;
    *) echo "status $1: $(printf '%s' "$2" | head -n 1)" ;;
  esac
}

look_at_start() {
  [ "$REFUSALS" = 0 ] || return 0
  status=0
  hear with_errors run_new version || status=$?
  if [ "$status" != 0 ]; then
    refuse "$EXECUTABLE does not start: $(explain_start "$status" "$HEARD")"
    return 0
  fi
  VERSION="$HEARD"
  hear with_errors run_new doctor --self ||
    fail "$EXECUTABLE does not pass its own check, nothing was changed: $(printf '%s' "$HEARD" | head -n 3)" 4
}

look_at_config() {
  DATA="$STATE_DIR"
  BACKUPS=""
  SCHEDULE=""
  LISTEN="${ASKED_LISTEN:-127.0.0.1:8080}"
  if [ ! -e "$CONFIG" ]; then
    if [ -e "$DATA/shruti.db" ] && ! recorded initialising; then
      refuse "$DATA holds a database, but there is no $CONFIG: write one with data_dir = \"$DATA\" under [storage]"
    fi
    return 0
  fi
  if [ -n "$ASKED_LISTEN" ] && ! recorded initialising; then
    refuse "--listen is for a first installation; change server.listen in $CONFIG"
    return 0
  fi
  status=0
  hear with_errors run_new config check --config "$CONFIG" || status=$?
  if [ "$status" != 0 ]; then
    refuse "correct $CONFIG first: $(printf '%s' "$HEARD" | tail -n 1)"
    return 0
  fi
  checked="$HEARD"
  hear run_new config show --json --config "$CONFIG"
  shown="$HEARD"
  DATA="$(shown_value storage data_dir)"
  LISTEN="$(shown_value server listen)"
  BACKUPS="$(shown_value backup to)"
  SCHEDULE="$(shown_value backup schedule)"
  # What is missing below a folder that is there, this script makes.
  problem="$(printf '%s\n' "$checked" | sed -n 's/^warning: backup\.to: //p' | head -n 1)"
  if [ -n "$problem" ] && { [ -e "$BACKUPS" ] || [ ! -d "$(dirname "$BACKUPS")" ]; }; then
    refuse "backup.to of $CONFIG: $problem"
  fi
  # The unit's working directory is the one for relative paths.
  case "$DATA" in
    /*) ;;
    *) DATA="$STATE_DIR/${DATA#./}" ;;
  esac
}

# A setting of the config that `config show --json` has printed: section and name. Names occur in several sections.
shown_value() {
  printf '%s\n' "$shown" | sed -n "/^ *\"$1\": {/,/^ *}/s/^ *\"$2\": \"\(.*\)\",\{0,1\}\$/\1/p"
}

# The database: what version it has, and whether this program can use it.
look_at_database() {
  MIGRATES=no
  [ -e "$CONFIG" ] && [ -e "$DATA/shruti.db" ] && [ "$REFUSALS" = 0 ] || return 0
  status=0
  hear with_errors run_new migrate --check --json --config "$CONFIG" || status=$?
  if [ "$status" != 0 ]; then
    refuse "the database cannot be used by $EXECUTABLE: $(printf '%s' "$HEARD" | tail -n 1)"
    return 0
  fi
  case "$HEARD" in
    *'"state": "older"'*) MIGRATES=yes ;;
  esac
}

# Prints the nearest folder of a path that exists.
existing() {
  at="$1"
  while [ ! -d "$at" ]; do at="$(dirname "$at")"; done
  echo "$at"
}

look_at_mounts() {
  for folder in "$PREFIX/bin" "$DATA"; do
    found="$(existing "$folder")"
    if is_noexec "$found"; then
      refuse "$folder is on a mount with the option noexec, and the program runs files there"
    fi
    if ! is_writable "$found"; then refuse "$folder is on a file system that is read-only"; fi
  done
}

# Of the mounts that cover a path the longest counts, and of several on one point the last.
mount_options() {
  awk -v path="$(cd "$1" && pwd -P)" '
    { point = $5; gsub(/\\040/, " ", point) }
    point == "/" || path == point || index(path, point "/") == 1 {
      if (length(point) >= best) { best = length(point); options = $6 }
    }
    END { print options }' /proc/self/mountinfo
}

is_noexec() {
  case ",$(mount_options "$1")," in *,noexec,*) ;; *) return 1 ;; esac
}

is_writable() {
  case ",$(mount_options "$1")," in *,ro,*) return 1 ;; esac
}

free_kib() {
  df -Pk "$1" | awk 'NR == 2 { print $4 }'
}

device_of() {
  df -Pk "$1" | awk 'NR == 2 { print $1, $NF }'
}

look_at_disks() {
  program_at="$(existing "$PREFIX/bin")"
  data_at="$(existing "$DATA")"
  program=$(($(wc -c <"$EXECUTABLE") / 1024 + 1))
  if [ "$PACKAGED" = yes ]; then program=0; fi
  data=$DATA_KIB
  # An upgrade writes a copy of the database, and its log may become as large.
  if [ "$MIGRATES" = yes ]; then data=$((data + $(wc -c <"$DATA/shruti.db") * 2 / 1024)); fi
  if [ "$(device_of "$program_at")" = "$(device_of "$data_at")" ]; then
    need_space "$data_at" $((program + data)) "executable and data directory"
  else
    need_space "$program_at" "$program" "the executable"
    need_space "$data_at" "$data" "the data directory"
  fi
}

need_space() {
  free="$(free_kib "$1")"
  [ "$free" -ge "$2" ] || refuse "$1 has $((free / 1024)) MiB free; $(($2 / 1024 + 1)) MiB are needed for $3"
}

# The port of the config must be free, or ours.
look_at_port() {
  port="${LISTEN##*:}"
  case "$port" in
    '' | 0 | *[!0-9]*) return 0 ;;
  esac
  inodes="$(sockets_on "$(printf '%04X' "$port")" "$(hex_address "${LISTEN%:*}")")"
  for inode in $inodes; do
    hear process_with "$inode"
    holder="$HEARD"
    case "$(readlink "/proc/$holder/exe" 2>/dev/null || true)" in
      "$BIN" | "$PREVIOUS" | "$BIN "* | "$PREVIOUS "*) ;;
      *)
        port_is_taken "port $port of server.listen ($LISTEN) is in use${holder:+ by process $holder ($(cat "/proc/$holder/comm" 2>/dev/null))}"
        return 0
        ;;
    esac
  done
}

# A package is often installed before its config gets its final address: then only the start has to wait.
port_is_taken() {
  if [ "$PACKAGED" = no ]; then
    refuse "$1"
    return 0
  fi
  PORT_IS_TAKEN=yes
  tell "$1"
}

# Prints the inodes of listening sockets that are in the way of a port (hex) of an address (hex, or "any").
sockets_on() {
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v port="$1" -v address="$2" '
    $4 == "0A" && split($2, local, ":") == 2 && local[2] == port {
      if (address == "any" || local[1] == address || local[1] ~ /^0+$/) print $10
    }'
}

# The form of an IPv4 address in /proc/net/tcp; "any" for everything else.
hex_address() {
  case "$1" in
    0.0.0.0 | *[!0-9.]*) echo any ;;
    *.*.*.*) echo "$1" | awk -F . '{ printf "%02X%02X%02X%02X\n", $4, $3, $2, $1 }' ;;
    *) echo any ;;
  esac
}

# Prints the number of the process that holds a socket.
process_with() {
  holder_fd="$(find /proc/[0-9]*/fd -maxdepth 1 -lname "socket:\\[$1\\]" 2>/dev/null | head -n 1)"
  holder_fd="${holder_fd#/proc/}"
  echo "${holder_fd%%/*}"
}

look_at_service() {
  if [ "$USE_SYSTEMD" = yes ]; then
    if ! has_systemd; then refuse "systemd does not run here: use --no-systemd, and start 'shruti serve' yourself"; fi
    is_plain "$DATA" || refuse "a unit cannot name the data directory $DATA; use letters, digits and . _ - + @ /"
    [ -z "$BACKUPS" ] || is_plain "$BACKUPS" || refuse "a unit cannot name the folder $BACKUPS of backup.to; use letters, digits and . _ - + @ /"
    may_enter "$(dirname "$CONFIG")" || refuse "the user shruti cannot enter $(dirname "$CONFIG"), where its config is: chmod 755 $(dirname "$CONFIG")"
  elif [ -e "$CONFIG" ]; then
    hear run_new status --ready --json --config "$CONFIG" 2>/dev/null || true
    running="$(printf '%s\n' "$HEARD" | sed -n 's/^ *"pid": \([0-9]*\),*$/\1/p')"
    [ -z "$running" ] || refuse "a server runs (process $running), and without systemd nothing here can stop it: stop it first"
  fi
  if ! id shruti >/dev/null 2>&1 && ! command -v useradd >/dev/null 2>&1; then
    refuse "there is no user shruti, and no useradd to make one"
  fi
}

# May the service's user enter a folder? A folder or user that is missing, this script makes.
may_enter() {
  [ -d "$1" ] && id shruti >/dev/null 2>&1 && command -v setpriv >/dev/null 2>&1 || return 0
  setpriv --reuid=shruti --regid=shruti --init-groups test -x "$1"
}

# Prints the numbers of the servers that run an executable of this system, and not that of a container. Their other processes
# end with them.
processes_of() {
  for entry in /proc/[0-9]*; do
    [ "$(readlink "$entry/ns/mnt" 2>/dev/null || true)" = "$(readlink /proc/self/ns/mnt)" ] || continue
    case "$(readlink "$entry/exe" 2>/dev/null || true)" in
      "$1" | "$1 "* | "$1.previous" | "$1.previous "*)
        if tr '\000' ' ' <"$entry/cmdline" 2>/dev/null | grep -q ' serve '; then echo "${entry#/proc/}"; fi
        ;;
    esac
  done
}

has_systemd() {
  [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1
}

# All reasons are printed, not only the first.
look() {
  VERSION=""
  PORT_IS_TAKEN=no
  if [ "$PACKAGED" = no ] && [ -e "$PACKAGE_DIR/install.sh" ]; then
    refuse "the package shruti is installed here: upgrade or remove that with apt or dnf"
  fi
  look_at_system
  stop_if_refused
  look_at_start
  stop_if_refused
  look_at_config
  look_at_database
  look_at_mounts
  look_at_disks
  look_at_port
  look_at_service
  stop_if_refused
}

# ---- the parts of an installation

# The new executable gets beside the old one while that still runs. It takes its place later, at once.
bring_executable() {
  SAME=no
  if [ -e "$DESTDIR$BIN" ] && cmp -s "$EXECUTABLE" "$DESTDIR$BIN"; then
    SAME=yes
    return
  fi
  act mkdir -p "$DESTDIR$PREFIX/bin"
  if [ "$DRY_RUN" = no ]; then BRINGING=yes; fi
  act cp "$EXECUTABLE" "$DESTDIR$BIN.new"
  act chmod 0755 "$DESTDIR$BIN.new"
  if [ "$DRY_RUN" = no ]; then
    sync_file "$DESTDIR$BIN.new"
    cmp -s "$EXECUTABLE" "$DESTDIR$BIN.new" || fail "the copy $DESTDIR$BIN.new differs from $EXECUTABLE"
    # What was verified is what is installed, also where another user can write beside it.
    if [ -n "$LISTED" ]; then
      hear sum_of_copy
      [ "$HEARD" = "$LISTED" ] || fail "$EXECUTABLE was changed while it was installed" 4
    fi
  fi
  BRINGING=no
}

# A running server keeps its old file: the new one is renamed over the name.
put_executable() {
  if [ "$SAME" = yes ]; then
    say "executable" "$BIN (kept: the same)"
    return
  fi
  # After an interrupted upgrade, the executable in place is the one that never became ready.
  if [ -e "$DESTDIR$BIN" ] && ! recorded swapped; then act ln -f "$DESTDIR$BIN" "$DESTDIR$PREVIOUS"; fi
  record swapped
  act mv "$DESTDIR$BIN.new" "$DESTDIR$BIN"
  did "executable" "$BIN${VERSION:+ ($VERSION)}"
}

# Completions and manual page, which the executable in place prints itself. Without them everything works.
put_help() {
  put_text "$BASH_COMPLETION" completion bash
  put_text "$ZSH_COMPLETION" completion zsh
  put_text "$FISH_COMPLETION" completion fish
  put_text "$MANUAL" man
}

# Writes what a command of the executable prints into a file.
put_text() {
  file="$DESTDIR$1"
  shift
  if [ "$DRY_RUN" = yes ]; then
    echo "would write ${file#"$DESTDIR"}"
    return 0
  fi
  mkdir -p "$(dirname "$file")"
  if "$DESTDIR$BIN" "$@" >"$file.new" 2>/dev/null </dev/null && [ -s "$file.new" ]; then
    chmod 0644 "$file.new"
    mv "$file.new" "$file"
    say "help      " "${file#"$DESTDIR"}"
  else
    rm -f "$file.new"
    echo "install: 'shruti $*' printed nothing, so $file was not written" >&2
  fi
}

print_unit() {
  cat <<UNIT_END
# Replaced by every upgrade; changes belong into a drop-in: systemctl edit shruti
[Unit]
Description=Shruti speech transcription
Documentation=http://127.0.0.1:8080/docs
After=network-online.target
Wants=network-online.target

[Service]
Type=notify
ExecStart=$BIN serve --config $CONFIG
# A config with a mistake fails here, and the server keeps the old one.
ExecReload=$BIN config check --config $CONFIG
ExecReload=/bin/kill -HUP \$MAINPID
User=shruti
Group=shruti
WorkingDirectory=$STATE_DIR
Restart=always
RestartSec=2
# What does not get better by trying: wrong config, no data directory, a database of another version, missing rights,
# a machine that cannot run the engine (docs/decisions/commands.md, "Exit statuses").
RestartPreventExitStatus=2 4 6 7 8
# The server listens within seconds. It asks for more time itself when it upgrades a large database.
TimeoutStartSec=120
KillMode=mixed
# Longer than server.drain_seconds and the 5 s that requests have after it.
TimeoutStopSec=90
# A worker that the kernel ends for want of memory costs its chunk a second try and not everybody the service.
OOMPolicy=continue
# Models fill most of a machine of their own; the rest remains for the system and its administrators. The program
# measures what it may use, and plans its workers within it.
MemoryMax=90%
# Some hundred threads are usual; this stops what multiplies without end.
TasksMax=8192
LimitNOFILE=65536
LimitCORE=0
UMask=0077
StateDirectory=shruti
StateDirectoryMode=0700
UNIT_END
  print_data_access
  cat <<UNIT_END
# For server.listen on a port below 1024.
AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
NoNewPrivileges=true
ProtectSystem=strict
PrivateTmp=true
ProtectHostname=true
ProtectKernelLogs=true
ProtectKernelModules=true
ProtectKernelTunables=true
ProtectControlGroups=true
ProtectProc=invisible
RemoveIPC=true
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=true
RestrictRealtime=true
RestrictSUIDSGID=true
LockPersonality=true
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
# Not set, because they would take away what the program needs: MemoryDenyWriteExecute (its compiler writes code),
# PrivateDevices and ProtectClock (either closes the devices of a GPU).

[Install]
WantedBy=multi-user.target
UNIT_END
}

# The sandbox opens for a data directory and a folder of backups that are elsewhere.
print_data_access() {
  opened="" homes=""
  for folder in "${DATA:-$STATE_DIR}" "${BACKUPS:-$STATE_DIR}"; do
    case "$folder/" in
      "$STATE_DIR"/*) ;;
      /home/* | /root/* | /run/user/*) opened="$opened $folder" homes="$homes $folder" ;;
      *) opened="$opened $folder" ;;
    esac
  done
  [ -z "$opened" ] || printf '# storage.data_dir and backup.to of the config\n'
  if [ -z "$homes" ]; then printf 'ProtectHome=true\n'; else printf 'ProtectHome=tmpfs\n'; fi
  for folder in $homes; do printf 'BindPaths=-%s\n' "$folder"; done
  for folder in $opened; do printf 'ReadWritePaths=-%s\n' "$folder"; done
}

put_unit() {
  act mkdir -p "$DESTDIR$(dirname "$UNIT")"
  if [ "$DRY_RUN" = yes ]; then
    echo "would write $UNIT"
    return
  fi
  # Not over the unit of the version from before, when an interrupted upgrade has written this one already.
  if [ -z "$DESTDIR" ] && [ -e "$UNIT" ] && ! recorded unit; then cp -p "$UNIT" "$UNIT.previous"; fi
  record unit
  print_unit >"$DESTDIR$UNIT.new"
  chmod 0644 "$DESTDIR$UNIT.new"
  mv "$DESTDIR$UNIT.new" "$DESTDIR$UNIT"
  say "unit      " "$UNIT"
}

make_user() {
  if ! id shruti >/dev/null 2>&1; then
    shell=/usr/sbin/nologin
    [ -x "$shell" ] || shell=/sbin/nologin
    act useradd --system --user-group --home-dir "$STATE_DIR" --shell "$shell" shruti
    did "user      " shruti
  fi
  # What opens a GPU, where the system has such groups.
  for group in render video; do
    if getent group "$group" >/dev/null; then act usermod --append --groups "$group" shruti; fi
  done
}

# The first key is printed here and nowhere else.
initialise() {
  if [ -e "$CONFIG" ] && ! recorded initialising; then
    say "config    " "$CONFIG (kept)"
    complete
    return
  fi
  if [ ! -e "$CONFIG" ] && recorded initialising && [ -e "$STATE_DIR/shruti.db" ]; then
    # A run was killed between database and config. No server has used that database.
    mv "$STATE_DIR/shruti.db" "$STATE_DIR/shruti.db.interrupted"
    rm -f "$STATE_DIR/shruti.db-wal" "$STATE_DIR/shruti.db-shm"
  fi
  record initialising
  act install -d -m 0755 "$(dirname "$CONFIG")"
  act install -d -o shruti -g shruti -m 0700 "$STATE_DIR"
  if [ ! -e "$CONFIG" ]; then initialise_with --data "$STATE_DIR"; fi
  if [ -n "$ASKED_LISTEN" ]; then act sed -i "/^\[server\]/,/^\[/s/^#*listen = .*/listen = \"$ASKED_LISTEN\"/" "$CONFIG"; fi
  act chown root:shruti "$CONFIG"
  act chmod 0640 "$CONFIG"
}

# A config that was there first, as where a tool manages configs: what it lacks is made, and it stays as it is.
complete() {
  if [ -e "$DATA/shruti.db" ] && ! recorded completing; then return 0; fi
  record completing
  for folder in "$STATE_DIR" "$DATA"; do
    if [ ! -e "$folder" ]; then act install -d -o shruti -g shruti -m 0700 "$folder"; fi
  done
  initialise_with --unless-exists
  open_config
}

# The service's user reads the config by its group.
open_config() {
  if [ "$DRY_RUN" = yes ] || is_readable_for_service; then return 0; fi
  act chgrp shruti "$CONFIG"
  act chmod g+r "$CONFIG"
  say "config    " "$CONFIG can now be read by the group shruti"
}

# The program starts nothing itself where this script does. dpkg and rpm keep what their scripts print, so the first key
# is then in a file.
initialise_with() {
  if [ "$PACKAGED" = yes ]; then
    if [ -e "$FIRST_KEY" ] && ! [ -e "$DATA/shruti.db" ]; then act mv "$FIRST_KEY" "$FIRST_KEY.previous"; fi
    set -- "$@" --key-file "$FIRST_KEY"
  fi
  if [ "$USE_SYSTEMD" = yes ]; then set -- "$@" --service; fi
  # Without a terminal it asks nothing.
  act "$BIN" init "$@" --config "$CONFIG" </dev/null
}

is_readable_for_service() {
  [ -n "$(find "$CONFIG" -prune \( -perm -004 -o -user shruti -o -group shruti -perm -040 \) 2>/dev/null)" ]
}

# The sandbox opens only for a folder that is there when the service starts.
make_backup_folder() {
  if [ -z "$SCHEDULE" ] || [ -z "$BACKUPS" ] || [ -e "$BACKUPS" ]; then return 0; fi
  act install -d -o shruti -g shruti -m 0700 "$BACKUPS"
  did "backups   " "$BACKUPS: made, and given to the user shruti"
}

keep_key() {
  if [ -z "$KEY" ] || [ "$KEY" = "$KEPT_KEY" ]; then return 0; fi
  act install -m 0644 "$KEY" "$KEPT_KEY"
  did "key       " "$KEPT_KEY: later upgrades must be signed with it"
}

# ---- upgrade and way back

# Notes what has been done, durably, for a run after a kill.
record() {
  if [ "$DRY_RUN" = yes ] || [ -n "$DESTDIR" ]; then return 0; fi
  recorded "$1" && return 0
  echo "$1" >>"$STATE"
  sync_file "$STATE"
}

recorded() {
  [ -z "$DESTDIR" ] && grep -qx "$1" "$STATE" 2>/dev/null
}

# Waits for the last command in the background. A signal ends this wait at once; for a command in the foreground, the
# shell would first wait until that has ended.
wait_for_step() {
  step_status=0
  wait "$!" || step_status=$?
  return "$step_status"
}

# What a signal leaves behind must not hold the lock.
pause() {
  sleep "$1" 9>&- &
  wait_for_step
}

is_ready() {
  (
    exec >/dev/null 2>&1 9>&-
    limited "$1" status --ready --config "$CONFIG"
  ) &
  wait_for_step
}

is_active() {
  systemctl is-active --quiet shruti
}

# Waits until the service is ready, or cannot become ready any more.
wait_ready() {
  deadline=$(($(date +%s) + WAIT_SECONDS))
  while [ "$(date +%s)" -lt "$deadline" ]; do
    if is_ready "$1"; then
      # A server that ends right after its first answer is not one.
      pause 2
      if is_active && is_ready "$1"; then return 0; fi
    fi
    case "$(systemctl is-active shruti 2>/dev/null || true)" in
      failed | inactive) return 1 ;;
    esac
    pause 1
  done
  return 1
}

# Does the service run? With a package, the new executable may have been tried already, and have failed.
is_wanted() {
  if [ "$PACKAGED" = no ]; then
    is_active
    return
  fi
  case "$(systemctl is-active shruti 2>/dev/null || true)" in
    inactive | unknown) return 1 ;;
  esac
}

# The version from before runs while the new one is prepared; from here on it does not.
stop_service() {
  if [ ! -e "$UNIT" ]; then return 0; fi
  if is_wanted; then
    # What was not ready before need not be ready afterwards.
    if [ "$DRY_RUN" = no ] && is_ready "$EXECUTABLE"; then record was-ready; fi
    record was-running
  fi
  if [ "$DRY_RUN" = no ]; then CHANGING=yes; fi
  act systemctl stop shruti
}

migrate() {
  if [ "$MIGRATES" = no ]; then
    # A restart between the package's files and this run has upgraded the database already.
    if [ "$PACKAGED" = yes ] && [ -e "$DATA/shruti.db.upgraded" ]; then record migrates; fi
    return 0
  fi
  new="$BIN.new"
  [ "$SAME" = no ] || new="$BIN"
  if [ "$DRY_RUN" = yes ]; then
    act "$new" migrate --config "$CONFIG"
    return
  fi
  record migrates
  # No signal ends it, such as Ctrl-C, which all programs of a terminal get: between its last transaction and its note
  # of that, a kill would leave a database that cannot go back.
  (
    trap '' HUP INT TERM
    exec "$new" migrate --config "$CONFIG"
  ) &
  MIGRATION=$!
  status=0
  wait "$MIGRATION" || status=$?
  MIGRATION=""
  if [ "$status" = 0 ]; then return 0; fi
  tell "the database was not upgraded"
  go_back
}

# What the service has said since this run has started it, without the questions of this script itself.
show_journal() {
  journalctl --unit shruti --since "@$STARTED_AT" --lines 1000 --no-pager --output cat 2>/dev/null |
    grep -v -e '"path":"/readyz"' -e ' /readyz ' | tail -n 15 >&2 || true
}

# Back to executable, unit and database from before. Ends the script.
#
# The database goes back only where nothing has been written since its upgrade: until the new server has been ready
# once, it accepts no work and starts none (docs/decisions/installation.md), and `shruti migrate --undo` checks it.
go_back() {
  CHANGING=no
  # A second signal must not leave half of it undone. The programs below inherit this.
  trap '' HUP INT TERM PIPE
  tell "going back to the version from before"
  systemctl stop shruti || true
  if ! undo_migration; then
    systemctl reset-failed shruti 2>/dev/null || true
    systemctl start --no-block shruti || true
    fail "the upgraded database is in use and stays, and with it the new version: see 'journalctl -u shruti'. The database from before the upgrade is beside it (shruti.db.version-…)" 6
  fi
  if recorded swapped && [ ! -e "$PREVIOUS" ]; then
    fail "there is no version from before: the new one stays; see 'journalctl -u shruti'" 6
  fi
  if [ "$PACKAGED" = yes ]; then
    run_previous
  elif recorded swapped && ! cmp -s "$PREVIOUS" "$BIN"; then
    rm -f "$BIN.new"
    ln "$PREVIOUS" "$BIN.new"
    mv "$BIN.new" "$BIN"
  fi
  if recorded unit && [ -e "$UNIT.previous" ]; then
    cp -p "$UNIT.previous" "$UNIT.new"
    mv "$UNIT.new" "$UNIT"
  fi
  systemctl daemon-reload
  systemctl reset-failed shruti 2>/dev/null || true
  if recorded was-running; then start_previous; fi
  rm -f "$BIN.new" "$STATE"
  if [ "$PACKAGED" = yes ]; then tell "to try the new version again: $(configure_again)"; fi
  fail "the upgrade failed and was undone: the version from before $(if is_active; then echo "runs again"; else echo "is in place"; fi)" 5
}

# Puts the database from before back. The new executable does it: the old one may not know of upgrades.
undo_migration() {
  recorded migrates || return 0
  new="$BIN"
  [ ! -e "$BIN.new" ] || new="$BIN.new"
  status=0
  output="$("$new" migrate --undo --config "$CONFIG" 2>&1)" || status=$?
  # 4: there is no unconfirmed upgrade. Either it was never made, or it has been confirmed.
  if [ "$status" != 4 ]; then
    tell "$output"
    return "$status"
  fi
  ! recorded swapped || "$new" migrate --check --json --config "$CONFIG" 2>/dev/null | grep -q '"state": "older"'
}

start_previous() {
  systemctl start --no-block shruti || true
  # All is as it was. Only the look at it remains, and a signal ends it.
  trap at_signal_undone HUP INT TERM
  if recorded was-ready; then
    # It answered before, so the new executable's question works with it.
    wait_ready "$EXECUTABLE" || fail "the version from before is in place again, but does not get ready: see 'journalctl -u shruti'" 6
  fi
}

at_signal_undone() {
  rm -f "$BIN.new" "$STATE"
  fail "the upgrade failed and was undone: the version from before was started; see: systemctl status shruti" 5
}

start_service() {
  act systemctl daemon-reload
  [ "$PACKAGED" = yes ] || act systemctl enable --quiet shruti
  STARTED_AT="$(date +%s)"
  act systemctl restart --no-block shruti
  if [ "$DRY_RUN" = yes ]; then
    echo "would wait  until the service is ready, for $WAIT_SECONDS s at most; else go back to the version from before"
    return
  fi
  if wait_ready "$BIN"; then
    CHANGING=no
    say "service   " "ready; see: systemctl status shruti, shruti status"
    return
  fi
  hear with_errors limited "$BIN" status --ready --config "$CONFIG" || true
  echo "install: not ready within $WAIT_SECONDS s: ${HEARD#error: }" >&2
  if is_active && recorded was-running && ! recorded was-ready; then
    CHANGING=no
    say "service   " "runs and is not ready, as before the upgrade"
    return
  fi
  show_journal
  if [ "$FRESH" = yes ]; then
    CHANGING=no
    # For dpkg, the package of a service that needs another config is installed all the same.
    [ "$PACKAGED" = no ] || return 0
    fail "the service does not get ready; see: journalctl -u shruti" 6
  fi
  go_back
}

# What to do about a run that was killed: its record tells later steps what has been done.
resume() {
  if [ "$DRY_RUN" = yes ] || [ ! -e "$STATE" ]; then return 0; fi
  say "repair    " "an earlier run was interrupted; this one completes it"
}

# Undoes what an error or a signal has left half done while no server runs.
CHANGING=no
BRINGING=no
REFUSES_PACKAGE=no
MIGRATION=""
STARTED_AT=0
at_exit() {
  end_look
  if [ "$CHANGING" = no ]; then
    # Stopped before the first change: only the copy is there.
    if [ "$BRINGING" = yes ]; then rm -f "$DESTDIR$BIN.new"; fi
    # The files of the package are new already, and this machine refuses them: the server continues with the old ones.
    if [ "$REFUSES_PACKAGE" = yes ]; then
      run_previous
      tell "the service was left as it is. Correct what was refused, then: $(configure_again)"
    fi
    return 0
  fi
  CHANGING=no
  if [ "$FRESH" = yes ]; then return 0; fi
  trap '' HUP INT TERM PIPE
  if [ -n "$MIGRATION" ]; then
    tell "waiting for the end of the database's upgrade, to undo it"
    wait "$MIGRATION" || true
  fi
  go_back
}
trap at_exit EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

lock() {
  if [ "$DRY_RUN" = yes ] || ! command -v flock >/dev/null 2>&1; then return 0; fi
  mkdir -p "$(dirname "$LOCK")"
  exec 9>"$LOCK"
  flock -n 9 || fail "another run of install.sh is at work"
}

install_here() {
  lock
  resume
  FRESH=no
  if [ ! -e "$BIN" ] || [ ! -e "$CONFIG" ] || recorded fresh; then FRESH=yes; fi
  bring_executable
  record begun
  if [ "$FRESH" = yes ]; then record fresh; fi
  make_user
  if [ "$USE_SYSTEMD" = yes ]; then
    stop_service
    migrate
    put_executable
    put_unit
    initialise
    make_backup_folder
    start_service
  else
    put_executable
    initialise
    make_backup_folder
    say "service   " "none (--no-systemd); start it with: $BIN serve --config $CONFIG"
  fi
  put_help
  keep_key
  act rm -f "$STATE" "$BIN.new"
}

# ---- the service of a package: dpkg or rpm has put its files into place, over those of the version from before

configure() {
  lock
  resume
  # The files of the package are those of the new version already.
  SAME=yes
  FRESH=no
  if [ ! -e "$PREVIOUS" ] || recorded fresh; then FRESH=yes; fi
  record begun
  if [ "$FRESH" = yes ]; then record fresh; fi
  make_user
  if [ "$USE_SYSTEMD" = yes ]; then
    act systemctl daemon-reload
    stop_service
    migrate
  fi
  initialise
  # A package brings its config without owners of this machine.
  open_config
  make_backup_folder
  put_drop_ins
  start_packaged
  keep_executable
  act rm -f "$STATE"
}

# The unit of a package is the same everywhere; what this machine's config needs is beside it.
put_drop_ins() {
  drop_in remove before
  access="$(print_data_access | grep -v '^#')"
  if [ "$access" = ProtectHome=true ]; then
    drop_in remove data
  else
    print_data_access | drop_in write data "The folders of $CONFIG; every upgrade and 'install.sh --packaged' write this again."
  fi
}

# Writes a part of the unit from standard input, or removes it.
drop_in() {
  part="$DROP_INS/shruti-$2.conf"
  if [ "$1" = remove ]; then
    if [ -e "$part" ]; then act rm -f "$part"; fi
    return 0
  fi
  if [ "$DRY_RUN" = yes ]; then
    echo "would write $part"
    return 0
  fi
  mkdir -p "$DROP_INS"
  {
    echo "# $3"
    echo "[Service]"
    cat
  } >"$part.new"
  chmod 0644 "$part.new"
  mv "$part.new" "$part"
}

# The command that does once more what dpkg or rpm has started.
configure_again() {
  if dpkg-query --show shruti >/dev/null 2>&1; then
    echo "dpkg --configure shruti"
  else
    echo "sh $PACKAGE_DIR/install.sh --packaged"
  fi
}

# Starts the executable from before. The files of the package stay as dpkg or rpm knows them.
run_previous() {
  if [ ! -e "$PREVIOUS" ] || cmp -s "$PREVIOUS" "$BIN"; then return 0; fi
  drop_in write before "An upgrade failed, and the version from before runs. The next upgrade that succeeds removes this file." <<PART_END
ExecStart=
ExecStart=$PREVIOUS serve --config $CONFIG
ExecReload=
ExecReload=$PREVIOUS config check --config $CONFIG
ExecReload=/bin/kill -HUP \$MAINPID
PART_END
  if has_systemd; then act systemctl daemon-reload; fi
}

# A first installation does what the system's presets say, which is on with Debian and off with Red Hat's systems. Later the
# admin's choice counts.
start_packaged() {
  if [ "$FRESH" = yes ] && command -v systemctl >/dev/null 2>&1; then
    act systemctl preset --quiet shruti || true
  fi
  if [ "$USE_SYSTEMD" = no ]; then
    say "service   " "not started: systemd does not run here"
    return 0
  fi
  if ! recorded was-running && { [ "$FRESH" = no ] || ! systemctl is-enabled --quiet shruti; }; then
    act systemctl daemon-reload
    say "service   " "not started; start it with: systemctl enable --now shruti"
  elif [ "$PORT_IS_TAKEN" = yes ]; then
    act systemctl daemon-reload
    say "service   " "not started; change server.listen in $CONFIG, then: systemctl start shruti"
  elif [ "$FRESH" = yes ] && ! policy_allows_start; then
    act systemctl daemon-reload
    say "service   " "not started, as /usr/sbin/policy-rc.d asks; start it with: systemctl start shruti"
  else
    start_service
  fi
  CHANGING=no
}

# On Debian, an admin can forbid packages to start services, as in images that are being made.
policy_allows_start() {
  [ -x /usr/sbin/policy-rc.d ] || return 0
  status=0
  /usr/sbin/policy-rc.d shruti start >/dev/null 2>&1 || status=$?
  [ "$status" != 101 ]
}

# For the way back of the next upgrade. Where a link is not possible, it takes the space of a copy.
keep_executable() {
  if [ "$DRY_RUN" = yes ]; then return 0; fi
  rm -f "$PREVIOUS.new"
  # Between two names of one file, mv fails.
  if [ "$PREVIOUS" -ef "$BIN" ]; then return 0; fi
  mkdir -p "$(dirname "$PREVIOUS")"
  ln "$BIN" "$PREVIOUS.new" 2>/dev/null || cp "$BIN" "$PREVIOUS.new"
  mv -f "$PREVIOUS.new" "$PREVIOUS"
}

# Version 0.1.0 kept it one folder above. After a way back to it, that one is the later one.
move_kept_executable() {
  older="$PACKAGE_DIR/shruti.previous"
  if [ "$DRY_RUN" = yes ] || [ ! -e "$older" ]; then return 0; fi
  mkdir -p "$(dirname "$PREVIOUS")"
  # Between two names of one file, mv fails.
  if [ "$older" -ef "$PREVIOUS" ]; then rm -f "$older"; else mv -f "$older" "$PREVIOUS"; fi
}

# Before dpkg or rpm removes the files of the package.
unconfigure() {
  if has_systemd; then
    act systemctl disable --now --quiet shruti
  elif command -v systemctl >/dev/null 2>&1; then
    act systemctl disable --quiet shruti || true
  fi
  act rm -f "$PREVIOUS" "$PREVIOUS.new" "$STATE" "$LOCK"
  if [ -d "$(dirname "$PREVIOUS")" ]; then act rmdir "$(dirname "$PREVIOUS")" 2>/dev/null || true; fi
  for part in before data; do drop_in remove "$part"; done
  if [ -d "$DROP_INS" ]; then rmdir "$DROP_INS" 2>/dev/null || true; fi
}

stage() {
  DATA="$STATE_DIR"
  BACKUPS=""
  hear run_new version 2>/dev/null || true
  VERSION="$HEARD"
  bring_executable
  put_executable
  put_help
  [ "$USE_SYSTEMD" = no ] || put_unit
}

# ---- uninstall

uninstall() {
  if has_systemd && [ -e "$UNIT" ]; then act systemctl disable --now --quiet shruti; fi
  act rm -f "$UNIT" "$UNIT.previous" "$UNIT.new" "$BIN" "$BIN.previous" "$BIN.new" "$STATE" "$PREFIX/bin/.shruti.lock"
  for file in "$BASH_COMPLETION" "$ZSH_COMPLETION" "$FISH_COMPLETION" "$MANUAL"; do act rm -f "$file" "$file.new"; done
  if has_systemd; then act systemctl daemon-reload; fi
  did "removed   " "service, unit, executable, completions and manual page"
  for running in $(processes_of "$BIN"); do
    say "running   " "process $running still runs the executable that was removed; stop it: kill $running"
  done
  say "kept      " "$(dirname $CONFIG), $STATE_DIR and the user shruti; to remove these as well:"
  say "          " "rm -r $(dirname $CONFIG) $STATE_DIR; userdel shruti"
}

# rpm can run scripts of packages in namespaces of their own, without a network and with an empty /home. The server is not
# reached from there, and its data may be missing. What follows belongs to the system, so it runs in the namespaces of systemd.
# In a root directory that is not that of systemd (`rpm --root`), this script stays where it is.
enter_system() {
  has_systemd && [ "$PACKAGE_DIR/install.sh" -ef "/proc/1/root$PACKAGE_DIR/install.sh" ] || return 0
  apart=no
  for kind in mnt net; do
    [ "$(readlink "/proc/1/ns/$kind")" = "$(readlink "/proc/self/ns/$kind")" ] || apart=yes
  done
  if [ "$apart" = no ] || ! nsenter --target 1 --mount --net true 2>/dev/null; then return 0; fi
  exec nsenter --target 1 --mount --net sh "$PACKAGE_DIR/install.sh" "$@"
}

require_root() {
  if [ "$(id -u)" != 0 ]; then fail "root is needed$1"; fi
}

parse "$@"
if [ "$PACKAGED" = yes ]; then
  require_root ""
  enter_system "$@"
  move_kept_executable
  if [ "$ACTION" = uninstall ]; then
    unconfigure
    exit 0
  fi
  has_systemd || USE_SYSTEMD=no
  REFUSES_PACKAGE=yes
  look
  REFUSES_PACKAGE=no
  configure
  exit 0
fi
if [ "$ACTION" = uninstall ]; then
  [ -z "$EXECUTABLE" ] || fail "--uninstall takes no executable" 2
  require_root ""
  uninstall
  exit 0
fi
find_executable
check_seal
check_release
if [ -n "$DESTDIR" ]; then
  stage
  exit 0
fi
require_root " (or DESTDIR=… to stage the files)"
look
install_here
