"""Makes .nemo files with the classes of NeMo itself, and writes what NeMo recognizes with them.

Weights are random with a seed, so texts mean nothing. The bias of the blank is shifted until there are some tokens in a second.

usage: python make_models.py TEXTS RECORDINGS FOLDER [NAME…]

TEXTS: a file with sentences, of which tokenizers are made. RECORDINGS: a folder of WAV files, 16 kHz, mono, 16 bits, at most 20 s.
FOLDER receives NAME.nemo and NAME.json of each model; compare.ts beside this file reads them. With NAME: only those models.
Needs Python with nemo_toolkit[asr]; tried with 1.23.0, 2.4.0 and 3.0.0.
"""

import inspect
import json
import math
import re
import sys
import wave
from pathlib import Path

import numpy
import sentencepiece
import torch
import transformers
from omegaconf import OmegaConf

from nemo import __version__ as NEMO_VERSION
from nemo.collections.asr import models as asr
from nemo.collections.asr.modules import ConformerEncoder

ENCODER = {"layers": 3, "width": 128, "heads": 4, "mels": 80, "factor": 8, "kernel": 9, "norm": "batch_norm"}
FAST = {**ENCODER, "subsampling": "dw_striding", "channels": 32, "xscaling": False, "bias": False, "lstm": 2}
SLOW = {**ENCODER, "subsampling": "striding", "channels": -1, "xscaling": True, "bias": True, "lstm": 1, "factor": 4, "kernel": 31}

# Each differs from the published shapes in its sizes alone.
MODELS = {
    "parakeet": {**FAST, "mels": 128, "tdt": True},
    "parakeet-half": {**FAST, "mels": 128, "tdt": True, "dtype": "float16"},
    "parakeet-bfloat": {**FAST, "mels": 128, "tdt": True, "dtype": "bfloat16"},
    "hybrid-tdt": {**FAST, "xscaling": True, "bias": True, "lstm": 1, "tdt": True, "class": "EncDecHybridRNNTCTCBPEModel"},
    "hybrid-rnnt-agg": {**FAST, "xscaling": True, "bias": True, "lstm": 1, "class": "EncDecHybridRNNTCTCBPEModel", "tokenizer": "agg"},
    "hybrid-characters": {**FAST, "bias": True, "lstm": 1, "class": "EncDecHybridRNNTCTCModel", "tokenizer": "characters"},
    "conformer-rnnt": {**SLOW},
    "conformer-tdt": {**SLOW, "tdt": True},
    "conformer-characters": {**SLOW, "class": "EncDecRNNTModel", "tokenizer": "characters"},
    "conformer-wpe": {**SLOW, "tokenizer": "wpe"},
    "tied": {**SLOW, "untie": False},
    "bytes": {**FAST, "tdt": True, "tokenizer": "bytes"},
    "layer-norm": {**FAST, "tdt": True, "norm": "layer_norm"},
    "fused-norm": {**FAST, "bias": True, "tdt": True, "norm": "fused_batch_norm"},
    "group-norm": {**FAST, "tdt": True, "norm": "group_norm4"},
    "sixteen": {**FAST, "tdt": True, "factor": 16},
    "causal": {**FAST, "norm": "layer_norm", "context": [70, 13], "style": "chunked_limited", "causal": True},
    "local": {**FAST, "attention": "rel_pos_local_attn", "context": [128, 128]},
    "stateless": {**FAST, "decoder": "StatelessTransducerDecoder"},
    "tanh": {**FAST, "tdt": True, "activation": "tanh"},
}
TOKENS_IN_SECOND = 3.5


