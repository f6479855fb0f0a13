"""kill.py SIGNAL PROCESS FOLDER COMMAND...: runs COMMAND, a launch, and sends
SIGNAL to PROCESS of its job when FOLDER, a checkpoint, exists."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

name, process, folder = sys.argv[1:4]
launcher = subprocess.Popen(sys.argv[4:])
while launcher.poll() is None and not os.path.exists(folder):
    time.sleep(0.001)
children = pathlib.Path("/proc/%d/task/%d/children" % (launcher.pid, launcher.pid))
for child in children.read_text().split():
    try:
        environment = pathlib.Path("/proc/%s/environ" % child).read_bytes()
    except FileNotFoundError:
        continue  # It has ended.
    if re.search(rb"(?:^|\0)RANK=%d\0" % int(process), environment):
        os.kill(int(child), getattr(signal, name))
sys.exit(launcher.wait())
