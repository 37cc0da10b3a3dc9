#!/usr/bin/env python3
"""Makes a CTC model with NeMo's own classes and random weights, and exports it with NeMo's own exporter: for tests of what real
exports look like, and for measurements of time, where no trained weights are at hand.

    python3 nemo-export.py FOLDER [--indic] [--int8 QUInt8|QInt8] [--reference RECORDING.wav ...]

Without --indic FOLDER has one graph and tokens.txt, as the NeMo scripts of sherpa-onnx write them. With it, FOLDER/assets has
encoder and head as AI4Bharat's repository of IndicConformer-600M. --reference writes NAME.npy to FOLDER/reference: NeMo's own
log-probabilities, and NAME.wav.npy: the features of NeMo's own preprocessor, 32-bit floats.

Needs nemo_toolkit[asr] 3.0.0, onnx and onnxruntime. NeMo's other exporter (`use_dynamo`) calls `torch.onnx.dynamo_export`, which torch
2.15 does not have."""
import argparse
import copy
import json
import os
import tempfile

import numpy as np
import onnx
import sentencepiece
import torch
from nemo.collections.asr.models import EncDecHybridRNNTCTCBPEModel
from nemo.collections.asr.parts.preprocessing.features import FilterbankFeatures
from nemo.collections.asr.parts.submodules.subsampling import MaskedConvSequential
from omegaconf import OmegaConf
from onnxruntime.quantization import QuantType, quantize_dynamic

LANGUAGES = "as bn brx doi kok gu hi kn ks mai ml mr mni ne or pa sa sat sd ta te ur".split()
SHAPES = {
    "small": dict(layers=2, width=64, heads=4, channels=32),
    "120m": dict(layers=17, width=512, heads=8, channels=256),
    "600m": dict(layers=24, width=1024, heads=8, channels=256),
}
TOKENS_OF_LANGUAGE = 256


