"""Interrupts a command at its first candidate. Expects the exit code of an interrupt,
and prints what the command prints afterwards."""

import signal
import subprocess
import sys

process = subprocess.Popen(
    sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
)
while " candidates: " not in (line := process.stderr.readline()):
    assert line, "no candidate was reported"
process.send_signal(signal.SIGINT)
output, errors = process.communicate(timeout=120)
assert process.returncode == 130, process.returncode
print(output, errors)
