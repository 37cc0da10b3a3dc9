import { useRef } from "preact/hooks";
import { announce } from "../parts/announce.tsx";
import { Bar } from "../parts/bar.tsx";
import { FailureBox } from "../parts/failure-box.tsx";
import { bytes, money } from "../words/format.ts";
import { words } from "../words/words.ts";
import {
  dropUpload,
  isWorthARetry,
  pauseUpload,
  pickAgain,
  resumeUpload,
  retryAll,
  retryUpload,
  startTranscription,
  type UploadItem,
  uploads,
} from "./uploads.ts";

/** Uploads that are on their way, or wait for a person. */
export function UploadList() {
  if (uploads.value.length === 0) return null;
  const failed = uploads.value.filter(isWorthARetry).length;
  return (
    <section class="uploads" aria-label={words.value.upload.inProgress}>
      {failed > 1 && (
        <button type="button" class="retry-all" onClick={retryAll}>
          {words.value.upload.retryAll(failed)}
        </button>
      )}
      <ul>
        {uploads.value.map((item) => (
          <Entry key={item.id} item={item} />
        ))}
      </ul>
    </section>
  );
}

/** Steps without a bar: everything has arrived, or nothing more will. */
const ARRIVED: ReadonlySet<UploadItem["step"]> = new Set(["checking", "ready", "starting", "failed"]);

function Entry({ item }: { item: UploadItem }) {
  const t = words.value.upload;
  const { id, fileName, sentBytes, bytes: all, step, failure } = item;
  const isMoving = !ARRIVED.has(step);
  return (
    <li class={`upload upload-${step}`}>
      <span class="entry-name">{fileName}</span>
      <span class="muted">
        {t.steps[step]} ·{" "}
        <span class="numbers">{isMoving ? t.sent(bytes(sentBytes), bytes(all)) : bytes(all)}</span>
      </span>
      {isMoving && <Bar share={all === 0 ? 0 : sentBytes / all} label={fileName} />}
      {failure && <FailureBox failure={failure} isSmall isRepeated />}
      <div class="row">
        <Actions item={item} />
        {step !== "starting" && (
          <button type="button" class="quiet" onClick={() => dropUpload(id)}>
            {step === "failed" ? t.takeAway : t.drop_it}
          </button>
        )}
      </div>
    </li>
  );
}

function Actions({ item }: { item: UploadItem }) {
  const { id, step, pricePaise, fileName } = item;
  const t = words.value.upload;
  if (step === "sending" || step === "lost") {
    return (
      <button type="button" onClick={() => pauseUpload(id)}>
        {t.pause}
      </button>
    );
  }
  if (step === "paused") {
    return (
      <button type="button" onClick={() => resumeUpload(id)}>
        {t.resume}
      </button>
    );
  }
  if (step === "unpicked") return <PickAgain id={id} fileName={fileName} />;
  if (step === "failed") {
    if (!isWorthARetry(item)) return null;
    return (
      <button type="button" onClick={() => retryUpload(id)}>
        {words.value.tryAgain}
      </button>
    );
  }
  if (step !== "ready") return null;
  return (
    <button
      type="button"
      class="primary"
      onClick={() => void startTranscription(id).then(() => announce(t.started(fileName)))}
    >
      {pricePaise === undefined ? t.startNow : t.startFor(money(pricePaise))}
    </button>
  );
}

function PickAgain({ id, fileName }: { id: string; fileName: string }) {
  const t = words.value.upload;
  const input = useRef<HTMLInputElement>(null);
  const message = useRef<HTMLParagraphElement>(null);
  const onPicked = () => {
    const file = input.current?.files?.[0];
    if (file && !pickAgain(id, file) && message.current) message.current.textContent = t.otherFile(fileName);
  };
  return (
    <>
      <input
        ref={input}
        type="file"
        class="unseen"
        tabIndex={-1}
        aria-label={t.pickAgain}
        onChange={onPicked}
      />
      <button type="button" class="primary" onClick={() => input.current?.click()}>
        {t.pickAgain}
      </button>
      <p ref={message} role="alert" />
    </>
  );
}
