"""Breaks processes of a training and checks what the others do.

    bench/faults/faults.py --heddle build/bin/heddle \\
                           --heddle-run build/bin/heddle-run [--runs 200] \\
                           [--results FILE]

Every run trains a tiny model in four processes and breaks one of them: kills it
(SIGKILL), stops it (SIGSTOP), cuts it off (shuts all of its connections down), or
lets its writes fail as on a full disk. A third of the faults come while the
process sends a message of a collective, a third while it writes a checkpoint
(hooks.c stops it there), and a third at a random time. Then:
 - all other processes stop in time and name the process that was broken (for a
   full disk: the checkpoint that could not be written);
 - the newest checkpoints are intact, and the run resumes to the same bits as one
   without faults.
Every tenth run breaks no process. Instead, 1,000 random and 100 nearly right messages
go to the port at which the processes join, and to every port that opens later. The run
must end as if no message had come.
Prints a line for each run and a table at the end. --results keeps the lines in a file.
A campaign that was interrupted then resumes, and the table covers all runs in the file.
A run depends only on its number and the seed.
"""

import argparse
import collections
import ctypes
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

CONFIG = {
    "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"],
    "vocab_size": 64, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 4,
    "n_inner": None, "activation_function": "gelu_new",
    "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.0, "embd_pdrop": 0.0,
    "attn_pdrop": 0.0, "initializer_range": 0.02, "tie_word_embeddings": True}
PROCESSES = 4
HANG = 2.0  # seconds
STEPS, EVERY = 24, 3
HOOKS = pathlib.Path(__file__).with_name("hooks.c")


class Wrong(Exception):
    """A process did not behave as required."""


def children(pid):
    try:
        text = pathlib.Path("/proc/%d/task/%d/children" % (pid, pid)).read_text()
    except FileNotFoundError:
        return []
    return [int(word) for word in text.split()]


def environment_of(pid, name):
    try:
        environment = pathlib.Path("/proc/%d/environ" % pid).read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    found = re.search(rb"(?:^|\0)%s=([^\0]*)\0" % name.encode(), environment)
    return int(found.group(1)) if found else None


