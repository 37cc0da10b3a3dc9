"""Word error rates of a model on the recordings of testset.py.

    python3 evaluate.py TESTS MODEL.bin OUT.json --cli WHISPER_CLI [--codemix]
    python3 evaluate.py TESTS MODEL.bin OUT.json --shruti SHRUTI [--mode native|codemix|verbatim] [--manifest MODEL.toml]

The first form decodes with whisper.cpp's own program (one thread, greedy, no fallback), the second with Shruti itself in
a data directory of its own. Counts, intervals and all transcripts go to OUT.json. A table for a README is printed.
"""
import argparse
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import tempfile
import time
import unicodedata

import numpy as np

import lexicon as L

RESAMPLES = 1000
SAME_SECONDS = 3  # a segment with the words of an utterance within this time counts as that utterance


def word_errors(heard, said):
    """Returns the Levenshtein distance between two lists of words."""
    row = list(range(len(heard) + 1))
    for i, word in enumerate(said, 1):
        previous, row = row, [i] + [0] * len(heard)
        for j, other in enumerate(heard, 1):
            row[j] = min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + (word != other))
    return row[-1]


def interval(pairs):
    """Returns the 95 % bootstrap interval of the error rate in %. It draws whole recordings, with a fixed seed."""
    r = random.Random(5)
    rates = []
    for _ in range(RESAMPLES):
        drawn = r.choices(pairs, k=len(pairs))
        rates.append(100 * sum(e for e, _ in drawn) / max(1, sum(n for _, n in drawn)))
    return [round(float(x), 1) for x in np.percentile(rates, [2.5, 97.5])]


def as_mode(text, mode, lang):
    """Returns a reference in the wording of a mode: hesitations only in verbatim, English words in Latin only in codemix."""
    if mode == "codemix" and lang == "hi":
        text = L.codemixed(text)
    return text if mode == "verbatim" else without_fillers(text)


def without_fillers(text):
    """Returns a text without hesitations. whisper-cli writes them, and Shruti removes them in two modes."""
    fillers = {L.nfc(word) for words in L.FILLERS.values() for word in words}
    return " ".join(word for word in text.split() if word not in fillers)


def plain(text):
    """Returns the form in which texts are compared: NFC, without punctuation."""
    return re.sub(r"[.,?!।]", "", unicodedata.normalize("NFC", text)).strip()