def tokenizer_folder(kind: str, texts: str, folder: Path) -> dict:
    """Makes a tokenizer. Returns the settings of the model for it."""
    if kind == "agg":
        return {"type": "agg", "langs": {language: tokenizer_folder(language, texts, folder) for language in ("hi", "en")}}
    place = folder / f"tokenizer-{kind}"
    place.mkdir(parents=True, exist_ok=True)
    if kind == "wpe":
        words = sorted(set(re.findall(r"[a-z]+", Path(texts).read_text().lower())))[:150]
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *[f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]]
        (place / "vocab.txt").write_text("\n".join(pieces) + "\n")
        # NeMo asks a server for the settings of this tokenizer, and then reads the file.
        transformers.AutoTokenizer.from_pretrained = lambda *_, vocab_file=None, **others: transformers.BertTokenizer(vocab_file)
        return {"dir": str(place), "type": "wpe"}
    lines = Path(texts).read_text().splitlines()
    chosen = [line for line in lines if kind not in ("hi", "en") or bool(re.search("[\u0900-\u097f]", line)) == (kind == "hi")]
    (place / "texts.txt").write_text("\n".join(chosen))
    sentencepiece.SentencePieceTrainer.train(
        input=str(place / "texts.txt"), model_prefix=str(place / "tokenizer"), vocab_size=400 if kind == "bytes" else 200,
        model_type="bpe", byte_fallback=kind == "bytes", character_coverage=0.98 if kind == "bytes" else 1.0,
        hard_vocab_limit=False, minloglevel=2, bos_id=-1, eos_id=-1,
    )
    processor = sentencepiece.SentencePieceProcessor(str(place / "tokenizer.model"))
    # As NeMo's script process_asr_text_tokenizer.py writes it.
    pieces = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    (place / "vocab.txt").write_text("".join(f"{piece[1:] if piece.startswith('▁') else '##' + piece}\n" for piece in pieces if piece != "<unk>"))
    return {"dir": str(place), "type": "bpe"}


