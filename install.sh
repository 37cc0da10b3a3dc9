#!/bin/sh
# Installs Shruti as a systemd service, or upgrades it: executable, user, config, data directory, unit.
# What exists is kept; only the executable (the previous one stays as shruti.previous) and the unit are replaced.
# Needs root; DESTDIR=… stages the files elsewhere, without user, key or service, as packagers do.
#
#   ./install.sh [EXECUTABLE]        default: dist/shruti beside this script, else ./shruti
#   ./install.sh --uninstall         takes service, unit and executable away; config, recordings and user stay
set -eu
# The modes of what is made here do not depend on the admin's shell.
umask 022

DESTDIR="${DESTDIR:-}"
BIN=/usr/local/bin/shruti
CONFIG=/etc/shruti/shruti.toml
DATA=/var/lib/shruti
UNIT=/etc/systemd/system/shruti.service

fail() {
  echo "install: $1" >&2
  exit "${2:-1}"
}

usage() {
  sed -n '2,7s/^# \{0,1\}//p' "$0"
}

find_executable() {
  if [ $# -gt 0 ]; then
    [ -f "$1" ] || fail "there is no file $1"
    echo "$1"
    return
  fi
  here="$(cd "$(dirname "$0")" && pwd)"
  for candidate in "$here/dist/shruti" "$here/shruti" ./shruti; do
    if [ -f "$candidate" ]; then
      echo "$candidate"
      return
    fi
  done
  fail "no executable found; build it with 'bun run build' or name it"
}

# Before anything is replaced: a new version may know of a mistake that the old one did not.
check_executable() {
  "$1" version >/dev/null || fail "$1 does not run on this machine"
  if [ -z "$DESTDIR" ] && [ -e "$CONFIG" ]; then
    "$1" config check --config "$CONFIG" >/dev/null || fail "nothing was changed: correct $CONFIG first"
  fi
}

# A running server keeps its old file: the new one is put beside it and renamed over the name.
put_executable() {
  if [ -e "$DESTDIR$BIN" ] && cmp -s "$1" "$DESTDIR$BIN"; then
    echo "executable  $BIN (kept: the same)"
    return
  fi
  mkdir -p "$DESTDIR$(dirname $BIN)"
  cp "$1" "$DESTDIR$BIN.new"
  chmod 0755 "$DESTDIR$BIN.new"
  if [ -e "$DESTDIR$BIN" ]; then ln -f "$DESTDIR$BIN" "$DESTDIR$BIN.previous"; fi
  mv "$DESTDIR$BIN.new" "$DESTDIR$BIN"
  echo "executable  $BIN ($("$1" version))"
}

put_unit() {
  mkdir -p "$DESTDIR$(dirname $UNIT)"
  cat >"$DESTDIR$UNIT" <<UNIT_END
# Replaced by every upgrade; changes belong into a drop-in: systemctl edit shruti
[Unit]
Description=Shruti speech transcription
Documentation=http://127.0.0.1:8080/docs
After=network-online.target
Wants=network-online.target

[Service]
ExecStart=$BIN serve --config $CONFIG
User=shruti
Group=shruti
WorkingDirectory=$DATA
Restart=always
RestartSec=2
# A config or data directory that cannot be used does not get better by trying.
RestartPreventExitStatus=2 4
KillMode=mixed
# Longer than server.drain_seconds and the 5 s that requests have after it.
TimeoutStopSec=90
# A worker that the kernel ends for want of memory costs its chunk a second try and not everybody the service.
OOMPolicy=continue
LimitNOFILE=65536
LimitCORE=0
UMask=0077
StateDirectory=shruti
StateDirectoryMode=0700
# For server.listen on a port below 1024.
AmbientCapabilities=CAP_NET_BIND_SERVICE
CapabilityBoundingSet=CAP_NET_BIND_SERVICE
NoNewPrivileges=true
ProtectSystem=strict
ProtectHome=true
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
  chmod 0644 "$DESTDIR$UNIT"
  echo "unit        $UNIT"
}

make_user() {
  if ! id shruti >/dev/null 2>&1; then
    useradd --system --user-group --home-dir "$DATA" --shell /usr/sbin/nologin shruti
    echo "user        shruti"
  fi
  # What opens a GPU, where the system has such groups.
  for group in render video; do
    if getent group "$group" >/dev/null; then usermod --append --groups "$group" shruti; fi
  done
}

# The first key is printed here and nowhere else.
initialise() {
  if [ -e "$CONFIG" ]; then
    echo "config      $CONFIG (kept)"
    return
  fi
  if [ -e "$DATA/shruti.db" ]; then
    fail "$DATA holds a database, but there is no $CONFIG: write one with data_dir = \"$DATA\" under [storage]"
  fi
  install -d -m 0755 "$(dirname $CONFIG)"
  install -d -o shruti -g shruti -m 0700 "$DATA"
  "$BIN" init --data "$DATA" --config "$CONFIG"
  chown root:shruti "$CONFIG"
  chmod 0640 "$CONFIG"
}

has_systemd() {
  [ -d /run/systemd/system ]
}

start_service() {
  if ! has_systemd; then
    echo "systemd is not running here; start it with: $BIN serve --config $CONFIG"
    return
  fi
  systemctl daemon-reload
  systemctl enable --quiet shruti
  systemctl restart shruti
  # A service that ends at once has only begun to be active.
  sleep 2
  if ! systemctl is-active --quiet shruti; then
    journalctl --unit shruti --lines 5 --no-pager --output cat >&2 || true
    fail "the service does not stay up; see: journalctl -u shruti"
  fi
  echo "service     started; see: systemctl status shruti, shruti status"
}

uninstall() {
  if has_systemd && [ -e "$UNIT" ]; then systemctl disable --now --quiet shruti; fi
  rm -f "$UNIT" "$BIN" "$BIN.previous"
  if has_systemd; then systemctl daemon-reload; fi
  echo "removed     service, unit and executable"
  echo "kept        $(dirname $CONFIG), $DATA and the user shruti; to remove these as well:"
  echo "            rm -r $(dirname $CONFIG) $DATA; userdel shruti"
}

require_root() {
  if [ "$(id -u)" != 0 ]; then fail "root is needed$1"; fi
}

case "${1:-}" in
  -h | --help)
    usage
    exit 0
    ;;
  --uninstall)
    [ $# = 1 ] || fail "--uninstall stands alone" 2
    require_root ""
    uninstall
    exit 0
    ;;
  -*) fail "there is no option $1; see $0 --help" 2 ;;
esac
[ $# -le 1 ] || fail "one executable at most; see $0 --help" 2

executable="$(find_executable "$@")"
if [ -z "$DESTDIR" ]; then require_root " (or DESTDIR=… to stage the files)"; fi
check_executable "$executable"
put_executable "$executable"
put_unit
if [ -n "$DESTDIR" ]; then exit 0; fi
make_user
initialise
start_service
