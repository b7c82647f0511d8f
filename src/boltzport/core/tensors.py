"""Safetensors files whose bytes depend on their content alone."""

import json

import safetensors.torch
from torch import Tensor


def to_safetensors(tensors: dict[str, Tensor], *, metadata: dict[str, str] | None = None) -> bytes:
    """Tensors as a safetensors file with an ordered header; the library writes the metadata in random order.

    Example:
        >>> import torch
        >>> one = to_safetensors({"a": torch.ones(2)}, metadata={"y": "1", "x": "2"})
        >>> one == to_safetensors({"a": torch.ones(2)}, metadata={"x": "2", "y": "1"})
        True
        >>> safetensors.torch.load(one)["a"]
        tensor([1., 1.])
    """
    content = safetensors.torch.save({name: value.contiguous() for name, value in tensors.items()}, metadata=metadata)
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    if "__metadata__" in header:
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    # The format pads the header with spaces, so that the tensors are aligned to eight bytes.
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content[8 + length :]
