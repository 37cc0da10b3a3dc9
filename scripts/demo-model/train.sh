#!/usr/bin/env bash
# Makes a demonstration model in whisper.cpp's format, and measures its word error rates.
#
#   scripts/demo-model/train.sh            synthesis (minutes), training (hours on one core), export, evaluation
#   scripts/demo-model/train.sh --smoke    every step once, in a minute; the model is not usable
#   scripts/demo-model/train.sh --check    only reports which Debian packages are missing (status 3)
#
# All files are in $DEMO_MODEL_DIR (default ~/.cache/shruti/demo-model). Run it again after an interruption: finished
# speech is kept, and training continues at the last checkpoint. UNTIL=STEP stops training early and continues with the
# export; THREADS, LOADERS, DEVICE=cuda and BATCH (which changes the training) make it faster.
set -euo pipefail
cd "$(dirname "$0")"
PYTHON="${PYTHON:-/usr/bin/python3}"
DIR="${DEMO_MODEL_DIR:-$HOME/.cache/shruti/demo-model}"
SYNTH_SCALE=1 TRAIN_SCALE=1 TEST_SCALE=1 UNTIMED=
if [ "${1:-}" = --smoke ]; then
  DIR="${DEMO_MODEL_DIR:-$HOME/.cache/shruti/demo-model-smoke}"
  SYNTH_SCALE=0.003 TRAIN_SCALE=0.0005 TEST_SCALE=0.01 UNTIMED=--untimed
fi
export DATA="$DIR/data" PYTHONDONTWRITEBYTECODE=1
export OMP_NUM_THREADS="${THREADS:-1}" OPENBLAS_NUM_THREADS=1 GOMP_SPINCOUNT=3000

# Debian package, and a file that shows that it is installed
PACKAGES="
python3-torch /usr/lib/python3/dist-packages/torch
python3-numpy /usr/lib/python3/dist-packages/numpy
python3-scipy /usr/lib/python3/dist-packages/scipy
espeak-ng /usr/bin/espeak-ng
flite /usr/bin/flite
festival /usr/bin/festival
festival-hi /usr/share/festival/hindi_scm
festival-mr /usr/share/festival/marathi_scm
festlex-cmu /usr/share/festival/dicts/cmu/cmudict-0.4.out
festvox-hi-nsk /usr/share/festival/voices/hindi/hindi_NSK_diphone
festvox-mr-nsk /usr/share/festival/voices/marathi/marathi_NSK_diphone
festvox-kallpc16k /usr/share/festival/voices/english/kal_diphone
festvox-kdlpc16k /usr/share/festival/voices/english/ked_diphone
festvox-us-slt-hts /usr/share/festival/voices/us/cmu_us_slt_arctic_hts
"
missing=$(echo "$PACKAGES" | while read -r package file; do [ -z "$package" ] || [ -e "$file" ] || echo -n "$package "; done)
if [ -n "$missing" ]; then
  echo "These Debian packages are missing: apt-get install --no-install-recommends $missing" >&2
  exit 3
fi
[ "${1:-}" != --check ] || exit 0

if [ -z "${PEERS:-}" ]; then
  PEERS=$(bun -e 'console.log(await (await import("../native/whisper.ts")).buildWhisperPeers())')
fi
mkdir -p "$DIR"
[ -e "$DATA/phones.json" ] || "$PYTHON" synth.py "$SYNTH_SCALE"
# FOREIGN: recordings of other speech (16 kHz mono WAV), one path on each line
mapfile -t foreign < <(printf '%s' "${FOREIGN:-}")
[ -e "$DIR/tests/meta.json" ] || "$PYTHON" testset.py "$DIR/tests" "$TEST_SCALE" "${foreign[@]}"
"$PYTHON" train.py "$DIR/run" --scale "$TRAIN_SCALE" --threads "${THREADS:-1}" --loaders "${LOADERS:-0}" \
  --device "${DEVICE:-cpu}" --batch "${BATCH:-1}" ${UNTIL:+--until "$UNTIL"}
"$PYTHON" export.py "$DIR/run/checkpoint.pt" "$DIR/demo-f16.bin"
"$PEERS/whisper-quantize" "$DIR/demo-f16.bin" "$DIR/demo-q5_1.bin" q5_1 >/dev/null 2>&1
sha256sum "$DIR/demo-q5_1.bin"
"$PYTHON" evaluate.py "$DIR/tests" "$DIR/demo-q5_1.bin" "$DIR/results-cli.json" \
  --cli "$PEERS/whisper-cli" $UNTIMED
"$PYTHON" evaluate.py "$DIR/tests" "$DIR/demo-q5_1.bin" "$DIR/results-cli-codemix.json" \
  --cli "$PEERS/whisper-cli" --codemix --only "single hi" $UNTIMED

shruti=../../dist/shruti
if [ "${1:-}" != --smoke ] && [ -x "$shruti" ]; then
  for mode in native codemix verbatim; do
    echo "== Shruti, $mode"
    "$PYTHON" evaluate.py "$DIR/tests" "$DIR/demo-q5_1.bin" "$DIR/results-$mode.json" \
      --shruti "$shruti" --mode "$mode" --manifest decoding.toml
  done
fi
