import createFetchClient from "openapi-fetch";
import { client as heyClient } from "./made/hey-api/client.gen.ts";
import { transcribeAudio } from "./made/hey-api/sdk.gen.ts";
import type { paths } from "./made/openapi-typescript.ts";
import * as orval from "./made/orval.ts";

/** Uses the three generated clients against a server: `bun use.ts BASE KEY FILE`. Prints what each received. */

declare const Bun: { file(path: string): { arrayBuffer(): Promise<ArrayBuffer> } };
declare const process: { argv: string[] };

const [baseUrl = "", key = "", path = ""] = process.argv.slice(2);
const file = new File([await Bun.file(path).arrayBuffer()], "a.wav");
const authorization = `Bearer ${key}`;

const fetchClient = createFetchClient<paths>({ baseUrl, headers: { authorization } });
const listed = await fetchClient.GET("/v1/transcriptions", { params: { query: { limit: 5 } } });
const created = await fetchClient.POST("/v1/uploads", { body: { bytes: file.size } });
const upload = created.data;
if (!upload) throw new Error("no upload");
await fetch(upload.upload.url, { method: upload.upload.method, headers: upload.upload.headers, body: file });
await fetchClient.POST("/v1/uploads/{upload_id}/complete", { params: { path: { upload_id: upload.id } } });
const started = await fetchClient.POST("/v1/transcriptions", {
  body: { audio: { upload_id: upload.id }, language: "hi" },
});
console.log("openapi-typescript", listed.data?.object, started.data?.request.mode);

heyClient.setConfig({ baseUrl, headers: { authorization } });
const heard = await transcribeAudio({ body: { file, language: "hi" } });
console.log("hey-api", heard.data?.text, heard.data?.segments[0]?.end);

const models = await orval.listModels({ headers: { authorization } });
const refused = await orval.getTranscription("tr_01KAJ5M0X2V7Q4N8R6T3Y9ZB1C", { headers: { authorization } });
console.log("orval", models.status === 200 && models.data.data[0]?.id, refused.status);