def config_of(model: dict, texts: str, folder: Path) -> dict:
    """Returns what model_config.yaml of NeMo's examples has, with the sizes of the model."""
    durations = [0, 1, 2, 3, 4] if model.get("tdt") else []
    letters = [" ", *"abcdefghijklmnopqrstuvwxyz'"]
    tokenizer = model.get("tokenizer", "bpe")
    greedy = {"greedy": {"max_symbols": 10}, "strategy": "greedy_batch"}
    prednet = {"pred_hidden": "${model_defaults.pred_hidden}", "pred_rnn_layers": model["lstm"], "t_max": None, "dropout": 0.2}
    if model.get("decoder"):
        prednet = {"pred_hidden": "${model_defaults.pred_hidden}", "t_max": None, "dropout": 0.2}
    config = {
        **{"sample_rate": 16000, "compute_eval_loss": False, "log_prediction": True, "skip_nan_grad": False},
        "model_defaults": {
            **{"enc_hidden": "${encoder.d_model}", "pred_hidden": 96, "joint_hidden": 80},
            **({"tdt_durations": durations, "num_tdt_durations": len(durations)} if durations else {}),
        },
        **({"labels": letters} if tokenizer == "characters" else {"tokenizer": tokenizer_folder(tokenizer, texts, folder)}),
        "train_ds": {"manifest_filepath": None, "sample_rate": 16000, "batch_size": 16, "shuffle": True},
        "validation_ds": {"manifest_filepath": None, "sample_rate": 16000, "batch_size": 16, "shuffle": False, "use_start_end_token": False},
        "preprocessor": {
            "_target_": "nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor",
            **{"sample_rate": "${sample_rate}", "normalize": "per_feature", "window_size": 0.025, "window_stride": 0.01},
            **{"window": "hann", "features": model["mels"], "n_fft": 512, "log": True, "frame_splicing": 1, "dither": 0.00001},
            **{"pad_to": 0, "pad_value": 0.0},
        },
        "spec_augment": {
            "_target_": "nemo.collections.asr.modules.SpectrogramAugmentation",
            **{"freq_masks": 2, "time_masks": 10, "freq_width": 27, "time_width": 0.05},
        },
        "encoder": {
            "_target_": "nemo.collections.asr.modules.ConformerEncoder",
            **{"feat_in": "${preprocessor.features}", "feat_out": -1, "n_layers": model["layers"], "d_model": model["width"]},
            **{"subsampling": model["subsampling"], "subsampling_factor": model["factor"]},
            **{"subsampling_conv_channels": model["channels"], "causal_downsampling": model.get("causal", False)},
            **{"reduction": None, "reduction_position": None, "reduction_factor": 1, "ff_expansion_factor": 4},
            **{"self_attention_model": model.get("attention", "rel_pos"), "n_heads": model["heads"]},
            **{"att_context_size": model.get("context", [-1, -1]), "att_context_style": model.get("style", "regular")},
            **{"xscaling": model["xscaling"], "untie_biases": model.get("untie", True), "pos_emb_max_len": 5000},
            **{"conv_kernel_size": model["kernel"], "conv_norm_type": model["norm"]},
            **{"conv_context_size": "causal" if model.get("causal") else None, "use_bias": model["bias"]},
            **{"dropout": 0.1, "dropout_pre_encoder": 0.1, "dropout_emb": 0.0, "dropout_att": 0.1},
            **{"stochastic_depth_drop_prob": 0.0, "stochastic_depth_mode": "linear", "stochastic_depth_start_layer": 1},
        },
        "decoder": {
            "_target_": f"nemo.collections.asr.modules.{model.get('decoder', 'RNNTDecoder')}",
            **{"normalization_mode": None, "blank_as_pad": True, "prednet": prednet},
            **({"context_size": 2} if model.get("decoder") else {"random_state_sampling": False}),
        },
        "joint": {
            "_target_": "nemo.collections.asr.modules.RNNTJoint",
            **{"log_softmax": None, "preserve_memory": False, "fuse_loss_wer": True, "fused_batch_size": 4},
            "jointnet": {"joint_hidden": "${model_defaults.joint_hidden}", "activation": model.get("activation", "relu"), "dropout": 0.2},
            **({"num_extra_outputs": "${model_defaults.num_tdt_durations}"} if durations else {}),
        },
        "decoding": {**greedy, **({"model_type": "tdt", "durations": "${model_defaults.tdt_durations}"} if durations else {})},
        "loss": {"loss_name": "default", "warprnnt_numba_kwargs": {"fastemit_lambda": 0.0, "clamp": -1.0}},
        "optim": {"name": "adamw", "lr": 0.001},
    }
    if durations:
        config["loss"] = {
            "loss_name": "tdt",
            "tdt_kwargs": {"fastemit_lambda": 0.0, "clamp": -1.0, "durations": "${model_defaults.tdt_durations}", "sigma": 0.02, "omega": 0.1},
        }
    # Release 1 has biases everywhere.
    if "use_bias" not in inspect.signature(ConformerEncoder.__init__).parameters: del config["encoder"]["use_bias"]
    if "Hybrid" in model.get("class", ""):
        config["aux_ctc"] = {
            **{"ctc_loss_weight": 0.3, "use_cer": False, "ctc_reduction": "mean_batch"},
            "decoder": {"_target_": "nemo.collections.asr.modules.ConvASRDecoder", "feat_in": None, "num_classes": -1, "vocabulary": letters if tokenizer == "characters" else []},
            "decoding": {"strategy": "greedy"},
        }
        config["interctc"] = {"loss_weights": [], "apply_at_layers": []}
    return config


