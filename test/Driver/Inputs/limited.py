"""Runs a command in which no file can grow beyond a number of bytes, and checks
that it fails with exit code 1."""

import resource
import subprocess
import sys

limit, *command = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
code = subprocess.run(command).returncode
if code != 1:
    sys.exit("expected exit code 1, got %d" % code)
