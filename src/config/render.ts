import { CONFIG_SCHEMA, type Config, SECRET_SETTINGS, type Setting } from "./schema.ts";
import type { TablesSetting } from "./setting.ts";

/** Values by section and name, such as a config that sets a few of them. */
export type PartialConfig = { [S in keyof Config]?: Partial<Config[S]> };

type Values = Record<string, Record<string, unknown> | undefined>;

/** Renders a whole config file with the meaning of each setting: the given values, and defaults for all others. */
export function renderConfig(given: PartialConfig = {}, hideSecrets = false): string {
  return render(given as Values, (section, name, value) => {
    const isHidden = hideSecrets && SECRET_SETTINGS.includes(`${section}.${name}`) && value !== "";
    return { value: isHidden ? "(hidden)" : value, isCommented: false };
  });
}

/**
 * Renders a config file in which only the given values are set. Every other setting is a comment with its default, so
 * that a later default arrives with an upgrade.
 *
 * @param heading the file's first line, without `#`
 */
export function renderConfigToEdit(heading: string, given: PartialConfig = {}): string {
  const isGiven = (section: string, name: string) => (given as Values)[section]?.[name] !== undefined;
  const settings = render(given as Values, (section, name, value) => ({
    value,
    isCommented: !isGiven(section, name),
  }));
  return `# ${heading}\n\n${settings}`;
}

type Shown = (
  section: string,
  name: string,
  value: unknown,
) => { value: unknown /** The line is a comment. */; isCommented: boolean };

function render(given: Values, show: Shown): string {
  const lines: string[] = [];
  for (const [section, settings] of Object.entries<Record<string, Setting>>(CONFIG_SCHEMA)) {
    lines.push(`[${section}]`);
    for (const [name, setting] of Object.entries(settings)) {
      const { value, isCommented } = show(section, name, given[section]?.[name] ?? setting.default);
      const mark = isCommented ? "#" : "";
      const choices = setting.type === "choice" ? ` One of: ${setting.choices.join(", ")}.` : "";
      lines.push(`# ${setting.help}${choices}`);
      if (setting.type === "map") {
        const entries = Object.entries(value as Record<string, string>);
        lines.push(`${mark}[${section}.${name}]`);
        lines.push(...entries.map(([key, text]) => `${mark}${key} = ${JSON.stringify(text)}`), "");
      } else if (setting.type === "tables") {
        const tables = value as readonly Record<string, unknown>[];
        const header = `[[${section}.${name}]]`;
        for (const table of tables) lines.push(header, ...fieldLines(table), "");
        // Without a table there is still the meaning of each field.
        if (tables.length === 0) lines.push(`#${header}`, ...fieldHelp(setting), "");
      } else lines.push(`${mark}${name} = ${JSON.stringify(value)}`, "");
    }
  }
  return `${lines.join("\n").trimEnd()}\n`;
}

const fieldLines = (table: Record<string, unknown>) =>
  Object.entries(table).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);

const fieldHelp = ({ fields }: TablesSetting) =>
  Object.entries(fields).flatMap(([name, field]) => {
    const choices = field.type === "choice" ? ` One of: ${field.choices.join(", ")}.` : "";
    return [`#  ${name} = ${JSON.stringify(field.default)}`, `#    ${field.help}${choices}`];
  });
