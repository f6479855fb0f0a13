"""locked.py FOLDER COMMAND...: runs COMMAND while another process holds the lock
of FOLDER, a run."""

import fcntl
import os
import subprocess
import sys

with open(os.path.join(sys.argv[1], ".lock"), "r+") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    lock.write("%d on host %s" % (os.getpid(), os.uname().nodename))
    lock.flush()
    sys.exit(subprocess.run(sys.argv[2:]).returncode)
