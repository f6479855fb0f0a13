"""Runs a command on a terminal of 60 columns. Prints the lines that the terminal
shows in the end, and how often a line was rewritten."""

import fcntl
import os
import pty
import re
import struct
import sys
import termios

child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 60, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
output = b""
while True:
    try:
        data = os.read(terminal, 65536)
    except OSError:  # the child closed its side
        break
    if not data:
        break
    output += data
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
rewritten = 0
for line in output.decode().replace("\r\n", "\n").split("\n"):
    versions = [re.sub(r"\x1b\[K", "", v) for v in line.split("\r") if v]
    rewritten += max(0, len(versions) - 1)
    if versions:
        print(versions[-1])
        if any(len(v) > 60 and re.match(r"step +\d+/", v) for v in versions):
            sys.exit("a line is wider than the terminal")
print("rewritten: %s" % ("often" if rewritten > 3 else rewritten))
sys.exit(code)
