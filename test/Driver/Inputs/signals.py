"""Runs a command that compiles in a temporary folder, once for each of several
signals. Sends the signal when the folder exists and checks that the process died
of it and removed the folder."""

import os
import signal
import subprocess
import sys
import time

folder = os.environ["TMPDIR"]
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, signal.SIG_DFL)  # our parent may ignore the signal
    process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
    while process.poll() is None and not os.listdir(folder):
        time.sleep(0.01)
    if process.poll() is not None:
        sys.exit("ended by itself with %d" % process.returncode)
    # Fills the folder with files, as a compilation does at its end.
    (made,) = os.listdir(folder)
    os.makedirs(os.path.join(folder, made, "new", "inner"))
    for name in ("a", "new/b", "new/inner/c"):
        open(os.path.join(folder, made, name), "w").close()
    time.sleep(0.1)
    process.send_signal(number)
    if process.wait() != -number:
        sys.exit("expected to die of %s, got %d" % (number, process.returncode))
    if os.listdir(folder):
        sys.exit("%s left %s" % (number, os.listdir(folder)))
