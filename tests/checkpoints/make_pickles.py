"""Write fixtures/*.bin with torch: `python make_pickles.py FOLDER`, in an environment that has torch and NumPy.

Each file has the tensors of `expected.npz`, of random numbers: in the zip format, in the format before 2020, and with
its storages shared between tensors, transposed and sliced.
"""

import sys
from collections import OrderedDict
from pathlib import Path

import numpy as np


def main(folder: Path) -> None:
    import torch  # here, since pytest imports this file

    torch.manual_seed(0)
    base = torch.randn(4, 3)
    weights = OrderedDict(
        whole=base,
        transposed=base.t(),
        rows=base[1:3],
        single=torch.randn(()),
        half=torch.randn(3).half(),
        brain=torch.randn(2, 2).bfloat16(),
        double=torch.randn(2).double(),
        ids=torch.arange(4).expand(1, -1),
        mask=torch.tensor([True, False]),
        none=torch.zeros(0, 2),
    )
    weights["parameter"] = torch.nn.Parameter(torch.randn(2))
    vars(weights)["_metadata"] = OrderedDict({"": {"version": 1}})  # as the state_dict of a module has it
    torch.save(weights, folder / "archive.bin")
    torch.save(weights, folder / "older.bin", _use_new_zipfile_serialization=False)
    numbers = {name: tensor.detach() for name, tensor in weights.items()}
    plain = {
        name: one.float() if one.dtype in (torch.float16, torch.bfloat16) else one for name, one in numbers.items()
    }
    np.savez(folder / "expected.npz", **{name: tensor.numpy() for name, tensor in plain.items()})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
