import { useSignal } from "@preact/signals";
import type { Key, KeyCreated, KeyList, Project, ProjectList } from "../../http/wire/console.ts";
import { CopyButton } from "../parts/copy-button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { now } from "../transcriptions/transcriptions.ts";
import { en } from "../words/en.ts";
import { ago, moment } from "../words/format.ts";
import { words } from "../words/words.ts";
import { adminAsk, useLoaded } from "./admin-session.ts";
import { ActButton, Day, FormDialog, Shown, Table } from "./parts.tsx";

/** Projects of an organization, and their keys. */
export function Keys({ organizationId }: { organizationId: string }) {
  const t = words.value.admin;
  const projects = useLoaded<ProjectList>(`projects?organization_id=${organizationId}`);
  const keys = useLoaded<KeyList>(`keys?organization_id=${organizationId}`);
  const open = useSignal<"project" | "key" | undefined>(undefined);
  const made = useSignal<KeyCreated | undefined>(undefined);
  const close = () => {
    open.value = undefined;
  };
  const show = (what: "project" | "key") => () => {
    open.value = what;
  };
  return (
    <section>
      <div class="section-head">
        <h2>{t.projects}</h2>
        <span class="row">
          <button type="button" onClick={show("project")}>
            {t.newProject}
          </button>
          <button
            type="button"
            class="primary"
            disabled={(projects.data?.data.length ?? 0) === 0}
            onClick={show("key")}
          >
            {t.newKey}
          </button>
        </span>
      </div>
      <Shown of={projects}>
        {({ data }) => (
          <Shown of={keys}>
            {(list) => <KeyTable keys={list.data} projects={data} onChange={keys.reload} />}
          </Shown>
        )}
      </Shown>
      {open.value === "project" && (
        <FormDialog
          title={t.newProject}
          submit={t.create}
          fields={[{ name: "name", label: t.name, isRequired: true }]}
          onClose={close}
          onSubmit={async ({ name = "" }) => {
            await adminAsk("projects", { method: "POST", body: { organization_id: organizationId, name } });
            await projects.reload();
          }}
        />
      )}
      {open.value === "key" && (
        <KeyForm
          projects={projects.data?.data ?? []}
          onClose={close}
          onMade={(key) => {
            made.value = key;
            void keys.reload();
          }}
        />
      )}
      {made.value && <KeyOnce made={made.value} onClose={() => (made.value = undefined)} />}
    </section>
  );
}

type Scope = Key["scopes"][number];
/** The rights in the order of the command line. The table of words has each of them. */
const SCOPES = Object.keys(en.admin.scopeHelp) as Scope[];

type KeyFormProps = { projects: readonly Project[]; onClose: () => void; onMade: (key: KeyCreated) => void };

function KeyForm({ projects, onClose, onMade }: KeyFormProps) {
  const t = words.value.admin;
  return (
    <FormDialog
      title={t.newKey}
      submit={t.create}
      fields={[
        {
          name: "project",
          label: t.project,
          value: projects[0]?.id ?? "",
          options: projects.map(({ id, name }) => ({ value: id, label: name })),
        },
        { name: "name", label: t.name, isRequired: true },
        { name: "expires", label: t.expires, type: "date", help: t.neverHelp },
        {
          name: "scopes",
          label: t.scopes,
          value: SCOPES.join(" "),
          options: SCOPES.map((scope) => ({ value: scope, label: scope, help: t.scopeHelp[scope] })),
          isMany: true,
        },
      ]}
      onClose={onClose}
      onSubmit={async ({ project = "", name = "", expires = "", scopes = "" }) => {
        const body = {
          project_id: project,
          name,
          scopes: scopes.split(" ").filter((scope) => scope !== ""),
          ...(expires === "" ? {} : { expires_at: `${expires}T00:00:00.000Z` }),
        };
        onMade(await adminAsk<KeyCreated>("keys", { method: "POST", body }));
      }}
    />
  );
}

/** Shows a new key, this once. */
function KeyOnce({ made, onClose }: { made: KeyCreated; onClose: () => void }) {
  const t = words.value.admin;
  return (
    <Dialog title={made.name} onClose={onClose} class="narrow">
      <div class="fields">
        <p>{t.keyOnce}</p>
        <code class="new-key">{made.key}</code>
        <CopyButton text={() => made.key} label={words.value.copy} class="primary" />
      </div>
    </Dialog>
  );
}

type KeyTableProps = { keys: readonly Key[]; projects: readonly Project[]; onChange: () => Promise<void> };

function KeyTable({ keys, projects, onChange }: KeyTableProps) {
  const t = words.value.admin;
  const projectOf = (id: string) => projects.find((one) => one.id === id)?.name ?? id;
  return (
    <>
      <p class="muted">{projects.map(({ name }) => name).join(" · ")}</p>
      <Table
        label={t.keys}
        rows={keys}
        keyOf={({ id }) => id}
        empty={t.nothingThere}
        columns={[
          { title: t.name, cell: ({ name }) => name },
          { title: t.keyBeginning, cell: ({ hint }) => <code>{hint}</code> },
          { title: t.project, cell: (key) => projectOf(key.project_id) },
          { title: t.state, cell: ({ state }) => t.keyStates[state] ?? state },
          { title: t.scopes, cell: ({ scopes }) => <ScopeNames scopes={scopes} /> },
          {
            title: t.lastUsed,
            cell: ({ last_used_at: at }) =>
              at === null ? t.never : <span title={moment(at)}>{ago(at, now.value)}</span>,
          },
          { title: t.expires, cell: ({ expires_at: at }) => (at === null ? t.never : <Day of={at} />) },
          {
            title: t.revoke,
            cell: ({ id, name, state }) =>
              state === "active" && (
                <ActButton
                  label={t.revoke}
                  question={t.revokeSure(name)}
                  act={async () => {
                    await adminAsk(`keys/${id}/revoke`, { method: "POST" });
                    await onChange();
                  }}
                />
              ),
          },
        ]}
      />
    </>
  );
}

function ScopeNames({ scopes }: { scopes: readonly string[] }) {
  return scopes.length >= SCOPES.length ? (
    <span>{words.value.admin.allScopes}</span>
  ) : (
    <span lang="en">{scopes.join(", ")}</span>
  );
}
