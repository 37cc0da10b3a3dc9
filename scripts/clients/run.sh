#!/usr/bin/env bash
# Runs public clients, unmodified and with their usual defaults, against dist/shruti with the default model. Prints a line for
# each: "works" or "fails", and why. The exit status is 1 when a client fails or could not be run.
#
# Needs Python 3.10 or newer, Go and curl, and downloads the clients from PyPI and with Go modules; so CI does not run it.
# The clients of npm are in CI: src/http/openai/sdk.test.ts and programs.test.ts.
# Usage, after `bun run build`: scripts/clients/run.sh [FOLDER]. A FOLDER keeps the installed clients for the next run.
set -euo pipefail
cd "$(dirname "$0")/../.."
readonly PROGRAMS="$PWD/scripts/clients" EXECUTABLE="$PWD/dist/shruti"
# President Kennedy, 1961; public domain. 11 s long.
export RECORDING="$PWD/models/trial/jfk.wav"
readonly PYTHON_CLIENTS=(openai==3.57.0 SpeechRecognition==3.17.0 litellm==1.110.2 tuspy==1.1.0 standardwebhooks==1.1.0
  pysrt==1.1.2 webvtt-py==0.6.0)
readonly GO_CLIENTS=(github.com/sashabaranov/go-openai@v1.43.0 github.com/openai/openai-go/v3@v3.98.0
  github.com/standard-webhooks/standard-webhooks/libraries@v0.0.1)
readonly PARALLEL=12

for file in "$EXECUTABLE" "$RECORDING"; do
  [ -f "$file" ] || { echo "$file is missing; bun install and bun run build make it" >&2; exit 1; }
done
work="$(mktemp -d)"
export WORK="$work"
tools="$(realpath -m "${1:-$work/tools}")"
mkdir -p "$tools/go"
server=""
finish() {
  if [ -n "$server" ]; then
    kill "$server" || true
    wait "$server" || true
  fi
  rm -rf "$work"
}
trap finish EXIT
status=0

has() {
  command -v "$1" >/dev/null && return 0
  echo "fails  $2: not run, because $1 is missing"
  status=1
  return 1
}

# The clients are installed before the server starts, so that nothing else runs while requests are measured.
if has python3 "clients in Python"; then
  python3 -m venv "$tools/venv"
  "$tools/venv/bin/pip" --quiet --disable-pip-version-check install "${PYTHON_CLIENTS[@]}"
fi
if has go "clients in Go"; then
  cp "$PROGRAMS/clients.go" "$tools/go/main.go"
  (cd "$tools/go" && { [ -f go.mod ] || go mod init clients; } && go get "${GO_CLIENTS[@]}" && go build -o clients .) \
    >"$work/go.log" 2>&1 || { cat "$work/go.log"; exit 1; }
fi

shruti() { "$EXECUTABLE" --config "$work/shruti.toml" "$@"; }
member() { sed -n "s/^ *\"$1\": *\"\([^\"]*\)\".*/\1/p"; }
shruti init --data "$work/data" --json >"$work/init.json"
API_KEY="$(member key <"$work/init.json")"
export API_KEY
shruti credit grant --org "$(member organization_id <"$work/init.json")" --paise 1000000 >/dev/null
# The layer is the only thing that is switched on. The webhooks' settings let the receiver be on this machine.
SHRUTI_OPENAI_ENABLED=true SHRUTI_WEBHOOKS_ALLOW_HTTP=true SHRUTI_WEBHOOKS_ALLOWED_NETWORKS=127.0.0.0/8 \
  SHRUTI_SERVER_LISTEN=127.0.0.1:0 "$EXECUTABLE" --config "$work/shruti.toml" serve >"$work/server.log" 2>&1 &
server=$!
API_URL=""
for _ in $(seq 600); do
  API_URL="$(sed -n 's/.*"address":"\([^"]*\)".*"listening".*/\1/p' "$work/server.log")"
  if [ -n "$API_URL" ] && curl -sf "$API_URL/readyz" >/dev/null; then break; fi
  kill -0 "$server" || { cat "$work/server.log"; exit 1; }
  sleep 0.1
done
export API_URL
export OPENAI_BASE_URL="$API_URL/openai/v1" OPENAI_API_KEY="$API_KEY"

# Sends the recording as curl does. Prints the status.
transcribe() {
  curl -sS -o "$1.body" -D "$1.headers" -w '%{http_code}\n' "$OPENAI_BASE_URL/audio/transcriptions" \
    -H "Authorization: Bearer $API_KEY" -F "file=@$RECORDING" -F model=whisper-1
}

if [ "$(transcribe "$work/none")" = 400 ] && grep -q openai.default_language "$work/none.body"; then
  echo "works  curl: without any default language it gets 400, which names openai.default_language"
else
  echo "fails  curl: without any default language: $(cat "$work/none.body")"
  status=1
fi
# What the message tells the server's admin to do.
shruti projects set "$(member project_id <"$work/init.json")" --default-language en >/dev/null

# Obeys Retry-After as clients with retries do. Prints the seconds from the first try to the answer, and the number of tries.
until_answered() {
  local began code tries=1
  began="$(date +%s%N)"
  while code="$(transcribe "$work/parallel-$1")" && [ "$code" = 503 ] && [ "$tries" -lt 8 ]; do
    tries=$((tries + 1))
    sleep "$(tr -d '\r' <"$work/parallel-$1.headers" | sed -n 's/^retry-after: //Ip')"
  done
  echo "$((($(date +%s%N) - began) / 1000000)) $tries $code"
}
pids=()
for number in $(seq "$PARALLEL"); do
  until_answered "$number" >"$work/parallel-$number" &
  pids+=($!)
done
wait "${pids[@]}"
times="$(sort -n "$work"/parallel-?{,?} | awk '{
  printf "%s%.1f s%s", (NR > 1 ? ", " : ""), $1 / 1000, ($2 > 1 ? " (" $2 " tries)" : "")
}')"
if [ "$(cat "$work"/parallel-?{,?} | grep -c ' 200$')" = "$PARALLEL" ]; then
  echo "works  curl: $PARALLEL requests of 11 s at once, answered after $times"
else
  echo "fails  curl: $PARALLEL requests of 11 s at once: $(cat "$work"/parallel-?{,?} | awk '{ print $3 }' | sort | uniq -c | xargs)"
  status=1
fi

# LiteLLM would read its list of prices from the network.
if command -v python3 >/dev/null; then
  LITELLM_LOCAL_MODEL_COST_MAP=True "$tools/venv/bin/python" "$PROGRAMS/clients.py" || status=1
fi
if command -v go >/dev/null; then "$tools/go/clients" || status=1; fi
exit "$status"
