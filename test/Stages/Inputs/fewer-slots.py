"""fewer-slots.py NONE ROOM SOME: of three simulations, the second has the slots of
the first one on each device, and the third has fewer on the first device."""

import json
import sys

none, room, some = ([ranks["slots"] for ranks in json.load(open(path))["list_times"]]
                    for path in sys.argv[1:])
assert none == room, (none, room)
assert some[0] < none[0], (none, some)
