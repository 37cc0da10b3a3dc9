import { statSync } from "node:fs";
import type { InstalledModel } from "../../domain/model.ts";
import { modelHashOf } from "../../domain/model-hash.ts";
import type { HelloReply } from "../messages.ts";
import type { JobTokens } from "../tokens.ts";
import { answerPiece } from "./file-piece.ts";
import { BYTES_HEADERS, bare, type ListenerRoute } from "./listener.ts";

/** A model of this machine with the text of its manifest. */
export type ModelWithManifest = { model: InstalledModel; manifest: string };

/** The models whose files workers may fetch. */
export type ServedModels = {
  route: ListenerRoute;
  /** Describes the models to a worker, with tokens for their files. */
  describe(): NonNullable<HelloReply["models"]>;
};

export type ServedModelsDeps = {
  tokens: Pick<JobTokens, "opens" | "token">;
  /** Returns the installed models. */
  models: () => readonly ModelWithManifest[];
  /** Reports whether the fleet is asked for work with a model. Workers fetch no others. */
  isUsed: (hash: string) => boolean;
};

type ServedFile = { name: string; path: string };

/** The name under which a model of one file travels. Its manifest does not name the file. */
const ONLY_FILE = "weights";
/** A message can hold this many characters of models beside the rest. */
const MAX_DESCRIBED = 128 * 1024;

export function createServedModels({ tokens, models, isUsed }: ServedModelsDeps): ServedModels {
  function find(hash: string): ModelWithManifest | undefined {
    return served().find(({ model }) => modelHashOf(model) === hash);
  }

  function served(): ModelWithManifest[] {
    return models().filter(({ model }) => !model.embedded && isUsed(modelHashOf(model) ?? ""));
  }

  return {
    route: {
      method: "GET",
      path: /^\/models\/([0-9a-f]{64})\/(manifest|files\/\w[\w.-]{0,127})$/,
      answer({ request, token }, [hash = "", what = ""]) {
        if (!tokens.opens("model", hash, token)) return bare(401);
        const found = find(hash);
        if (!found) return bare(404);
        if (what === "manifest") return new Response(found.manifest, { headers: BYTES_HEADERS });
        const name = what.slice("files/".length);
        const file = filesOf(found.model).find((each) => each.name === name);
        return file ? answerPiece(request, file.path) : bare(404);
      },
    },
    describe() {
      let space = MAX_DESCRIBED;
      return served().flatMap(({ model }) => {
        const sha256 = modelHashOf(model) ?? "";
        const files = filesOf(model).map(({ name, path }) => ({ name, bytes: sizeOf(path) }));
        // A file that was removed a moment ago.
        if (files.some(({ bytes }) => bytes === 0)) return [];
        const described = { sha256, id: model.id, files, token: tokens.token("model", sha256) };
        space -= JSON.stringify(described).length;
        return space < 0 ? [] : [described];
      });
    },
  };
}

/** Lists the files of a model by the names that its manifest gives them. */
function filesOf({ files, parts }: InstalledModel): ServedFile[] {
  if (!parts) return files.weights === undefined ? [] : [{ name: ONLY_FILE, path: files.weights }];
  return parts.flatMap(({ role, name }) => {
    const path = files[role === "weights" ? `weights:${name}` : role];
    return path === undefined ? [] : [{ name, path }];
  });
}

function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}
