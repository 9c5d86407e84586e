"""Families of trained models, one module for each: from tensors and a configuration to blocks."""

from attnflow.checkpoints.architectures.albert import Albert
from attnflow.checkpoints.architectures.architecture import Architecture
from attnflow.checkpoints.architectures.bert import Bert
from attnflow.checkpoints.architectures.gpt2 import GPT2
from attnflow.checkpoints.architectures.llama import Llama, LlamaGGUF, gguf_settings
from attnflow.checkpoints.architectures.neox import NeoX
from attnflow.checkpoints.architectures.settings import Settings

FAMILIES: dict[str, type[Architecture]] = {one.family: one for one in (Bert, Albert, GPT2, NeoX, Llama)}

__all__ = ["FAMILIES", "Architecture", "LlamaGGUF", "Settings", "gguf_settings"]
