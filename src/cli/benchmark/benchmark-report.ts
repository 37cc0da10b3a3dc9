import type { Interval } from "../../pipeline/bootstrap.ts";
import type { ComparedWord } from "../../pipeline/word-differences.ts";
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
@media (max-width: 45rem) { .side { grid-template-columns: 1fr; } }`;

/**
 * Renders a comparison as one HTML page without any other file: the table, a chart of word error rates with their
 * intervals, and each transcript beside its reference with the differences in colour.
 *
 * @param name of the recordings
 * @param date when they were transcribed
 */
export function renderReport(
  name: string,
  { language, mode, channelMode }: BenchmarkOptions,
  scores: readonly ModelScore[],
  date: Date,
): string {
  const title = `Benchmark: ${name}`;
  const facts = `Language ${language}, mode ${mode}, channels ${channelMode}, ${date.toISOString().slice(0, 10)}.`;
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
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
  .map((file) => section(file, scores))
  .join("\n")}
</body>
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

function section(file: string, scores: readonly ModelScore[]): string {
  const parts = scores.map((one) => {
    const scored = one.scored.find((each) => each.file === file);
    const failure = one.failed.find((each) => each.file === file);
    const rate = scored?.words ? percentText(scored.words, undefined) : "–";
    const body = scored ? sideBySide(scored) : `<p>${escapeHtml(failure?.error ?? "not transcribed")}</p>`;
    return {
      summary: `${one.model} ${rate} %`,
      html: `<h3>${escapeHtml(one.model)}: WER ${escapeHtml(rate)} %</h3>${body}`,
    };
  });
  const summary = parts.map((part) => part.summary).join(" · ");
  return `<details><summary>${escapeHtml(file)} – ${escapeHtml(summary)}</summary>${parts.map(({ html }) => html).join("")}</details>`;
}

function sideBySide({ compared }: Scored): string {
  if (!compared) return "<p>The texts are too long to be shown side by side.</p>";
  const said = compared.flatMap((word) =>
    word.said === undefined ? [] : mark(word, word.said, word.heard === undefined ? "del" : "sub"),
  );
  const heard = compared.flatMap((word) => heardWord(word));
  return `<div class="side"><p><b>Reference</b><br>${said.join(" ")}</p><p><b>Transcript</b><br>${heard.join(" ")}</p></div>`;
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
