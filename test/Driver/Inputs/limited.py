"""Runs a command under a limit of bytes and checks that it fails with exit code 1.
The limit is the size of any file or, with --memory, that of the address space.

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
