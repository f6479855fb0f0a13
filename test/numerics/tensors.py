"""Reads, writes and compares the tensors of safetensors files, with Python's
standard library alone."""

import array
import json
import math
import struct

# Types that Python's array supports, with its code for each.
CODES = {"F64": "d", "F32": "f", "I64": "q", "I32": "i", "I8": "b", "BOOL": "B"}


class Tensor:
    def __init__(self, dtype, shape, values):
        self.dtype, self.shape, self.values = dtype, tuple(shape), values


def to_bytes(dtype, values):
    if dtype == "F16":
        return struct.pack("<%de" % len(values), *values)
    if dtype == "BF16":  # the upper half of an F32 whose lower half is 0
        words = array.array("I", array.array("f", values).tobytes())
        if any(word & 0xFFFF for word in words):
            raise ValueError("expected numbers that BF16 holds")
        return array.array("H", (word >> 16 for word in words)).tobytes()
    return array.array(CODES[dtype], values).tobytes()


def from_bytes(dtype, data):
    if dtype == "F16":
        return array.array("f", struct.unpack("<%de" % (len(data) // 2), data))
    if dtype == "BF16":
        words = array.array("I", (half << 16 for half in array.array("H", data)))
        return array.array("f", words.tobytes())
    values = array.array(CODES[dtype])
    values.frombytes(data)
    return values


def read(path):
    """Returns the tensors of a file by name."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        tensors[name] = Tensor(entry["dtype"], entry["shape"],
                               from_bytes(entry["dtype"], data[begin:end]))
    return tensors


def write(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        part = to_bytes(tensor.dtype, tensor.values)
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
    """Returns the largest difference, or infinity if one is not finite. (max()
    may ignore a NaN.)"""
    differences = list(differences)
    return max(differences) if all(map(math.isfinite, differences)) else math.inf


def distance(actual, expected):
    """Returns the relative L2 distance, or infinity if shapes differ or a value
    is not finite."""
    if actual.shape != expected.shape:
        return math.inf
    if not all(map(math.isfinite, actual.values)):
        return math.inf
    difference = norm(a - e for a, e in zip(actual.values, expected.values))
    size = norm(expected.values)
    return difference / size if size else (0.0 if difference == 0 else math.inf)
