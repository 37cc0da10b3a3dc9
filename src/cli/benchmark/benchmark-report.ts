import { createHash } from "node:crypto";
import { dirname, relative, resolve, sep } from "node:path";
import type { Interval } from "../../pipeline/bootstrap.ts";
import type { ComparedWord } from "../../pipeline/word-differences.ts";
import { startFigures } from "../../pipeline/word-starts.ts";
import type { BenchmarkOptions } from "./benchmark-options.ts";
import { intervalOf, type ModelScore, percentText, type Scored, totalOf } from "./benchmark-scores.ts";

const STYLE = `
:root { color-scheme: light dark; --line: #8885; --wrong: #c62828; --missing: #b26a00; --extra: #1565c0; --bar: #3f6fb5; }
body { font: 16px/1.5 system-ui, "Noto Sans", "Noto Sans Devanagari", sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; } th, td { border-bottom: 1px solid var(--line); padding: .35rem .6rem; text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.sub { color: var(--wrong); } .del { color: var(--missing); text-decoration: line-through; } .ins { color: var(--extra); text-decoration: underline; }
.sub small { opacity: .75; } .side { display: grid; grid-template-columns: 1fr 1fr; gap: 1.5rem; } details { border-bottom: 1px solid var(--line); padding: .4rem 0; }
summary { cursor: pointer; } svg text { font: 13px system-ui, sans-serif; fill: currentColor; } h3 { margin: .2rem 0; font-size: 1rem; }
.words button { all: unset; cursor: pointer; border-radius: 3px; padding: 0 .1em; } .words button:hover, .words button:focus-visible, .words .now { background: #f5c84288; }
audio { width: 100%; margin: .5rem 0; }
@media (max-width: 45rem) { .side { grid-template-columns: 1fr; } }`;

/** Plays a recording from the word that is clicked, and marks the word that is spoken. */
const SCRIPT = `
const marked = new WeakMap();
document.addEventListener("click", ({ target }) => {
  const word = target.closest("[data-at]");
  if (!word) return;
  const audio = word.closest("details").querySelector("audio");
  audio.currentTime = Number(word.dataset.at);
  audio.play();
});
document.addEventListener("timeupdate", ({ target: audio }) => {
  const words = [...audio.closest("details").querySelectorAll("[data-at]")];
  const now = words.filter((word) => audio.currentTime >= word.dataset.at && audio.currentTime < word.dataset.to);
  for (const word of marked.get(audio) ?? []) word.classList.remove("now");
  for (const word of now) word.classList.add("now");
  marked.set(audio, now);
}, true);
`;

/** What the page says of the recordings. */
type About = {
  /** Name of the recordings. */
  name: string;
  /** When they were transcribed. */
  date: Date;
  /** The file of the page, from which recordings are found. */
  path: string;
};

/**
 * Renders a comparison as one HTML page: the table, a chart of word error rates with their intervals, and each transcript
 * beside its reference with the differences in colour. Where words have times, a click on a word plays the recording, which
 * stays where it is; the page needs no other file.
 */