def tokenizer(folder, tokens):
    """Trains a tokenizer on made words, because a model of NeMo has one."""
    random = np.random.default_rng(1)
    syllables = [a + b for a in "kgcjtdnpbmyrlvsh" for b in "aeiou"]
    lines = [" ".join("".join(random.choice(syllables, random.integers(1, 5))) for _ in range(9)) for _ in range(9000)]
    text = os.path.join(folder, "text.txt")
    with open(text, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    prefix = os.path.join(folder, "tokenizer")
    sentencepiece.SentencePieceTrainer.train(
        input=text, model_prefix=prefix, vocab_size=tokens, model_type="bpe", minloglevel=2
    )
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        pieces = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
        file.writelines(pieces.id_to_piece(n) + "\n" for n in range(tokens))
    return folder


def configuration(a, tokens, folder):
    head = {"_target_": "nemo.collections.asr.modules.ConvASRDecoder", "feat_in": None, "num_classes": -1, "vocabulary": []}
    return OmegaConf.create({
        "sample_rate": 16000,
        "compute_eval_loss": False,
        "skip_nan_grad": False,
        "model_defaults": {"enc_hidden": a.width, "pred_hidden": 32, "joint_hidden": 32},
        "tokenizer": {"dir": tokenizer(folder, tokens), "type": "bpe"},
        "preprocessor": {
            "_target_": "nemo.collections.asr.modules.AudioToMelSpectrogramPreprocessor",
            "sample_rate": 16000, "normalize": "per_feature", "window_size": 0.025, "window_stride": 0.01,
            "window": "hann", "features": 80, "n_fft": 512, "log": True, "frame_splicing": 1, "dither": 0.0,
            "pad_to": 0, "pad_value": 0.0,
        },
        "encoder": {
            "_target_": "nemo.collections.asr.modules.ConformerEncoder",
            "feat_in": 80, "feat_out": -1, "n_layers": a.layers, "d_model": a.width, "subsampling": a.subsampling,
            "subsampling_factor": a.factor, "subsampling_conv_channels": a.channels, "causal_downsampling": False,
            "ff_expansion_factor": 4, "self_attention_model": "rel_pos", "n_heads": a.heads,
            "att_context_size": [-1, -1], "att_context_style": "regular", "xscaling": a.xscaling,
            "untie_biases": True, "pos_emb_max_len": 5000, "conv_kernel_size": a.kernel,
            "conv_norm_type": "batch_norm", "conv_context_size": None, "use_bias": a.bias,
            "dropout": 0.1, "dropout_pre_encoder": 0.1, "dropout_emb": 0.0, "dropout_att": 0.1,
        },
        "decoder": {
            "_target_": "nemo.collections.asr.modules.RNNTDecoder", "normalization_mode": None,
            "random_state_sampling": False, "blank_as_pad": True,
            "prednet": {"pred_hidden": 32, "pred_rnn_layers": 1, "t_max": None, "dropout": 0.2},
        },
        "joint": {
            "_target_": "nemo.collections.asr.modules.RNNTJoint", "log_softmax": None, "preserve_memory": False,
            "fuse_loss_wer": True, "fused_batch_size": 4,
            "jointnet": {"joint_hidden": 32, "activation": "relu", "dropout": 0.2},
        },
        "decoding": {"strategy": "greedy_batch", "greedy": {"max_symbols": 10}},
        "aux_ctc": {"ctc_loss_weight": 0.3, "use_cer": False, "ctc_reduction": "mean_batch", "decoder": head,
                    "decoding": {"strategy": "greedy"}},
        "loss": {"loss_name": "default", "warprnnt_numba_kwargs": {"fastemit_lambda": 0.0, "clamp": -1.0}},
        "optim": {"name": "adamw", "lr": 1e-3},
    })


@torch.no_grad()
def randomize(model, seed):
    """Gives numbers to what NeMo begins with nothing or one, and lets the head tell frames apart."""
    torch.manual_seed(seed)
    for name, value in [*model.encoder.named_parameters(), *model.encoder.named_buffers()]:
        if name.endswith("running_var"):
            value.uniform_(0.5, 1.5)
        elif name.endswith(("bias", "running_mean", "pos_bias_u", "pos_bias_v")):
            value.normal_(0, 0.1)
        elif ("norm" in name) and name.endswith("weight"):
            value.uniform_(0.5, 1.5)
    for name, value in model.ctc_decoder.named_parameters():
        value.normal_(0, 1.5 * model.encoder.d_model**-0.5 if name.endswith("weight") else 0.1)


@torch.no_grad()
def centre(model):
    """Takes what all frames have in common out of the scores, so that many tokens occur."""
    features = torch.randn(1, 80, 800)
    encoded, _ = model.encoder(audio_signal=features, length=torch.tensor([800]))
    layer = model.ctc_decoder.decoder_layers[0]
    layer.bias.copy_(-layer.weight[:, :, 0] @ encoded[0].mean(dim=1))


def use_old_parts():
    """Takes what NeMo up to 2.4 had: subsampling without masks, and features with the sound's reflection around it, of one frame more."""
    MaskedConvSequential.forward = without_masks
    FilterbankFeatures.get_seq_len = lambda self, length: torch.floor_divide(length, self.hop_length) + 1
    FilterbankFeatures.stft = lambda self, x: torch.stft(
        x, n_fft=self.n_fft, hop_length=self.hop_length, win_length=self.win_length, center=True,
        window=self.window.to(torch.float), return_complex=True)


def without_masks(self, x, lengths):
    x, lengths = x.unsqueeze(1), lengths.clone().float()
    for layer in self:
        x = layer(x)
        if getattr(layer, "stride", (1, 1)) != (1, 1):
            lengths = torch.floor((lengths + 2 * layer.padding[0] - layer.kernel_size[0]) / layer.stride[0]) + 1
    return x, lengths.long()


def save_outside(path):
    """Puts each weight into a file of its own, as torch does where a model is larger than 2 GB."""
    if any(w.data_location for w in onnx.load(path, load_external_data=False).graph.initializer):
        return
    onnx.save(onnx.load(path), path, save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=1024,
              convert_attribute=True)


def rounded(path, a):
    quantize_dynamic(path, path + ".int8", weight_type=getattr(QuantType, a.int8), per_channel=a.per_channel)
    net = onnx.load(path, load_external_data=False)
    for weight in net.graph.initializer:
        for entry in weight.external_data:
            if entry.key == "location" and os.path.exists(os.path.join(os.path.dirname(path), entry.value)):
                os.remove(os.path.join(os.path.dirname(path), entry.value))
    os.replace(path + ".int8", path)


def write_single(model, a):
    path = os.path.join(a.folder, "model.onnx")
    model.set_export_config({"decoder_type": "ctc"})
    model.export(path, onnx_opset_version=a.opset)
    vocabulary = model.joint.vocabulary
    with open(os.path.join(a.folder, "tokens.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{token} {number}\n" for number, token in enumerate([*vocabulary, "<blk>"]))
    if a.int8:
        rounded(path, a)
    net = onnx.load(path, load_external_data=False)
    onnx.helper.set_model_props(net, {
        "vocab_size": str(len(vocabulary)), "normalize_type": "per_feature", "subsampling_factor": str(a.factor),
        "model_type": "EncDecHybridRNNTCTCBPEModel", "version": "1", "model_author": "NeMo",
        "comment": "Only the CTC branch is exported",
    })
    onnx.save(net, path)


def write_indic(model, a, languages):
    folder = os.path.join(a.folder, "assets")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "encoder.onnx")
    model.encoder.export(path, onnx_opset_version=a.opset)
    model.ctc_decoder.export(os.path.join(folder, "ctc_decoder.onnx"), onnx_opset_version=a.opset)
    if a.int8:
        rounded(path, a)
    else:
        save_outside(path)
    count = len(languages) * TOKENS_OF_LANGUAGE + 1
    tokens = {code: ["<unk>", *(f"▁{code}{n}" for n in range(1, TOKENS_OF_LANGUAGE)), "|"] for code in languages}
    masks = {code: [n // TOKENS_OF_LANGUAGE == i or n == count - 1 for n in range(count)] for i, code in enumerate(languages)}
    for name, value in (("vocab.json", tokens), ("language_masks.json", masks)):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(value, file)


@torch.no_grad()
def write_references(model, a):
    """What NeMo itself computes. Recordings are WAV of 16 kHz, 16 bits, one channel."""
    import soundfile

    folder = os.path.join(a.folder, "reference")
    os.makedirs(folder, exist_ok=True)
    model.eval()
    for recording in a.reference:
        samples, rate = soundfile.read(recording, dtype="float32")
        assert rate == 16000 and samples.ndim == 1, recording
        sound, length = torch.tensor(samples)[None], torch.tensor([len(samples)])
        features, frames = model.preprocessor(input_signal=sound, length=length)
        encoded, _ = model.encoder(audio_signal=features, length=frames)
        scores = model.ctc_decoder(encoder_output=encoded)
        name = os.path.join(folder, os.path.splitext(os.path.basename(recording))[0])
        np.save(name + ".wav.npy", features[0].numpy())
        np.save(name + ".npy", scores[0].numpy())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--shape", choices=SHAPES, default="small")
    for name in ("layers", "width", "heads", "channels"):
        parser.add_argument(f"--{name}", type=int, help="instead of that of the shape")
    parser.add_argument("--subsampling", choices=("dw_striding", "striding"), default="dw_striding")
    parser.add_argument("--factor", type=int, default=8)
    parser.add_argument("--kernel", type=int, default=9)
    parser.add_argument("--xscaling", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--bias", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--before-2.5", dest="is_old", action="store_true",
                        help="subsampling and features as NeMo up to 2.4 has them, with which IndicConformer was made")
    parser.add_argument("--languages", type=int, default=len(LANGUAGES))
    parser.add_argument("--tokens", type=int, default=1024, help="of a model with one graph")
    parser.add_argument("--indic", action="store_true")
    parser.add_argument("--int8", choices=("QUInt8", "QInt8"))
    parser.add_argument("--per-channel", action="store_true")
    parser.add_argument("--opset", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reference", nargs="*", default=[])
    parser.add_argument("--references-only", action="store_true")
    a = parser.parse_args()
    for name, value in SHAPES[a.shape].items():
        setattr(a, name, getattr(a, name) or value)
    return a


def main():
    a = arguments()
    os.makedirs(a.folder, exist_ok=True)
    torch.manual_seed(a.seed)
    languages = LANGUAGES[: a.languages]
    if a.is_old:
        use_old_parts()
    with tempfile.TemporaryDirectory() as folder:
        cfg = configuration(a, TOKENS_OF_LANGUAGE if a.indic else a.tokens, folder)
        model = EncDecHybridRNNTCTCBPEModel(cfg=cfg)
    if a.indic:
        head = OmegaConf.to_container(copy.deepcopy(cfg.aux_ctc.decoder))
        names = [f"{code}{n}" for code in languages for n in range(TOKENS_OF_LANGUAGE)]
        head.update(feat_in=a.width, num_classes=len(names), vocabulary=names)
        model.ctc_decoder = EncDecHybridRNNTCTCBPEModel.from_config_dict(OmegaConf.create(head))
    randomize(model, a.seed)
    model.eval()
    centre(model)
    write_references(model, a)
    if a.references_only:
        return
    write_indic(model, a, languages) if a.indic else write_single(model, a)


if __name__ == "__main__":
    main()
