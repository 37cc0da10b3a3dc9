import { expect, test } from "bun:test";
import { SECRET_SETTINGS } from "../../config/schema.ts";
import { commentOut, secretsIn, withoutSecrets } from "./config-secrets.ts";

const [secret = ""] = SECRET_SETTINGS;
const [section = "", name = ""] = secret.split(".");
const TEXT = `# The token of the old machine:
# ${name} = "in a line"
[${section}] # ${name} = 'behind a table'
  # once: ${name}="indented"
${name} = "the value" # was ${name} = "behind the value"
# ${name} = ""
# ${name} is kept elsewhere, never "here"

[log]
level = "info" # ${name} = "behind another setting"`;

test("a secret leaves neither its value nor a comment that assigns it", () => {
  expect(secretsIn(TEXT)).toEqual([secret]);
  expect(withoutSecrets(TEXT)).toBe(`# The token of the old machine:
[${section}] 
${name} = "" 
# ${name} = ""
# ${name} is kept elsewhere, never "here"

[log]
level = "info" `);
  expect(secretsIn(withoutSecrets(TEXT))).toEqual([]);
});

test("a file without secrets stays as it is, also with line ends of Windows", () => {
  const text = `# a comment\r\n[log]\r\nlevel = "info" # ${name}\r\n`;
  expect(withoutSecrets(text)).toBe(text);
  expect(withoutSecrets(`${text}# ${name} = "x"\r\n`)).toBe(text);
});

test("a setting that is empty stays", () => {
  const text = '[engine]\ndecoder = ""\n';
  expect(commentOut(text, ["engine.decoder"], "No:")).toEqual({ text, found: [] });
});

test("a setting of several lines becomes a comment of several lines", () => {
  const text = '[engine]\ndecoder = """\n/a"""\nworkers = 1\n';
  expect(commentOut(text, ["engine.decoder", "log.level"], "No:")).toEqual({
    text: '[engine]\n# No:\n# decoder = """\n# /a"""\nworkers = 1\n',
    found: ["engine.decoder"],
  });
});
