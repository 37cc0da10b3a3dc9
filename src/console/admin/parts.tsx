import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { asFailure, type Failure } from "../lib/api.ts";
import { AskingButton } from "../parts/asking-button.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { FailureBox } from "../parts/failure-box.tsx";
import { day } from "../words/format.ts";
import { words } from "../words/words.ts";
import type { Loaded } from "./admin-session.ts";

/** A column: its heading, and what it shows of a row. */
export type Column<T> = { title: string; cell: (row: T) => ComponentChildren; isNumber?: boolean };

type TableProps<T> = {
  label: string;
  rows: readonly T[];
  keyOf: (row: T) => string;
  columns: Column<T>[];
  empty: string;
};

/** A table; on narrow screens it scrolls by itself. */
export function Table<T>({ label, rows, keyOf, columns, empty }: TableProps<T>) {
  if (rows.length === 0) return <p class="muted">{empty}</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard scrolls a wide table
    <section class="table" tabIndex={0} aria-label={label}>
      <table>
        <thead>
          <tr>
            {columns.map(({ title, isNumber }) => (
              <th key={title} scope="col" class={isNumber ? "number" : ""}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map(({ title, cell, isNumber }) => (
                <td key={title} class={isNumber ? "number" : ""}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** A date in one line. */
export const Day = ({ of }: { of: string }) => <span class="numbers">{day(of)}</span>;

/** Shows what was read, or why it was not. */
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  const { data, failure, reload } = of;
  return (
    <>
      {failure && <FailureBox failure={failure} isSmall onRetry={() => void reload()} />}
      {data === undefined ? !failure && <p class="muted">{words.value.loading}</p> : children(data)}
    </>
  );
}

/** A field of a form. Values are text; the form's owner reads them. */
export type FormField = {
  name: string;
  label: string;
  /** Rupees have paise, decimals any fraction; numbers are whole. */
  type?: "text" | "number" | "rupees" | "decimal" | "date";
  value?: string;
  help?: string;
  placeholder?: string;
  isRequired?: boolean;
  options?: { value: string; label: string; help?: string }[];
  /** Several options can be chosen; `value` has them with spaces between, as the form's values do. */
  isMany?: boolean;
};

type FormDialogProps = {
  title: string;
  submit: string;
  fields: FormField[];
  onSubmit: (values: Record<string, string>) => Promise<void>;
  onClose: () => void;
};

/** A form in a window. A refusal is shown in it, and nothing that was typed is lost. */
export function FormDialog({ title, submit, fields, onSubmit, onClose }: FormDialogProps) {
  const failure = useSignal<Failure | undefined>(undefined);
  const isBusy = useSignal(false);
  const send = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    const data = new FormData(event.currentTarget);
    const values = Object.fromEntries(
      fields.map(({ name }) => [name, data.getAll(name).map(String).join(" ").trim()]),
    );
    isBusy.value = true;
    try {
      await onSubmit(values);
      onClose();
    } catch (error) {
      failure.value = asFailure(error);
    } finally {
      isBusy.value = false;
    }
  };
  return (
    <Dialog title={title} onClose={onClose} class="narrow">
      <form class="fields" onSubmit={(event) => void send(event)}>
        {fields.map((field) => (
          <Field key={field.name} field={field} />
        ))}
        {failure.value && <FailureBox failure={failure.value} isSmall />}
        <footer class="dialog-foot">
          <button type="button" onClick={onClose}>
            {words.value.cancel}
          </button>
          <button type="submit" class="primary" disabled={isBusy.value}>
            {submit}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}

function Field({ field }: { field: FormField }) {
  const { name, label, help } = field;
  if (field.isMany) return <Checks field={field} />;
  const id = `field-${name}`;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {field.options ? <Options field={field} id={id} /> : <Input field={field} id={id} />}
      {help !== undefined && <span class="muted small">{help}</span>}
    </div>
  );
}

type ControlProps = { field: FormField; id: string };

function Options({ field: { name, value, options = [] }, id }: ControlProps) {
  return (
    <select id={id} name={name}>
      {options.map((option) => (
        <option key={option.value} value={option.value} selected={option.value === value}>
          {option.label}
        </option>
      ))}
    </select>
  );
}

/** Options of which several can be chosen. */
function Checks({ field: { name, label, value = "", options = [] } }: { field: FormField }) {
  const chosen = value.split(" ");
  return (
    <fieldset class="field checks">
      <legend>{label}</legend>
      {options.map((option) => (
        <label key={option.value} class="check">
          <input
            type="checkbox"
            name={name}
            value={option.value}
            defaultChecked={chosen.includes(option.value)}
          />
          <span>
            <code>{option.label}</code> <span class="muted small">{option.help}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

function Input({ field, id }: ControlProps) {
  const { name, type = "text", value = "", placeholder = "", isRequired = false } = field;
  const common = { id, name, placeholder, defaultValue: value, required: isRequired };
  if (type === "number") return <input type="number" step="1" {...common} />;
  if (type === "rupees") return <input type="number" step="0.01" {...common} />;
  if (type === "decimal") return <input type="number" step="any" min={0} {...common} />;
  return type === "date" ? <input type="date" {...common} /> : <input type="text" {...common} />;
}

type ActProps = { label: string; act: () => Promise<unknown>; question?: string; class?: string };

/** A button that does something on the server, after a question where one is given. */
export function ActButton({ label, act, question, class: className = "" }: ActProps) {
  const failure = useSignal<Failure | undefined>(undefined);
  const run = async () => {
    failure.value = undefined;
    await act().catch((error) => {
      failure.value = asFailure(error);
    });
  };
  return (
    <>
      <AskingButton
        {...{ question, class: className }}
        yes={label}
        no={words.value.cancel}
        act={() => void run()}
      >
        {label}
      </AskingButton>
      {failure.value && <FailureBox failure={failure.value} isSmall />}
    </>
  );
}