def make(model: dict, texts: str, folder: Path, seed: int):
    """Makes a model, whose weights are more decided than those of a fresh one."""
    torch.manual_seed(seed)
    config = OmegaConf.create(config_of(model, texts, folder))
    made = getattr(asr, model.get("class", "EncDecRNNTBPEModel"))(config)
    made.eval()
    with torch.no_grad():
        for name, value in made.state_dict().items():
            width = value.shape[-1] if value.dim() else 1
            if "lstm.weight" in name: value.normal_(0, 1.5 / math.sqrt(width))
            elif "prediction.embed" in name: value[:-1].normal_(0, 1)
            elif name == "joint.pred.weight": value.normal_(0, (1 if model.get("tdt") else 4) / math.sqrt(width))
            elif name == "joint.enc.weight": value.normal_(0, 3 / math.sqrt(width))
            elif re.match(r"joint\.joint_net\.\d\.weight", name): value.normal_(0, 8 / math.sqrt(width))
            elif "pos_bias" in name: value.normal_(0, 0.3)
            elif "running_mean" in name or name.endswith("batch_norm.bias"): value.normal_(0, 0.1)
            elif "running_var" in name: value.uniform_(0.3, 0.7)
            elif name.endswith("batch_norm.weight"): value.uniform_(0.5, 1.5)
            # Numbers of 16 bits, so that files with those differ by their activations alone.
            if value.is_floating_point() and "featurizer" not in name: value.copy_(value.half().float())
    return made


def samples_of(path: Path) -> numpy.ndarray:
    with wave.open(str(path)) as file:
        return numpy.frombuffer(file.readframes(file.getnframes()), numpy.int16).astype(numpy.float32) / 32768


class Steps:
    """Greedy decoding, step by step, with the margin of each choice."""

    def __init__(self, model, durations):
        self.model, self.durations = model, durations
        self.blank = model.joint.num_classes_with_blank - 1 - len(durations)

    def encode(self, samples):
        preprocessor = self.model.preprocessor
        preprocessor.featurizer.dither, preprocessor.featurizer.pad_to = 0.0, 0
        features, length = preprocessor(input_signal=torch.tensor(samples)[None], length=torch.tensor([len(samples)]))
        if next(self.model.encoder.parameters()).dtype != features.dtype:
            features = features.to(next(self.model.encoder.parameters()).dtype)
        encoded, length = self.model.encoder(audio_signal=features, length=length)
        return encoded[0, :, : length[0]].T

    def decode(self, encoded):
        steps, state, frame, symbols = [], None, 0, 0
        joint, decoder = self.model.joint, self.model.decoder
        output, state = decoder.predict(None, None, add_sos=False, batch_size=1)
        while frame < encoded.shape[0]:
            logits = joint.joint(encoded[frame][None, None], output)[0, 0, 0]
            scores = logits[: self.blank + 1]
            best = torch.topk(scores, 2)
            token, duration, margin = int(best.indices[0]), 0, float(best.values[0] - best.values[1])
            if self.durations:
                ranked = torch.topk(logits[self.blank + 1 :], 2)
                duration, margin = self.durations[int(ranked.indices[0])], min(margin, float(ranked.values[0] - ranked.values[1]))
            step = {"id": token, "frame": frame, "duration": duration, "margin": margin}
            if token == self.blank:
                duration = max(1, duration)
            else:
                step["probability"] = float(torch.softmax(scores.double(), -1)[token])
                output, state = decoder.predict(torch.tensor([[token]]), state, add_sos=False, batch_size=1)
                symbols += 1
                if duration == 0 and symbols >= 10: duration = 1
            steps.append(step)
            if duration > 0: symbols = 0
            frame += duration
        return steps

    def tokens(self, encoded):
        return [step for step in self.decode(encoded) if step["id"] != self.blank]


def shift_blank(model, steps: Steps, sounds: list) -> None:
    """Finds a bias of the blank with which there are some tokens in a second."""
    bias = [value for name, value in model.joint.joint_net.named_parameters() if name.endswith("bias")][-1]
    encoded = [steps.encode(samples) for samples in sounds]
    seconds = sum(len(samples) for samples in sounds) / 16000
    low, high = -60.0, 120.0
    for _ in range(12):
        bias.data[steps.blank] = torch.tensor((low + high) / 2).half().float()
        count = sum(len(steps.tokens(frames)) for frames in encoded)
        if count > TOKENS_IN_SECOND * seconds: low = (low + high) / 2
        else: high = (low + high) / 2


