#!/bin/sh
# Installs Shruti as a systemd service, or upgrades it: executable, user, config, data directory, unit.
# What exists is kept; only the executable and the unit are replaced. Needs root; DESTDIR=… stages the files
# elsewhere, without user, key or service, as packagers do.
#
#   ./install.sh [EXECUTABLE]        default: dist/shruti beside this script, else ./shruti
set -eu

DESTDIR="${DESTDIR:-}"
BIN=/usr/local/bin/shruti
CONFIG=/etc/shruti/shruti.toml
DATA=/var/lib/shruti
UNIT=/etc/systemd/system/shruti.service

fail() {
  echo "install: $1" >&2
  exit 1
}

find_executable() {
  here="$(cd "$(dirname "$0")" && pwd)"
  for candidate in "$@" "$here/dist/shruti" "$here/shruti" ./shruti; do
    if [ -f "$candidate" ]; then
      echo "$candidate"
      return
    fi
  done
  fail "no executable found; build it with 'bun run build' or name it"
}

# A running server keeps its old file: the new one is put beside it and renamed over the name.
put_executable() {
  "$1" version >/dev/null || fail "$1 does not run on this machine"
  mkdir -p "$DESTDIR$(dirname $BIN)"
  cp "$1" "$DESTDIR$BIN.new"
  chmod 0755 "$DESTDIR$BIN.new"
  mv "$DESTDIR$BIN.new" "$DESTDIR$BIN"
  echo "executable  $BIN ($("$1" version))"
}

put_unit() {
  mkdir -p "$DESTDIR$(dirname $UNIT)"
  cat >"$DESTDIR$UNIT" <<UNIT_END
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
KillMode=mixed
TimeoutStopSec=90
LimitNOFILE=65536
NoNewPrivileges=true
ProtectSystem=strict
ProtectHome=true
PrivateTmp=true
ReadWritePaths=$DATA

[Install]
WantedBy=multi-user.target
UNIT_END
  echo "unit        $UNIT"
}

make_user() {
  if id shruti >/dev/null 2>&1; then return; fi
  useradd --system --home-dir "$DATA" --shell /usr/sbin/nologin shruti
  echo "user        shruti"
}

# The first key is printed here and nowhere else.
initialise() {
  if [ -e "$CONFIG" ]; then
    echo "config      $CONFIG (kept)"
    return
  fi
  mkdir -p "$(dirname $CONFIG)" "$DATA"
  "$BIN" init --data "$DATA" --config "$CONFIG"
  chown -R shruti:shruti "$DATA"
  chown root:shruti "$(dirname $CONFIG)" "$CONFIG"
  chmod 0640 "$CONFIG"
}

start_service() {
  if [ ! -d /run/systemd/system ]; then
    echo "systemd is not running here; start it with: $BIN serve --config $CONFIG"
    return
  fi
  systemctl daemon-reload
  systemctl enable --quiet shruti
  systemctl restart shruti
  echo "service     started; see: systemctl status shruti, shruti status"
}

executable="$(find_executable "$@")"
if [ -z "$DESTDIR" ] && [ "$(id -u)" != 0 ]; then fail "root is needed (or DESTDIR=… to stage the files)"; fi
put_executable "$executable"
put_unit
if [ -n "$DESTDIR" ]; then exit 0; fi
make_user
initialise
start_service
