import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { linkTo, route } from "./lib/address.ts";
import { asFailure, type Failure, isConnected } from "./lib/api.ts";
import { canDrop } from "./lib/pointer.ts";
import { forgetEverything } from "./notes/forgetting.ts";
import { loadNames } from "./notes/names.ts";
import { Announcer, announce } from "./parts/announce.tsx";
import { AskingButton } from "./parts/asking-button.tsx";
import { FailureBox } from "./parts/failure-box.tsx";
import { Icon } from "./parts/icons.tsx";
import { KeysDialog, openKeys } from "./parts/keys-dialog.tsx";
import { Menu } from "./parts/menu.tsx";
import { PreferenceFields } from "./parts/preference-fields.tsx";
import { account, isSignedIn, resumeSession, signOut } from "./session.ts";
import { Mark, SignIn } from "./sign-in.tsx";
import { TranscriptView } from "./transcript/transcript.tsx";
import { RecordingList } from "./transcriptions/list.tsx";
import { items } from "./transcriptions/transcriptions.ts";
import { isUploadOpen, offerUpload, UploadDialog } from "./uploads/upload-dialog.tsx";
import { UploadList } from "./uploads/upload-list.tsx";
import { isOnItsWay, restoreUploads } from "./uploads/uploads.ts";
import { money } from "./words/format.ts";
import { words } from "./words/words.ts";

type AdminPart = typeof import("./admin/admin.tsx");

/** The admin's views are loaded when they are asked for. */
const adminPart = signal<AdminPart | undefined>(undefined);

function AdminPlace() {
  useEffect(() => {
    void import("./admin/admin.tsx").then((part) => {
      adminPart.value = part;
    });
  }, []);
  const part = adminPart.value;
  return part ? <part.Admin /> : <p class="empty">{words.value.loading}</p>;
}

/** The whole page. */
export function App() {
  const isAdmin = route.value[0] === "admin" || route.value[0]?.startsWith("admin=");
  return (
    <>
      {isAdmin ? <AdminPlace /> : isSignedIn.value ? <Workplace /> : <SignIn />}
      <Announcer />
    </>
  );
}

/** The views of a person with a project key: the list, a transcript, and facts about it. */
function Workplace() {
  const t = words.value;
  const failure = useSignal<Failure | undefined>(undefined);
  const start = () => {
    failure.value = undefined;
    void Promise.all([resumeSession(), loadNames(), restoreUploads()]).catch((error) => {
      failure.value = asFailure(error);
    });
  };
  useEffect(start, []);
  const isDropping = useDrops();
  const [view, id] = route.value;
  const shownId = view === "t" ? id : undefined;
  return (
    <div class={`workplace ${shownId === undefined ? "at-list" : "at-transcript"}`}>
      <button type="button" class="skip" onClick={skipToMain}>
        {t.skipToContent}
      </button>
      <Header />
      {!isConnected.value && (
        <p class="banner" role="alert">
          <Icon name="failed" /> {t.offline}
        </p>
      )}
      {failure.value && <FailureBox failure={failure.value} onRetry={start} />}
      <div class="columns">
        <RecordingList>
          <UploadList />
        </RecordingList>
        <main id="main" tabIndex={-1}>
          {shownId === undefined ? <Nothing /> : <TranscriptView key={shownId} id={shownId} />}
        </main>
      </div>
      <UploadDialog />
      <KeysDialog />
      {isDropping.value && !isUploadOpen.value && <div class="dropping">{t.upload.dropNow}</div>}
    </div>
  );
}

/** No link, because the part of the address behind `#` says which view is shown. */
const skipToMain = () => document.getElementById("main")?.focus();

function Nothing() {
  const t = words.value.transcript;
  const isEmpty = items.value?.length === 0;
  return (
    <div class="nothing">
      <Icon name={isEmpty ? "upload" : "list"} size={28} />
      <h1 class="unseen">{words.value.list.title}</h1>
      <p>{isEmpty ? (canDrop ? t.pickNone : t.pickNoneWithoutDrop) : t.pick}</p>
      {isEmpty && (
        <button type="button" class="primary" onClick={() => offerUpload()}>
          <Icon name="plus" /> {words.value.header.newUpload}
        </button>
      )}
    </div>
  );
}

function Header() {
  const t = words.value.header;
  return (
    <header class="top">
      <a href={linkTo()} class="brand" aria-label={words.value.signIn.title}>
        <Mark /> <span>{words.value.signIn.title}</span>
      </a>
      <button type="button" class="primary" onClick={() => offerUpload()}>
        <Icon name="plus" /> {t.newUpload}
      </button>
      <span class="spring" />
      {account.value && (
        <span class="credit" title={t.credit}>
          <span class="muted">{t.credit}</span> <strong>{money(account.value.credit.available_paise)}</strong>
        </span>
      )}
      <button type="button" class="quiet wide-only" onClick={openKeys} title={t.help}>
        <Icon name="keyboard" />
        <span class="unseen">{t.help}</span>
      </button>
      <Menu>
        <PreferenceFields />
        {/* In another tab: the key of this one may be in memory alone. */}
        <a href="docs" target="_blank" rel="noopener">
          {t.api}
        </a>
        <Forget />
        <AskingButton
          question={t.signOutSure}
          isNeeded={() => isOnItsWay.value}
          yes={t.signOut}
          no={words.value.cancel}
          act={() => signOut()}
        >
          <Icon name="signOut" /> {t.signOut}
        </AskingButton>
      </Menu>
    </header>
  );
}

/** Forgets everything that the browser keeps, after a question. */
function Forget() {
  const t = words.value.header;
  const forget = async () => {
    const isDone = await forgetEverything().then(
      () => true,
      () => false,
    );
    announce(isDone ? t.forgotten : t.notForgotten);
  };
  return (
    <AskingButton
      question={t.forgetSure}
      yes={t.forgetYes}
      no={words.value.facts.keepIt}
      act={() => void forget()}
    >
      <Icon name="trash" /> {t.forget}
    </AskingButton>
  );
}

/** Takes files that are dropped anywhere on the page. */
function useDrops() {
  const isDropping = useSignal(false);
  useEffect(() => {
    const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
    const over = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      isDropping.value = true;
    };
    const leave = (event: DragEvent) => {
      if (event.relatedTarget === null) isDropping.value = false;
    };
    const drop = (event: DragEvent) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      isDropping.value = false;
      offerUpload([...(event.dataTransfer?.files ?? [])]);
    };
    document.addEventListener("dragover", over);
    document.addEventListener("dragleave", leave);
    document.addEventListener("drop", drop);
    return () => {
      document.removeEventListener("dragover", over);
      document.removeEventListener("dragleave", leave);
      document.removeEventListener("drop", drop);
    };
  }, []);
  return isDropping;
}
