"""Runs a training, sends it SIGINT after its third step and again at once, and
checks that it ended, by the second signal or already by the first."""

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
