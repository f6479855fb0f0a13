"""Interrupts a command at its first line of progress. Expects the exit code of
an interrupt, and a message."""

import signal
import subprocess
import sys

process = subprocess.Popen(
    sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
)
assert " candidates: " in process.stderr.readline()
process.send_signal(signal.SIGINT)
_, rest = process.communicate(timeout=120)
assert process.returncode == 130, process.returncode
assert "error: --plan auto: interrupted before a plan was chosen" in rest, rest
