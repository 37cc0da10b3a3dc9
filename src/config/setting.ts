/** The kinds of settings, and functions that make them. `schema.ts` lists all settings. */

type Common = {
  help: string;
  /** A running server takes a new value over when it reloads its config. Code that uses the setting reads it each time. */
  isReloaded?: true;
};
export type IntegerSetting = Common & { type: "integer"; default: number; min: number; max: number };
export type TextSetting = Common & { type: "text"; default: string } & TextForm;
/** What a text must be like. */
type TextForm = {
  pattern?: RegExp;
  /** A value of the correct form, for messages; a default that is not empty needs none. */
  example?: string;
  /** A file or folder. A relative one in the config file belongs to the file's folder. */
  isPath?: true;
  /** Commands hide the value, and backups leave it out. */
  isSecret?: true;
  /** Ends the sentence "the setting …" for a value of the correct form that cannot be used. */
  problem?: (value: string) => string | undefined;
};
export type BooleanSetting = Common & { type: "boolean"; default: boolean };
export type ListSetting = Common & {
  type: "list";
  default: readonly string[];
  /** The form of each item. */
  pattern?: RegExp;
  /** An item of the correct form, for messages. */
  example?: string;
};
export type ChoiceSetting<T extends string = string> = Common & {
  type: "choice";
  default: T;
  choices: readonly T[];
};
/** Texts by keys: a table of its own in the file, the last one of its section. */
export type MapSetting = Common & {
  type: "map";
  default: Readonly<Record<string, string>>;
  /** The form of each key, and of each value. */
  keyPattern: RegExp;
  pattern: RegExp;
};
/** A whole number, or the word `auto`. */
export type AutoSetting = Common & { type: "auto"; default: "auto"; min: number; max: number };
/** Tables of the same form, each with the header `[[section.name]]` in the file. They are the last of their section. */
export type TablesSetting<F extends Fields = Fields> = Common & {
  type: "tables";
  default: readonly never[];
  /** The fields of each table. */
  fields: F;
  /** Fields without which a table has no meaning. */
  required: readonly (keyof F & string)[];
};
/** A setting that is one value of a table. */
export type FieldSetting =
  | IntegerSetting
  | TextSetting
  | BooleanSetting
  | ListSetting
  | ChoiceSetting
  | AutoSetting;
export type Fields = Readonly<Record<string, FieldSetting>>;
export type Setting = FieldSetting | MapSetting | TablesSetting;

export const integer = (value: number, min: number, max: number, help: string): IntegerSetting => ({
  type: "integer",
  default: value,
  min,
  max,
  help,
});
export const text = (value: string, help: string, form: TextForm = {}): TextSetting => ({
  type: "text",
  default: value,
  help,
  ...form,
});
export const boolean = (value: boolean, help: string): BooleanSetting => ({
  type: "boolean",
  default: value,
  help,
});
export const list = (
  help: string,
  form: Partial<Pick<ListSetting, "default" | "pattern" | "example">> = {},
): ListSetting => ({
  type: "list",
  default: [],
  help,
  ...form,
});
export const choice = <const T extends string>(
  value: T,
  choices: readonly T[],
  help: string,
): ChoiceSetting<T> => ({
  type: "choice",
  default: value,
  choices,
  help,
});
export const map = (help: string, keyPattern: RegExp, pattern: RegExp): MapSetting => ({
  type: "map",
  default: {},
  help,
  keyPattern,
  pattern,
});
export const auto = (min: number, max: number, help: string): AutoSetting => ({
  type: "auto",
  default: "auto",
  min,
  max,
  help,
});

export const tables = <const F extends Fields>(
  help: string,
  fields: F,
  required: readonly (keyof F & string)[],
): TablesSetting<F> => ({ type: "tables", default: [], help, fields, required });

/** Marks a setting that a running server takes over. All others need a restart. */
export const reloaded = <S extends Setting>(setting: S): S => ({ ...setting, isReloaded: true });

/** The value of a setting. */
export type ValueOf<S> = S extends IntegerSetting
  ? number
  : S extends AutoSetting
    ? number | "auto"
    : S extends BooleanSetting
      ? boolean
      : S extends TablesSetting<infer F>
        ? readonly TableOf<F>[]
        : S extends MapSetting
          ? Readonly<Record<string, string>>
          : S extends ListSetting
            ? readonly string[]
            : S extends { type: "choice"; choices: readonly (infer C)[] }
              ? C
              : string;

/** The values of one table. */
export type TableOf<F extends Fields> = { readonly [Name in keyof F]: ValueOf<F[Name]> };
