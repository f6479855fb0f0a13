"""Runs a command in which no file can grow beyond a number of bytes, or that has
so much address space with --memory, and checks that it fails with exit code 1.

    limited.py [--memory] BYTES COMMAND...
"""

import resource
import subprocess
import sys

limited = resource.RLIMIT_FSIZE
if sys.argv[1] == "--memory":
    limited = resource.RLIMIT_AS
    del sys.argv[1]
limit, *command = sys.argv[1:]
resource.setrlimit(limited, (int(limit), resource.RLIM_INFINITY))
code = subprocess.run(command).returncode
if code != 1:
    sys.exit("expected exit code 1, got %d" % code)