def run_cli(options, meta):
    """Transcribes files with whisper-cli. Returns file → [(start, text)]."""
    out = {}
    command = [options.cli, "-m", options.model, "-t", "1", "-bs", "1", "-bo", "1", "-nf", "-oj", "-np"]
    command += ["-nt"] if options.untimed else []
    for lang in sorted({m["lang"] for m in meta}):
        files = [m["file"] for m in meta if m["lang"] == lang]
        prompt = ["--prompt", L.CODEMIX_PROMPT] if options.codemix and lang == "hi" else []
        with tempfile.TemporaryDirectory() as folder:
            targets = [x for f in files for x in ("-of", os.path.join(folder, f))]
            paths = [os.path.join(options.tests, f) for f in files]
            subprocess.run([*command, "-l", lang, *prompt, *targets, *paths], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for name in files:
                with open(os.path.join(folder, name + ".json"), encoding="utf-8", errors="replace") as f:
                    segments = json.load(f)["transcription"]
                out[name] = [(s["offsets"]["from"] / 1000, plain(s["text"])) for s in segments]
    return out


def run_shruti(options, meta):
    """Transcribes files with `shruti transcribe`. Returns file → [(start, text)]."""
    out = {}
    with tempfile.TemporaryDirectory() as folder:
        models = os.path.join(folder, "models")
        env = dict(os.environ, SHRUTI_STORAGE_DATA_DIR=folder, SHRUTI_MODELS_DIR=models)
        install(options.model, options.manifest, models)
        for lang in sorted({m["lang"] for m in meta}):
            mode = "native" if lang == "en" and options.mode == "codemix" else options.mode
            files = [m["file"] for m in meta if m["lang"] == lang]
            subprocess.run([options.shruti, "transcribe", "--language", lang, "--mode", mode, "--model", "evaluated",
                            "--format", "json", "--output", folder, *(os.path.join(options.tests, f) for f in files)],
                           check=True, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for name in files:
                with open(os.path.join(folder, os.path.splitext(name)[0] + ".json"), encoding="utf-8") as f:
                    segments = json.load(f)["segments"]
                out[name] = [(s["start"], plain(s["text"])) for s in segments]
    return out


MANIFEST = """
id = "evaluated"
name = "Evaluated"
version = "1"
sha256 = "%s"
licence = "none"
source = "none"
[[languages]]
code = "en"
modes = ["native", "verbatim"]
[[languages]]
code = "hi"
modes = ["native", "codemix", "verbatim"]
"""


def install(model, manifest, folder):
    """Installs a model for Shruti, with the [decoding] part of a manifest."""
    os.makedirs(folder)
    shutil.copyfile(model, os.path.join(folder, "evaluated.bin"))
    with open(model, "rb") as f:
        sha256 = hashlib.sha256(f.read()).hexdigest()
    with open(manifest, encoding="utf-8") as f:
        decoding = re.search(r"^\[decoding\].*?(?=^\[|\Z)", f.read(), re.M | re.S).group(0)
    with open(os.path.join(folder, "evaluated.toml"), "w", encoding="utf-8") as f:
        f.write(MANIFEST % sha256 + decoding)


def late_by(segments, said, mode, lang):
    """Returns the error of the start in seconds, for each utterance whose words were recognized as one segment."""
    for start, _, text, _ in said:
        same = [abs(s - start) for s, heard in segments if heard == as_mode(text, mode, lang)]
        if same and min(same) < SAME_SECONDS:
            yield min(same)


def score(meta, heard, mode):
    """Returns the results by set, and all transcripts."""
    results, transcripts, offs = {}, [], []
    for m in meta:
        segments = heard[m["file"]]
        words = [w for _, text in segments for w in text.split()]
        known = [w for w in words if w != L.UNKNOWN]
        said = " ".join(as_mode(text, mode, m["lang"]) for _, _, text, _ in m["said"]).split()
        row = results.setdefault(m["set"], dict(pairs=[], exact=0, known=0, unknown=0, silent=0))
        errors = word_errors(known, said)
        row["pairs"].append((errors, len(said)))
        row["exact"] += errors == 0
        row["known"] += len(known)
        row["unknown"] += len(words) - len(known)
        row["silent"] += not known
        if m["set"].startswith("long"):
            offs += late_by(segments, m["said"], mode, m["lang"])
        transcripts.append(dict(file=m["file"], set=m["set"], said=" ".join(said), heard=" | ".join(t for _, t in segments)))
    for row in results.values():
        pairs = row.pop("pairs")
        row.update(recordings=len(pairs), errors=sum(e for e, _ in pairs), words=sum(n for _, n in pairs))
        if row["words"]:
            row.update(wer=round(100 * row["errors"] / row["words"], 1), interval=interval(pairs))
    starts = dict(found=len(offs), utterances=sum(len(m["said"]) for m in meta if m["set"].startswith("long")))
    if offs:
        starts.update(median=round(float(np.median(offs)), 3), p90=round(float(np.percentile(offs, 90)), 3))
    return results, starts, transcripts


def table(results, starts):
    """Formats results as Markdown."""
    lines = ["| set | recordings | words | errors | WER, 95 % interval |", "|---|---|---|---|---|"]
    for name, row in results.items():
        if row["words"]:
            low, high = row["interval"]
            lines.append(f"| {name} | {row['recordings']} | {row['words']} | {row['errors']} | "
                         f"{row['wer']} % ({low}–{high}) |")
    lines += ["", "| no words expected | recordings | with no word shown | words shown | `…` |", "|---|---|---|---|---|"]
    for name, row in results.items():
        if not row["words"]:
            lines.append(f"| {name} | {row['recordings']} | {row['silent']} | {row['known']} | {row['unknown']} |")
    found = f"{starts['found']} of {starts['utterances']} utterances of long recordings came out exact"
    return "\n".join([*lines, "", found + (f"; starts off by {starts['median']} s (median), {starts['p90']} s (90 %)"
                                           if starts["found"] else "")])


def main():
    """Decodes, scores, writes and prints."""
    parser = argparse.ArgumentParser()
    for name in ("tests", "model", "out"):
        parser.add_argument(name)
    parser.add_argument("--cli")
    parser.add_argument("--codemix", action="store_true")
    parser.add_argument("--untimed", action="store_true",
                        help="whisper-cli ignores timestamps: those of an untrained model would make it very slow")
    parser.add_argument("--shruti")
    parser.add_argument("--mode", default="native", choices=["native", "codemix", "verbatim"])
    parser.add_argument("--manifest", default=os.path.join(os.path.dirname(__file__), "decoding.toml"))
    parser.add_argument("--only", help="sets whose name starts with this")
    options = parser.parse_args()
    with open(os.path.join(options.tests, "meta.json")) as f:
        meta = [m for m in json.load(f) if m["set"].startswith(options.only or "")]
    begun = time.time()
    if options.cli:
        mode = "codemix" if options.codemix else "native"
        heard = {name: [(at, without_fillers(text)) for at, text in segments]
                 for name, segments in run_cli(options, meta).items()}
    else:
        mode, heard = options.mode, run_shruti(options, meta)
    results, starts, transcripts = score(meta, heard, mode)
    report = dict(model=os.path.basename(options.model), mode=mode, seconds=round(time.time() - begun, 1),
                  audio_seconds=round(sum(m["seconds"] for m in meta), 1), sets=results, starts=starts)
    with open(options.out, "w") as f:
        json.dump(dict(report, transcripts=transcripts), f, ensure_ascii=False, indent=1)
    print(table(results, starts))
    print(f"\n{report['audio_seconds']:.0f} s of audio in {report['seconds']:.0f} s")


if __name__ == "__main__":
    main()