def listening_ports(pids):
    """Returns the TCP ports at which processes listen."""
    sockets = set()
    for pid in pids:
        for file in pathlib.Path("/proc/%d/fd" % pid).iterdir():
            try:
                sockets.add(os.readlink(file))
            except FileNotFoundError:
                pass
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in pathlib.Path(table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and "socket:[%s]" % words[9] in sockets:
                ports.add(int(words[1].rsplit(":", 1)[1], 16))
    return ports


def is_running(pid):
    """Returns whether a process exists and has not ended."""
    try:
        stat = pathlib.Path("/proc/%d/stat" % pid).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def is_stopped(pid):
    """Returns whether all threads of a process are stopped or have ended."""
    for thread in pathlib.Path("/proc/%d/task" % pid).iterdir():
        try:
            state = (thread / "stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            continue
        if state not in "TZX":
            return False
    return True


def cut_off(pid):
    """Shuts down every connection of another process. The process is stopped
    meanwhile, so that it loses all connections at once."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd_open, pidfd_getfd = 434, 438  # the same numbers on all machines
    process = libc.syscall(pidfd_open, pid, 0)
    if process < 0:
        raise OSError(ctypes.get_errno(), "pidfd_open")
    os.kill(pid, signal.SIGSTOP)
    while not is_stopped(pid):
        time.sleep(0.0005)
    for file in pathlib.Path("/proc/%d/fd" % pid).iterdir():
        try:
            if not os.readlink(file).startswith("socket:"):
                continue
        except FileNotFoundError:
            continue
        copy = libc.syscall(pidfd_getfd, process, int(file.name), 0)
        if copy < 0:
            continue
        with socket.socket(fileno=copy) as connection:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it only listens, or is over
    os.close(process)
    os.kill(pid, signal.SIGCONT)


def pester(port, count=1100):
    """Sends random and nearly right messages to a port. Returns the number of messages
    that were accepted."""
    taken = 0
    for number in range(count):
        message = random.randbytes(random.randrange(1, 300))
        if number % 11 == 0:
            message = b"heddle 1" + message[8:] + bytes(132)
        try:
            with socket.create_connection(("127.0.0.1", port), 1) as connection:
                connection.sendall(message)
                taken += 1
        except OSError:
            if number == 0:
                return 0
    return taken


def rank_of(pid):
    return environment_of(pid, "RANK")


class Campaign:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.artifact, self.text = folder / "model.heddle", folder / "text"
        (folder / "config.json").write_text(json.dumps(CONFIG))
        self.text.write_bytes(bytes((7 * i * i + i) % 61 for i in range(4000)))
        subprocess.run(
            [options.heddle, "compile", folder / "config.json", "--batch", "4",
             "--seq", "16", "--mesh", "dp=2,tp=2", "--zero", "3", "--lr", "1e-3",
             "-o", self.artifact], check=True)
        self.hooks = folder / "hooks.so"
        subprocess.run([options.cc, "-shared", "-fPIC", "-O1", HOOKS, "-o",
                        self.hooks, "-ldl"], check=True)
        counts = folder / "counts"
        self.finish(folder / "reference", resume=False, FAULTS_COUNT=counts)
        ends = [path.stat().st_mtime for path in
                (folder / "reference" / "checkpoints").glob("step-*/state.json")]
        # The seconds from the first checkpoint to the last.
        self.duration = max(ends) - min(ends)
        self.last = max(path.name for path in
                        (folder / "reference" / "checkpoints").glob("step-*"))
        # For each process: the number of messages that it sends, and of its fsyncs.
        self.counts = [[int(word) for word in
                        counts.with_suffix(".%d" % rank).read_text().split()]
                       for rank in range(PROCESSES)]
        self.expected = self.bits(folder / "reference")

    def environment(self, **variables):
        """Returns the environment of a launch, with the hooks if a variable is
        for them."""
        if not variables:
            return None
        return dict(os.environ, LD_PRELOAD=str(self.hooks),
                    **{name: str(value) for name, value in variables.items()})

    def command(self, output, steps, extra=()):
        return [self.options.heddle_run, "launch", "-n", str(PROCESSES),
                "--logs", output.with_suffix(".logs"), "--",
                self.options.heddle_run, "train", self.artifact, "--data",
                self.text, "--steps", str(steps), "--eval-every", "0",
                "--checkpoint-every", str(EVERY), "--keep", "0",
                "--hang-timeout", str(HANG), "-o", output, *extra]

    def finish(self, output, resume, **variables):
        extra = ["--resume", "--fall-back"] if resume else []
        result = subprocess.run(self.command(output, STEPS, extra),
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, env=self.environment(**variables))
        if result.returncode != 0:
            raise Wrong("exit code %d\n%s" % (result.returncode, result.stdout))

    def bits(self, output):
        newest = sorted((output / "checkpoints").glob("step-*"))[-1]
        return {file.name: file.read_bytes() for file in newest.iterdir()
                if file.name != "state.json"}

    def run(self, number, fault, moment):
        output = self.folder / ("run-%d" % number)
        victim = random.randrange(PROCESSES)
        place = {}
        if moment != "any time":
            kind = ["collective", "checkpoint"].index(moment)
            place["FAULTS_AT"] = "%d:%s:%d" % (
                victim, ["writev", "fsync"][kind],
                random.randint(1, self.counts[victim][kind]))
        log = open(output.with_suffix(".err"), "w+")
        launcher = subprocess.Popen(self.command(output, STEPS),
                                    stdout=subprocess.DEVNULL, stderr=log,
                                    env=self.environment(**place))
        try:
            if not self.break_one(launcher, output, victim, fault, moment):
                victim = None
            noticed = self.wait(launcher, output, fault, victim, log)
        finally:
            for pid in children(launcher.pid):
                os.kill(pid, signal.SIGKILL)
            launcher.kill()
            launcher.wait()
        if victim is None:
            note = "the run was over"
        else:
            note = "process %d, noticed after %.2f s" % (victim, noticed)
        lost = [path for path in (output / "checkpoints").glob("step-*")
                if not (path / "state.json").exists()]
        if lost:
            raise Wrong("unfinished checkpoints: %s" % lost)
        resume = any((output / "checkpoints").glob("step-*"))
        self.finish(output, resume)
        if self.bits(output) != self.expected:
            raise Wrong("%s; other bits after the resume" % note)
        left = list((output / "checkpoints").glob(".*"))
        if left:
            raise Wrong("left behind: %s" % left)
        shutil.rmtree(output)
        return note, noticed

    def run_pestered(self, number):
        """Returns a note, and the seconds of the run."""
        output = self.folder / ("run-%d" % number)
        start = time.monotonic()
        with open(output.with_suffix(".err"), "w+") as log:
            launcher = subprocess.Popen(self.command(output, STEPS),
                                        stdout=subprocess.DEVNULL, stderr=log)
            last = None
            while last is None and launcher.poll() is None:
                ranks = {rank_of(pid): pid for pid in children(launcher.pid)}
                last = ranks.get(PROCESSES - 1)
            # The others wait for this one, so the port stays open.
            os.kill(last, signal.SIGSTOP)
            messages = pester(environment_of(last, "MASTER_PORT"))
            os.kill(last, signal.SIGCONT)
            later = set()
            while launcher.poll() is None:
                if any((output / "checkpoints").glob("step-*")):
                    try:
                        later |= listening_ports(children(launcher.pid))
                    except FileNotFoundError:
                        pass
                for open_port in later:
                    messages += pester(open_port)
                time.sleep(0.05)
            log.seek(0)
            if launcher.returncode != 0:
                raise Wrong("exit code %d\n%s" % (launcher.returncode, log.read()))
        if self.bits(output) != self.expected:
            raise Wrong("other bits")
        shutil.rmtree(output)
        return "%d messages, %d ports open later" % (
            messages, len(later)), time.monotonic() - start

    def break_one(self, launcher, output, victim, fault, moment):
        """Returns False if the run was over before."""
        after = random.random() * self.duration  # from the first checkpoint on
        start = time.monotonic()
        pid = None
        while launcher.poll() is None:
            if pid is None:
                ranks = {rank_of(child): child for child in children(launcher.pid)}
                pid = ranks.get(victim)
            try:
                if moment == "any time":
                    if not any((output / "checkpoints").glob("step-*")):
                        start = time.monotonic()
                    elif time.monotonic() - start > after:
                        break
                elif pid and is_stopped(pid):
                    break
            except FileNotFoundError:
                return False  # it has just ended
            time.sleep(0.002)
        if launcher.poll() is not None:
            return False
        self.broken_at = time.monotonic()
        try:
            if fault == "kill":
                os.kill(pid, signal.SIGKILL)
            elif fault == "stop":
                os.kill(pid, signal.SIGSTOP)
            elif fault == "cut":
                cut_off(pid)
            else:
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (100, 100))
                os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            return False  # it has just ended
        return True

    def wait(self, launcher, output, fault, victim, log):
        """Waits until the survivors have stopped. Returns the seconds that they
        took."""
        if victim is None:
            return 0.0
        limit = {"kill": 1.0, "cut": 1.0, "stop": HANG + 2.0, "disk": 30.0}[fault]
        while True:
            alive = {rank_of(pid): pid for pid in children(launcher.pid)}
            alive = {rank: pid for rank, pid in alive.items()
                     if rank is not None and is_running(pid)}
            gone = {victim} if fault == "stop" else set()
            if not set(alive) - gone or launcher.poll() is not None:
                break
            if time.monotonic() - self.broken_at > limit + 10:
                raise Wrong("%s still run %.1f s after the fault" % (
                    sorted(alive), limit + 10))
            time.sleep(0.005)
        seconds = time.monotonic() - self.broken_at
        if fault == "stop" and victim in alive:
            os.kill(alive[victim], signal.SIGKILL)
        code = launcher.wait(timeout=30)
        if code == 0:
            return 0.0  # it was at its end
        if seconds > limit:
            raise Wrong("noticed after %.2f s" % seconds)
        logs = {rank: (output.with_suffix(".logs") /
                       ("process-%d.log" % rank)).read_text()
                for rank in range(1, PROCESSES)}
        log.seek(0)
        logs[0] = log.read()
        # The others have ended well if the only message is of the kill above.
        killed = "heddle-run: process %d was killed by signal 9 (Killed)\n" % victim
        if (fault == "stop" and (output / "checkpoints" / self.last).exists()
                and "".join(logs.values()) == killed):
            return 0.0
        name = "checkpoint" if fault == "disk" else "process %d (rank %d" % (
            victim, victim)
        for rank, text in logs.items():
            if rank == victim and fault != "disk":
                continue
            if name not in text:
                raise Wrong("process %d does not name '%s':\n%s" % (
                    rank, name, text[-1000:]))
        return seconds


def describe(result):
    return "%-7s %3d %-5s %-10s %s" % (
        "ok" if result["ok"] else "FAILED", result["run"], result["fault"],
        result["moment"], result["note"])


def print_table(results):
    outcomes = collections.defaultdict(list)
    for result in results:
        outcomes[result["fault"], result["moment"]].append(result)
    print("\nfault  moment      runs  right  noticed after, most (s)")
    for (fault, moment), runs in sorted(outcomes.items()):
        right = [run["seconds"] for run in runs if run["ok"]]
        print("%-6s %-10s %5d %6d  %.2f" % (
            fault, moment, len(runs), len(right), max(right, default=0)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--heddle", required=True)
    parser.add_argument("--heddle-run", required=True)
    parser.add_argument("--cc", default=shutil.which("cc") or "clang-19",
                        help="C compiler for the hooks")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=pathlib.Path,
                        help="file with one line of JSON for each run")
    options = parser.parse_args()
    results = []
    if options.results and options.results.exists():
        results = [json.loads(line)
                   for line in options.results.read_text().splitlines()]
        results = [result for result in results if result["seed"] == options.seed]
    done = {result["run"] for result in results}
    with tempfile.TemporaryDirectory() as folder:
        campaign = None
        for number in range(options.runs):
            if number in done:
                continue
            campaign = campaign or Campaign(options, pathlib.Path(folder))
            random.seed(options.seed * 1000 + number)
            fault = ["kill", "stop", "cut", "disk"][number % 4]
            moment = ["any time", "collective", "checkpoint"][number // 4 % 3]
            if number % 10 == 9:
                fault, moment = "junk", "start"
            result = {"seed": options.seed, "run": number, "fault": fault,
                      "moment": moment, "ok": True}
            try:
                result["note"], result["seconds"] = (
                    campaign.run_pestered(number) if fault == "junk"
                    else campaign.run(number, fault, moment))
            except (Wrong, subprocess.TimeoutExpired) as problem:
                result.update(ok=False, note=str(problem), seconds=0)
            results.append(result)
            print(describe(result), flush=True)
            if options.results:
                with options.results.open("a") as file:
                    file.write(json.dumps(result) + "\n")
    print_table(results)
    failures = sum(not result["ok"] for result in results)
    if failures:
        sys.exit("%d of %d runs failed" % (failures, len(results)))


if __name__ == "__main__":
    main()
