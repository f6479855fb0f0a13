"""Runs a training, reads a few lines of its output and closes the pipe. Prints
these lines and the training's errors, and checks that it exits with 1."""

import subprocess
import sys

process = subprocess.Popen(
    sys.argv[1:], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
for _ in range(5):
    sys.stdout.write(process.stdout.readline())
process.stdout.close()
sys.stdout.write(process.stderr.read())
if process.wait() != 1:
    sys.exit("expected exit code 1, got %d" % process.returncode)
