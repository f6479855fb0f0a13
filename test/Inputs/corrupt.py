"""Copies a safetensors file and damages the copy.

    corrupt.py KIND FROM TO

truncated    the last 64 bytes are missing
long-header  the header claims to be longer than the file
outside      a tensor's bytes lie beyond the end of the file
overlap      two tensors share bytes
dtype        a tensor's type does not fit its size
shape        a tensor has one row more, its bytes too
missing      a tensor's name is changed
not-json     the header is no JSON
number       a tensor's offset is beyond any number
nan          the second element of a tensor is NaN
"""

import json
import struct
import sys

kind, source, target = sys.argv[1:]
with open(source, "rb") as file:
    (length,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    data = file.read()

names = sorted((name for name in header if name != "__metadata__"),
               key=lambda name: header[name]["data_offsets"])
first, second, last = names[0], names[min(1, len(names) - 1)], names[-1]
text = None
if kind == "truncated":
    data = data[:-64]
elif kind == "long-header":
    pass
elif kind == "outside":
    begin, end = header[last]["data_offsets"]
    header[last]["data_offsets"] = [begin + 4096, end + 4096]
elif kind == "overlap":
    begin, end = header[second]["data_offsets"]
    header[second]["data_offsets"] = [begin - 4, end - 4]
elif kind == "dtype":
    header[last]["dtype"] = "F16"
elif kind == "shape":
    row = (header[last]["data_offsets"][1] - header[last]["data_offsets"][0]) \
        // header[last]["shape"][0]
    header[last]["shape"][0] += 1
    header[last]["data_offsets"][1] += row
    data += bytes(row)
elif kind == "missing":
    header[last + ".renamed"] = header.pop(last)
elif kind == "nan":
    begin = header[last]["data_offsets"][0] + 4
    data = data[:begin] + struct.pack("<f", float("nan")) + data[begin + 4:]
elif kind == "number":
    header[last]["data_offsets"] = "NUMBER"
    text = json.dumps(header).replace('"NUMBER"', "[0, 1e999]").encode()
elif kind == "not-json":
    text = b"{ this is no JSON"
else:
    sys.exit(__doc__)

text = text or json.dumps(header).encode()
length = len(text) + len(data) + 1000 if kind == "long-header" else len(text)
with open(target, "wb") as file:
    file.write(struct.pack("<Q", length) + text + data)
