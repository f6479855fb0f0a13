"""Runs a training, sends it SIGINT after its third step as Ctrl-C does, passes
its output on, and checks that it exits with 130."""

import signal
import subprocess
import sys

process = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True)
steps, sent = 0, False
for line in process.stdout:
    sys.stdout.write(line)
    steps += '"loss"' in line
    if steps == 3 and not sent:  # a second one would end it at once
        process.send_signal(signal.SIGINT)
        sent = True
if process.wait() != 130:
    sys.exit("expected exit code 130, got %d" % process.returncode)
