"""A small network with random weights that takes raw samples, in the form of Omnilingual's CTC models: one frame of output
for 320 samples, and letters as tokens. Its text means nothing; it serves to compare engines.
usage: raw.py FOLDER"""
import os, sys
import torch
from torch import nn
from words import TOKENS


class Raw(nn.Module):
    def __init__(self, outputs, width=24):
        super().__init__()
        layers = [nn.Conv1d(1, width, 10, 5)]
        for _ in range(6):
            layers += [nn.ReLU(), nn.Conv1d(width, width, 3, 2, 1)]
        self.net, self.out = nn.Sequential(*layers), nn.Linear(width, outputs)

    def forward(self, x):
        y = self.net(x.unsqueeze(1)).transpose(1, 2)
        # Differences to the mean over time are most of what differs between frames.
        y = y - y.mean(1, keepdim=True)
        return self.out(y * torch.rsqrt((y * y).mean(2, keepdim=True) + 1e-9)) * 4


if __name__ == "__main__":
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(4)
    # The blank comes first, and the space is a token.
    tokens = ["<blk>", "<pad>", "</s>", "<unk>", " "] + [t for t in TOKENS if len(t) == 1]
    model = Raw(len(tokens)).eval()
    with torch.no_grad():
        model.out.bias[0] += 0.3
        torch.onnx.export(model, torch.randn(1, 48000), f"{folder}/model.onnx", opset_version=14, input_names=["x"],
                          output_names=["logits"], dynamic_axes={"x": {0: "N", 1: "s"}, "logits": {0: "N", 1: "t"}})
    with open(f"{folder}/tokens.txt", "w") as file:
        file.writelines(f"{token} {number}\n" for number, token in enumerate(tokens))