def recognized(model, paths: list, is_tdt: bool) -> list:
    """What the toolkit itself recognizes: numbers, frames and confidence of tokens, times of words."""
    def run(changes: dict, arguments: dict):
        decoding = OmegaConf.create({**OmegaConf.to_container(model.cfg.decoding, resolve=True), **changes})
        model.change_decoding_strategy(decoding)
        names = inspect.signature(model.transcribe).parameters
        wanted = {"batch_size": 1, "return_hypotheses": True, "verbose": False, "num_workers": 0, **arguments}
        # Release 3 cannot read files for joined tokenizers, and release 1 reads nothing else.
        sounds = [str(path) for path in paths] if NEMO_VERSION.startswith("1.") else [samples_of(path) for path in paths]
        found = model.transcribe(sounds, **{name: value for name, value in wanted.items() if name in names})
        return found[0] if isinstance(found, tuple) else found

    if NEMO_VERSION.startswith("1."):
        # Release 1 fails at both with some models.
        sure = found = run({}, {})
    else:
        # Together, both fail with some releases.
        method = {"name": "max_prob", "alpha": 1.0}
        confidence = {"preserve_token_confidence": True, "exclude_blank": True, "method_cfg": method}
        sure = run({"preserve_alignments": True, "confidence_cfg": confidence}, {})
        has_words = getattr(model, "tokenizer_type", None) != "agg"
        times = {"compute_timestamps": has_words, "preserve_alignments": True, "confidence_cfg": {"preserve_token_confidence": False}}
        found = run(times, {"timestamps": has_words})
    model.eval()  # transcribe leaves it in training
    results = []
    for hypothesis, with_confidence in zip(found, sure):
        times = hypothesis.timestamp if hasattr(hypothesis, "timestamp") else hypothesis.timestep
        times = times if isinstance(times, dict) else {"timestep": times}
        results.append({
            "text": hypothesis.text,
            "ids": [int(number) for number in hypothesis.y_sequence],
            "frames": [int(number) for number in times.get("timestep", [])],
            "durations": [int(number) for number in getattr(hypothesis, "token_duration", None) or []] if is_tdt else [],
            "confidence": [float(number) for number in with_confidence.token_confidence or []],
            "words": [{"text": word.get("word"), "start": word.get("start"), "end": word.get("end")} for word in times.get("word", [])],
        })
    return results


def main() -> None:
    texts, recordings, folder, *names = sys.argv[1:]
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = sorted(Path(recordings).glob("*.wav"))
    for number, (name, shape) in enumerate(MODELS.items()):
        if names and name not in names: continue
        try:
            model = make(shape, texts, folder, seed=100 + number)
            durations = [0, 1, 2, 3, 4] if shape.get("tdt") else []
            steps, is_greedy = Steps(model, durations), not shape.get("decoder")
            if is_greedy: shift_blank(model, steps, [samples_of(path) for path in paths[:3]])
            if shape.get("dtype"):
                model.to(getattr(torch, shape["dtype"]))
                model.save_to(str(folder / f"{name}.nemo"))
                # Half numbers are what was saved; the processor computes with whole ones.
                model = model.float()
            else: model.save_to(str(folder / f"{name}.nemo"))
            found = recognized(model, paths, bool(durations))
            sounds = [{"recording": str(path.resolve()), **result, "blank": steps.blank, "steps": steps.decode(steps.encode(samples_of(path))) if is_greedy else []} for path, result in zip(paths, found)]
            (folder / f"{name}.json").write_text(json.dumps({"nemo": NEMO_VERSION, "sounds": sounds}, ensure_ascii=False))
            print(name, sum(len(sound["ids"]) for sound in sounds), "tokens;", "as step by step" if all(sound["ids"] == [step["id"] for step in sound["steps"] if "probability" in step] for sound in sounds) else "NOT as step by step", flush=True)
        except Exception as error:  # one model that NeMo refuses does not end the others
            import traceback
            traceback.print_exc()
            print(name, "failed:", repr(error)[:300], flush=True)


main()
