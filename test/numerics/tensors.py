"""Safetensors files with nothing but the standard library, and how to compare
what is in them."""

import array
import json
import math
import struct

CODES = {"F32": "f", "I32": "i", "I64": "q"}


class Tensor:
    def __init__(self, dtype, shape, values):
        self.dtype, self.shape, self.values = dtype, tuple(shape), values


def read(path):
    """The tensors of a file by name."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = array.array(CODES[entry["dtype"]])
        values.frombytes(data[begin:end])
        tensors[name] = Tensor(entry["dtype"], entry["shape"], values)
    return tensors


def write(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        part = array.array(CODES[tensor.dtype], tensor.values).tobytes()
        header[name] = {
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "data_offsets": [len(data), len(data) + len(part)],
        }
        data += part
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def norm(values):
    return math.sqrt(math.fsum(x * x for x in values))


def largest(differences):
    """The largest of some differences, infinite if one is not a number, which
    max() may pass over."""
    differences = list(differences)
    return max(differences) if all(map(math.isfinite, differences)) else math.inf


def distance(actual, expected):
    """Relative L2 distance; infinite where shapes differ or a value is not
    finite."""
    if actual.shape != expected.shape:
        return math.inf
    if not all(map(math.isfinite, actual.values)):
        return math.inf
    difference = norm(a - e for a, e in zip(actual.values, expected.values))
    size = norm(expected.values)
    return difference / size if size else (0.0 if difference == 0 else math.inf)
