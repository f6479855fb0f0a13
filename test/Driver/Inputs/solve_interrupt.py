"""Runs a command that searches, sends it a signal (SIGINT, as Ctrl-C does) once
it has found an assignment, and passes on what it prints. Its exit code must be
0."""

import signal
import subprocess
import sys

process = subprocess.Popen(
    sys.argv[2:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
)
last, sent = "", False
for line in process.stderr:
    if not sent and " cost " in line and "cost none" not in line:
        process.send_signal(signal.Signals[sys.argv[1]])
        sent = True
    last = line
sys.stdout.write(last + process.stdout.read())
if process.wait() != 0:
    sys.exit("expected exit code 0, got %d" % process.returncode)
