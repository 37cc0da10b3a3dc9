"""Makes the files beside it with torch: a plain state_dict in three types, and what must be refused. Run it there."""
import collections
import os

import torch

torch.manual_seed(1)
matrix = torch.arange(6, dtype=torch.float32).reshape(2, 3) / 4
torch.save(
    collections.OrderedDict(
        f32=matrix, f16=matrix.half(), bf16=matrix.bfloat16(), view=matrix[1], parameter=torch.nn.Parameter(matrix)
    ),
    "plain.bin",
)
torch.save(torch.nn.Linear(3, 2).state_dict(), "linear.bin")


class Run:
    def __reduce__(self):
        return os.system, ("touch /tmp/shruti-import-was-run",)


torch.save({"f32": matrix, "x": Run()}, "system-call.bin")
torch.save(torch.nn.Linear(3, 2), "module.bin")
torch.save({"f32": matrix}, "old-format.bin", _use_new_zipfile_serialization=False)
torch.save({"epoch": 3, "model": {"f32": matrix}}, "training-state.bin")
torch.save({"transposed": matrix.t()}, "transposed.bin")
torch.save({"f32": matrix}, "protocol-4.bin", pickle_protocol=4)
torch.save({"int": torch.arange(3)}, "integers.bin")
