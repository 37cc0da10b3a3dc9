#!/bin/sh
# Takes the place of systemctl where systemd does not run: it really starts and stops the executable of the unit, as its user.
# A step that is named in /run/shruti-kill kills the script that has called it, once, after the step.
set -u
unit=/etc/systemd/system/shruti.service
pid_file=/run/shruti-service.pid
log=/run/shruti-service.log
what="$1"
shift
value_of() { sed -n "s/^$1=//p" "$unit" | head -n 1; }
alive() { [ -s "$pid_file" ] && kill -0 "$(cat "$pid_file")" 2>/dev/null; }
start() {
  alive && return 0
  [ -e "$unit" ] || exit 5
  cd "$(value_of WorkingDirectory)" || exit 1
  # shellcheck disable=SC2046 # the words of ExecStart
  env -i PATH="$PATH" setsid setpriv --reuid "$(value_of User)" --regid "$(value_of Group)" --init-groups \
    $(value_of ExecStart) >>"$log" 2>&1 </dev/null 9>&- &
  echo $! >"$pid_file"
}
stop() {
  alive || return 0
  kill "$(cat "$pid_file")"
  for _ in $(seq 400); do
    alive || return 0
    sleep 0.05
  done
  kill -9 "$(cat "$pid_file")"
  # A start right afterwards must not take it for one that runs.
  for _ in $(seq 100); do
    alive || return 0
    sleep 0.05
  done
}
case "$what" in
  start) start ;;
  restart)
    stop
    start
    ;;
  stop) stop ;;
  is-active)
    if alive; then
      case "$*" in *--quiet*) ;; *) echo active ;; esac
      exit 0
    fi
    case "$*" in *--quiet*) ;; *) echo failed ;; esac
    exit 3
    ;;
  disable) stop ;;
  enable | daemon-reload | reset-failed) ;;
  *)
    echo "fake systemctl: $what" >&2
    exit 1
    ;;
esac
if [ "$(cat /run/shruti-kill 2>/dev/null)" = "$what" ]; then
  rm /run/shruti-kill
  kill -9 "$PPID"
fi
