import { install } from "./src/e2e/kit.ts";
import { samplePath } from "./src/e2e/samples.ts";
import { openConsoleBrowser, signInWith } from "./src/testing/console-browser.ts";
const place = async (path: string) => { await Bun.write(path, `#!/bin/sh\nexec ${process.execPath} ${import.meta.dir}/src/main.ts "$@"\n`); await Bun.$`chmod +x ${path}`; };
const inst = await install({ place });
try {
  const server = await (await inst.serve()).ready();
  const b = await openConsoleBrowser();
  const shot = (n: string) => b.page.screenshot({ path: `/tmp/w/pagework/${n}.png` });
  await b.page.goto(`${server.baseUrl}/console`);
  await b.page.waitForSelector("form");
  await shot("signin");
  await signInWith(b.page, server.baseUrl, inst.key);
  await shot("empty");
  await b.page.getByRole("button", { name: "New recording" }).first().click();
  await b.page.locator("input[type=file][multiple]").setInputFiles([samplePath("02-hi"), samplePath("12-en-long")]);
  await Bun.sleep(800);
  await shot("form");
  await b.page.getByRole("button", { name: /Upload and transcribe/ }).click();
  await Bun.sleep(400); await shot("sending");
  await b.page.getByText("Done", {exact: true}).nth(2).waitFor({timeout: 20000}).catch(e => console.log(String(e)));
  await Bun.sleep(1500);
  await shot("list");
  console.log(b.errors, b.requests.filter(r => !r.startsWith(server.baseUrl)));
  await b.close();
} finally { await inst.remove(); }
