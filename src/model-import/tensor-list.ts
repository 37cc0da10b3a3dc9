import { AUDIO_CONTEXT, TEXT_CONTEXT, type WhisperShape } from "./whisper-config.ts";

/** A tensor of a Whisper model, under both names. Shapes have the fastest dimension last, as in checkpoints. */
export type WhisperTensor = {
  /** Without the prefix `model.`. */
  sourceName: string;
  ggmlName: string;
  sourceShape: number[];
  /** The shape that is written, where it is not `sourceShape`. */
  shape: number[];
  /** f32 always; f16 always; else the type of the file. */
  stored: "f32" | "f16" | "weights";
};

/** Names of the parts of a layer, of transformers and of ggml. */
const ATTENTION = [
  ["k_proj", "key", false],
  ["v_proj", "value", true],
  ["q_proj", "query", true],
  ["out_proj", "out", true],
] as const;

/**
 * Lists every tensor of a Whisper model in the order in which transformers' module has them. So the same weights give the
 * same file, whatever their order in a checkpoint.
 */
export function whisperTensors({
  state,
  audioLayers,
  textLayers,
  mels,
  vocab,
}: WhisperShape): WhisperTensor[] {
  const tensors: WhisperTensor[] = [];
  const add = (sourceName: string, ggmlName: string, shape: number[], stored: WhisperTensor["stored"]) =>
    tensors.push({ sourceName, ggmlName, sourceShape: shape, shape, stored });
  const pair = (source: string, ggml: string, shape: number[], hasBias = true) => {
    add(`${source}.weight`, `${ggml}.weight`, shape, shape.length === 1 ? "f32" : "weights");
    if (hasBias) add(`${source}.bias`, `${ggml}.bias`, shape.slice(0, 1), "f32");
  };
  const attention = (source: string, ggml: string) => {
    for (const [from, to, hasBias] of ATTENTION)
      pair(`${source}.${from}`, `${ggml}.${to}`, [state, state], hasBias);
  };
  const layer = (source: string, ggml: string, isText: boolean) => {
    attention(`${source}.self_attn`, `${ggml}.attn`);
    pair(`${source}.self_attn_layer_norm`, `${ggml}.attn_ln`, [state]);
    if (isText) {
      attention(`${source}.encoder_attn`, `${ggml}.cross_attn`);
      pair(`${source}.encoder_attn_layer_norm`, `${ggml}.cross_attn_ln`, [state]);
    }
    pair(`${source}.fc1`, `${ggml}.mlp.0`, [4 * state, state]);
    pair(`${source}.fc2`, `${ggml}.mlp.2`, [state, 4 * state]);
    pair(`${source}.final_layer_norm`, `${ggml}.mlp_ln`, [state]);
  };
  const convolution = (name: string, inputs: number) => {
    add(`${name}.weight`, `${name}.weight`, [state, inputs, 3], "f16");
    // whisper.cpp adds it to rows, so it is written as a column.
    const bias = `${name}.bias`;
    tensors.push({
      sourceName: bias,
      ggmlName: bias,
      sourceShape: [state],
      shape: [state, 1],
      stored: "f32",
    });
  };

  convolution("encoder.conv1", mels);
  convolution("encoder.conv2", state);
  add("encoder.embed_positions.weight", "encoder.positional_embedding", [AUDIO_CONTEXT, state], "f32");
  for (let n = 0; n < audioLayers; n++) layer(`encoder.layers.${n}`, `encoder.blocks.${n}`, false);
  pair("encoder.layer_norm", "encoder.ln_post", [state]);
  add("decoder.embed_tokens.weight", "decoder.token_embedding.weight", [vocab, state], "weights");
  add("decoder.embed_positions.weight", "decoder.positional_embedding", [TEXT_CONTEXT, state], "f32");
  for (let n = 0; n < textLayers; n++) layer(`decoder.layers.${n}`, `decoder.blocks.${n}`, true);
  pair("decoder.layer_norm", "decoder.ln", [state]);
  return tensors;
}

/** The output layer of a checkpoint. Whisper shares its weights with the tokens' embedding. */
export const OUTPUT_LAYER = "proj_out.weight";
export const TOKEN_EMBEDDING = "decoder.embed_tokens.weight";
