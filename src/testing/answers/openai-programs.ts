/** A request that a program sends to OpenAI's audio API, and what the server's admin must set for it. */
export type ProgramForm = {
  program: string;
  /** Text fields in their order; a list's name ends with brackets and may be repeated. */
  fields: [name: string, value: string][];
  fileName: string;
  /** Settings of `[openai]` that it needs beside `enabled`; of the others it needs the defaults. */
  needs: ("default_language" | "model_aliases" | "ignored_parameters")[];
  /** What the answer names as ignored. */
  ignored?: string;
};

const MODEL: [string, string] = ["model", "whisper-1"];
const VERBOSE: [string, string] = ["response_format", "verbose_json"];

/**
 * Forms of programs in their default configuration, unless the name says otherwise. Those of LibreChat, n8n, Buzz, LiveKit,
 * AnythingLLM and Flowise were read in the programs' sources, the others were written from descriptions of their requests.
 */
export const PROGRAM_FORMS: ProgramForm[] = [
  {
    program: "Open WebUI",
    fields: [MODEL],
    fileName: "0b1c.wav",
    needs: ["default_language"],
  },
  {
    program: "LibreChat",
    fields: [MODEL],
    fileName: "audio.webm",
    needs: ["default_language"],
  },
  {
    program: "LibreChat with a language",
    fields: [MODEL, ["language", "hi"]],
    fileName: "audio.webm",
    needs: [],
  },
  {
    program: "n8n",
    fields: [MODEL, ["language", "hi"]],
    fileName: "data.mp3",
    needs: [],
  },
  {
    program: "n8n with a temperature",
    fields: [MODEL, ["temperature", "0.3"]],
    fileName: "data.mp3",
    needs: ["default_language"],
    ignored: "temperature",
  },
  {
    program: "Dify",
    fields: [MODEL],
    fileName: "temp.mp3",
    needs: ["default_language"],
  },
  {
    program: "LiteLLM",
    fields: [MODEL, ["language", "hi"], VERBOSE],
    fileName: "call.mp3",
    needs: [],
  },
  {
    program: "Buzz",
    fields: [MODEL, VERBOSE, ["prompt", ""], ["language", "hi"]],
    fileName: "tmpab12.mp3",
    needs: [],
  },
  {
    program: "Buzz with word timings",
    fields: [MODEL, VERBOSE, ["prompt", ""], ["timestamp_granularities[]", "word"], ["language", "hi"]],
    fileName: "tmpab12.mp3",
    needs: ["ignored_parameters"],
    ignored: "timestamp_granularities",
  },
  {
    program: "LiveKit Agents",
    fields: [MODEL, ["language", "hi"], VERBOSE],
    fileName: "file.wav",
    needs: [],
  },
  {
    program: "Subtitle Edit",
    fields: [MODEL, VERBOSE, ["language", "hi"]],
    fileName: "audio.mp3",
    needs: [],
  },
  {
    program: "Home Assistant (openai_stt_ha)",
    fields: [["language", "hi"], MODEL, ["prompt", ""], ["temperature", "0"], ["response_format", "json"]],
    fileName: "audio.wav",
    needs: [],
  },
  {
    program: "Home Assistant with a prompt",
    fields: [
      ["language", "hi-IN"],
      MODEL,
      ["prompt", "बत्ती"],
      ["temperature", "0"],
      ["response_format", "json"],
    ],
    fileName: "audio.wav",
    needs: [],
    ignored: "prompt",
  },
  {
    program: "pyVideoTrans",
    fields: [
      MODEL,
      ["prompt", "हिन्दी में"],
      VERBOSE,
      ["language", "hi"],
      ["timestamp_granularities[]", "segment"],
    ],
    fileName: "0.wav",
    needs: [],
    ignored: "prompt",
  },
  {
    program: "AnythingLLM",
    fields: [MODEL, ["response_format", "text"], ["temperature", "0"]],
    fileName: "meeting.mp3",
    needs: ["default_language"],
  },
  {
    program: "Flowise (LocalAI)",
    fields: [MODEL, ["language", "hi"]],
    fileName: "audio.webm",
    needs: [],
  },
  {
    program: "Flowise (Groq)",
    fields: [["model", "whisper-large-v3"], ["language", "hi"], VERBOSE],
    fileName: "audio.webm",
    needs: ["model_aliases"],
  },
];
