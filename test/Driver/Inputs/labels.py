"""labels.py OUT ROWS SEQUENCE LABEL: a batch whose targets are all LABEL."""

import json
import struct
import sys

rows, sequence, label = (int(text) for text in sys.argv[2:5])
count = rows * sequence
header = {
    name: {"dtype": "I32", "shape": [rows, sequence],
           "data_offsets": [4 * count * i, 4 * count * (i + 1)]}
    for i, name in enumerate(("tokens", "targets"))}
text = json.dumps(header).encode()
text += b" " * (-len(text) % 8)
with open(sys.argv[1], "wb") as out:
    out.write(struct.pack("<Q", len(text)) + text)
    out.write(struct.pack("<%di" % count, *(i % 7 for i in range(count))))
    out.write(struct.pack("<%di" % count, *[label] * count))
