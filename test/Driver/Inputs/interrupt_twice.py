"""Runs a training and sends it SIGINT twice in a row after its third step.
Checks that one of the two signals ended it."""

import signal
import subprocess
import sys

process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
steps = 0
for line in process.stdout:
    steps += '"loss"' in line
    if steps == 3:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        steps += 1
if process.wait() not in (130, -signal.SIGINT):
    sys.exit("expected an interruption, got %d" % process.returncode)
