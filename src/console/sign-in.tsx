import { useSignal } from "@preact/signals";
import { asFailure, type Failure } from "./lib/api.ts";
import { FailureBox } from "./parts/failure-box.tsx";
import { PreferenceFields } from "./parts/preference-fields.tsx";
import { hasEnded, signIn } from "./session.ts";
import { words } from "./words/words.ts";

/** Asks for a project key. */
export function SignIn() {
  const t = words.value.signIn;
  const given = useSignal("");
  const isStored = useSignal(false);
  const isBusy = useSignal(false);
  const failure = useSignal<Failure | undefined>(undefined);
  const hint = useSignal("");
  const submit = async (event: Event) => {
    event.preventDefault();
    failure.value = undefined;
    hint.value = given.value.trim() === "" ? t.empty : "";
    if (hint.value !== "" || isBusy.value) return;
    isBusy.value = true;
    try {
      await signIn(given.value.trim(), isStored.value);
    } catch (error) {
      failure.value = asFailure(error);
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <main class="sign-in">
      <form onSubmit={(event) => void submit(event)}>
        <h1>
          <Mark /> {t.title}
        </h1>
        <p class="muted">{t.tagline}</p>
        {hasEnded.value && <p class="note">{t.ended}</p>}
        <label for="key">{t.key}</label>
        <input
          id="key"
          type="password"
          autocomplete="off"
          spellcheck={false}
          aria-describedby="key-help"
          value={given.value}
          onInput={({ currentTarget }) => {
            given.value = currentTarget.value;
          }}
        />
        <p id="key-help" class="muted">
          {hint.value === "" ? t.keyHelp : hint.value}
        </p>
        <label class="check">
          <input
            type="checkbox"
            checked={isStored.value}
            onChange={({ currentTarget }) => {
              isStored.value = currentTarget.checked;
            }}
          />
          {t.remember}
        </label>
        {failure.value && <FailureBox failure={failure.value} />}
        <button type="submit" class="primary wide" disabled={isBusy.value}>
          {isBusy.value ? t.checking : t.submit}
        </button>
        <p class="muted small">{t.admin}</p>
      </form>
      <PreferenceFields />
    </main>
  );
}

/** The sign of the product. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
      <rect width="32" height="32" rx="7" />
      <path d="M7 13.5v5M11.5 10v12M16 6.5v19M20.5 11v10M25 14v4" />
    </svg>
  );
}
