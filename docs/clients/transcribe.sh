#!/usr/bin/env bash
# Sends a recording by tus and saves SubRip subtitles, with curl and coreutils.
#
#   API_URL=https://speech.example API_KEY=shr_… ./transcribe.sh FILE LANGUAGE OUTPUT.srt
#
# A shell cannot receive a webhook. HOOK_ENDPOINT=whe_… names an endpoint that is to be notified as well; this script
# polls.
set -euo pipefail
file="$1" language="$2" output="$3"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# Prints the first value of a name in JSON.
field() { grep -o "\"$1\": *\"\?[^\",}]*" | head -n 1 | sed 's/^[^:]*: *"\?//'; }

# Calls the interface. curl waits as Retry-After says, and repeats after 429, 500 and 503.
api() {
  curl -sS --fail-with-body --retry 8 -X "$1" "$API_URL$2" -H "Authorization: Bearer $API_KEY" "${@:3}"
}

json=(-H "Content-Type: application/json")
size="$(stat -c %s "$file")"
api POST /v1/uploads "${json[@]}" -d "{\"bytes\": $size}" > "$work/upload"
upload="$(field id < "$work/upload")"
token="$(field authorization < "$work/upload")"
endpoint="$(field endpoint < "$work/upload")"
chunk="$(field chunk_size < "$work/upload")"

# tus 1.0: create, then send pieces. After a broken connection, HEAD says where the server's bytes end.
tus=(-sS --fail-with-body -H "Tus-Resumable: 1.0.0" -H "Authorization: $token")
offset_of() { tr -d '\r' | sed -n 's/^upload-offset: //Ip'; }
location="$(curl "${tus[@]}" --retry 8 -X POST "$endpoint" -D - -o "$work/created" -H "Upload-Length: $size" \
  -H "Upload-Metadata: upload_id $(printf %s "$upload" | base64 -w 0)" | tr -d '\r' | sed -n 's/^location: //Ip')"
offset=0 failures=0
while [ "$offset" -lt "$size" ]; do
  tail -c "+$((offset + 1))" "$file" | head -c "$chunk" > "$work/piece" || true
  if sent="$(curl "${tus[@]}" -X PATCH "$location" -D - -o "$work/sent" -H "Upload-Offset: $offset" \
    -H "Content-Type: application/offset+octet-stream" --data-binary "@$work/piece")"; then
    offset="$(offset_of <<< "$sent")" failures=0
  else
    failures=$((failures + 1))
    [ "$failures" -lt 8 ]
    sleep "$((2 ** failures))"
    offset="$(curl "${tus[@]}" --retry 8 -I "$location" | offset_of)"
  fi
done

api POST "/v1/uploads/$upload/complete" > "$work/state"
while [ "$(field state < "$work/state")" = verifying ]; do
  sleep 2
  api GET "/v1/uploads/$upload" > "$work/state"
done
[ "$(field state < "$work/state")" = complete ] || { cat "$work/state" >&2; exit 1; }

hook="${HOOK_ENDPOINT:+, \"webhook_endpoint_id\": \"$HOOK_ENDPOINT\"}"
api POST /v1/transcriptions "${json[@]}" -H "Idempotency-Key: $(cat /proc/sys/kernel/random/uuid)" \
  -d "{\"audio\": {\"upload_id\": \"$upload\"}, \"language\": \"$language\"$hook}" > "$work/transcription"
id="$(field id < "$work/transcription")"
until state="$(api GET "/v1/transcriptions/$id" | field state)" && [[ "$state" =~ ^(completed|partial|failed|cancelled)$ ]]; do
  sleep "${POLL_SECONDS:-10}"
done
api GET "/v1/transcriptions/$id/result?format=srt" -o "$output"
echo "$id is $state"