export function renderReport(
  { name, date, path }: About,
  { language, mode, channelMode }: BenchmarkOptions,
  scores: readonly ModelScore[],
): string {
  const isPlayed = scores.some(({ scored }) => scored.some(({ heard = [] }) => heard.length > 0));
  const policy = `default-src 'none'; style-src 'unsafe-inline'${isPlayed ? `; media-src 'self' file:; script-src ${hashOf(SCRIPT)}` : ""}`;
  const title = `Benchmark: ${name}`;
  const facts = `Language ${language}, mode ${mode}, channels ${channelMode}, ${date.toISOString().slice(0, 10)}.`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${escapeHtml(title)}</h1>
<p>${escapeHtml(facts)} Compared without case and punctuation. Intervals: 95 %, by drawing whole recordings again and again.</p>
${table(scores)}
${chart(scores)}
<p>In the transcripts: <span class="sub">another word <small>(said)</small></span>, <span class="del">not heard</span>, <span class="ins">not said</span>.</p>
${fileNames(scores)
  .map((file) => section(file, scores, dirname(resolve(path))))
  .join("\n")}
${isPlayed ? `<script>${SCRIPT}</script>\n` : ""}</body>
</html>
`;
}

function table(scores: readonly ModelScore[]): string {
  const rows = scores.map(({ model, version, scored, failed, memoryBytes, device }) => {
    const { words, characters, audioSeconds, elapsedSeconds } = totalOf(scored);
    const cells = [
      `<td>${escapeHtml(model)} <small>${escapeHtml(version)}</small></td>`,
      number(`${scored.length}${failed.length > 0 ? ` (${failed.length} failed)` : ""}`),
      number(String(words.total)),
      number(percentText(words, intervalOf(scored, "words"))),
      number(percentText(characters, intervalOf(scored, "characters"))),
      number((audioSeconds / Math.max(elapsedSeconds, 1e-9)).toFixed(1)),
      number(memoryBytes === 0 ? "–" : String(Math.round(memoryBytes / 1e6))),
      `<td>${escapeHtml(device)}</td>`,
    ];
    return `<tr>${cells.join("")}</tr>`;
  });
  const heads = ["Files", "Words", "WER %", "CER %", "× real time", "Memory MB"];
  return `<table><thead><tr><th>Model</th>${heads.map((head) => `<th class="n">${head}</th>`).join("")}<th>Device</th></tr></thead><tbody>${rows.join("")}</tbody></table>`;
}

const number = (text: string): string => `<td class="n">${escapeHtml(text)}</td>`;

const ROW = 34;
const LEFT = 180;
const WIDTH = 560;

/** Draws a bar for each model's word error rate, and a line for its interval. */
function chart(scores: readonly ModelScore[]): string {
  const bars = scores.map(({ model, scored }) => {
    const { words } = totalOf(scored);
    return { model, rate: words.rate ?? 0, interval: intervalOf(scored, "words") };
  });
  const top = Math.max(0.01, ...bars.map(({ rate, interval }) => Math.max(rate, interval?.high ?? 0)));
  const x = (share: number) => (LEFT + (WIDTH * share) / top).toFixed(1);
  const drawn = bars.map(({ model, rate, interval }, index) => {
    const y = index * ROW + 8;
    const bar = `<rect x="${LEFT}" y="${y}" width="${((WIDTH * rate) / top).toFixed(1)}" height="18" fill="var(--bar)"/>`;
    const label = `<text x="0" y="${y + 14}">${escapeHtml(model.slice(0, 24))}</text>`;
    const value = `<text x="${LEFT + WIDTH + 12}" y="${y + 14}">${(100 * rate).toFixed(1)} %</text>`;
    return label + bar + whisker(interval, y + 9, x) + value;
  });
  const height = bars.length * ROW + 8;
  return `<svg viewBox="0 0 ${LEFT + WIDTH + 80} ${height}" width="100%" role="img" aria-label="Word error rates with 95 % intervals">${drawn.join("")}</svg>`;
}

function whisker(interval: Interval | undefined, y: number, x: (share: number) => string): string {
  if (!interval) return "";
  const [low, high] = [x(interval.low), x(interval.high)];
  const ends = [low, high].map((end) => `M${end} ${y - 5}V${y + 5}`).join("");
  return `<path d="M${low} ${y}H${high}${ends}" stroke="currentColor" stroke-width="2" fill="none"/>`;
}

function fileNames(scores: readonly ModelScore[]): string[] {
  return [...new Set(scores.flatMap(({ scored, failed }) => [...scored, ...failed].map(({ file }) => file)))];
}

/** The form in which a policy names a script that may run. */
const hashOf = (script: string): string => `'sha256-${createHash("sha256").update(script).digest("base64")}'`;

function section(file: string, scores: readonly ModelScore[], folder: string): string {
  const parts = scores.map((one) => {
    const scored = one.scored.find((each) => each.file === file);
    const failure = one.failed.find((each) => each.file === file);
    const rate = scored?.words ? percentText(scored.words, undefined) : "–";
    const body = scored
      ? sideBySide(scored) + timedWords(scored)
      : `<p>${escapeHtml(failure?.error ?? "not transcribed")}</p>`;
    return {
      summary: `${one.model} ${rate} %`,
      html: `<h3>${escapeHtml(one.model)}: WER ${escapeHtml(rate)} %</h3>${body}`,
    };
  });
  const summary = parts.map((part) => part.summary).join(" · ");
  const played = scores
    .flatMap(({ scored }) => scored)
    .find((each) => each.file === file && each.heard?.length);
  const audio = played ? player(relative(folder, resolve(played.path))) : "";
  return `<details><summary>${escapeHtml(file)} – ${escapeHtml(summary)}</summary>${audio}${parts.map(({ html }) => html).join("")}</details>`;
}

function sideBySide({ compared }: Scored): string {
  if (!compared) return "<p>The texts are too long to be shown side by side.</p>";
  const said = compared.flatMap((word) =>
    word.said === undefined ? [] : mark(word, word.said, word.heard === undefined ? "del" : "sub"),
  );
  const heard = compared.flatMap((word) => heardWord(word));
  return `<div class="side"><p><b>Reference</b><br>${said.join(" ")}</p><p><b>Transcript</b><br>${heard.join(" ")}</p></div>`;
}

/** @param path from the page to the recording */
function player(path: string): string {
  const address = path.split(sep).map(encodeURIComponent).join("/");
  return `<audio controls preload="none" src="${escapeHtml(address)}"></audio>`;
}

/** A word is fainter where the model was less sure of it. */
const LEAST_OPACITY = 0.45;

function timedWords({ heard = [], startErrors }: Scored): string {
  if (heard.length === 0) return "";
  const words = heard.map(({ text, startMs, endMs, confidence }) => {
    const [at, to] = [startMs, endMs].map((ms) => (ms / 1000).toFixed(3));
    const opacity = Math.max(LEAST_OPACITY, confidence).toFixed(2);
    const title = `${at} s to ${to} s, ${Math.round(confidence * 100)} %`;
    return `<button data-at="${at}" data-to="${to}" style="opacity:${opacity}" title="${title}">${escapeHtml(text)}</button>`;
  });
  const figures = startErrors && startFigures(startErrors);
  const exact = figures
    ? ` – starts of ${figures.words} words: median error ${Math.round(figures.medianMs)} ms, 95 % within ${Math.round(figures.p95Ms)} ms`
    : "";
  return `<p class="words"><b>Words</b>${exact}<br>${words.join(" ")}</p>`;
}

function heardWord(word: ComparedWord): string[] {
  const { said, heard } = word;
  if (heard === undefined) return [`<span class="del">${escapeHtml(said ?? "")}</span>`];
  if (said === undefined) return [`<span class="ins">${escapeHtml(heard)}</span>`];
  if (said === heard) return [escapeHtml(heard)];
  return [`<span class="sub">${escapeHtml(heard)} <small>(${escapeHtml(said)})</small></span>`];
}

function mark({ said, heard }: ComparedWord, text: string, kind: string): string[] {
  return [said === heard ? escapeHtml(text) : `<span class="${kind}">${escapeHtml(text)}</span>`];
}

/** Makes a text safe within HTML and its attributes. */
function escapeHtml(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#39;");
}
