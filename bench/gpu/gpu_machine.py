#!/usr/bin/env python3
"""What the scripts for GPU machines ask a machine: its GPU, and where NVIDIA's libraries are.

As a program, prints the folders of NVIDIA's wheels of this Python, one a line.
"""

import os
import pathlib
import re
import site
import subprocess
import sys
import sysconfig


def find_wheel_folders():
    """Returns the `lib` folders of the wheels nvidia-* that this Python can import."""
    packages = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    packages += site.getsitepackages()
    packages += [folder.replace("site-packages", "dist-packages") for folder in packages]
    packages.append(site.getusersitepackages())
    folders = []
    for each in dict.fromkeys(packages):
        folders += sorted(pathlib.Path(each).glob("nvidia/*/lib"))
    return [str(folder) for folder in folders]


def make_environment(python=sys.executable):
    """Returns the environment of programs that use the GPU.

    Without HEDDLE_RT_CUDA_PATH, it leads to the wheels of `python`. GPUs are numbered as
    nvidia-smi numbers them.
    """
    environment = dict(os.environ, CUDA_DEVICE_ORDER="PCI_BUS_ID")
    if "HEDDLE_RT_CUDA_PATH" not in environment:
        folders = find_wheel_folders()
        if python != sys.executable:
            done = subprocess.run([python, __file__], capture_output=True, text=True)
            folders = done.stdout.splitlines() + folders
        if folders:
            environment["HEDDLE_RT_CUDA_PATH"] = ":".join(folders)
    return environment


def run_nvidia_smi(*options):
    """Returns the output of nvidia-smi, or None."""
    try:
        done = subprocess.run(["nvidia-smi", *options], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def find_gpu():
    """Returns the index of the first visible GPU, as a text for `nvidia-smi -i`, or None.

    CUDA_VISIBLE_DEVICES begins with an index, the UUID of a GPU or the beginning of one,
    or the UUID of a part of a GPU (MIG). nvidia-smi ignores the variable.
    """
    wanted = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    index = None
    # GPU 0: NVIDIA H100 PCIe (UUID: GPU-...), and below it, indented, its parts.
    for line in (run_nvidia_smi("-L") or "").splitlines():
        if gpu := re.match(r"GPU (\d+):", line):
            index = gpu[1]
        uuid = re.search(r"\(UUID: ([^)]+)\)", line)
        if wanted == index or (wanted and uuid and not wanted.isdigit()
                               and uuid[1].startswith(wanted)):
            return index
    return None


def query_gpu(gpu, what):
    """Returns an answer of nvidia-smi for a GPU, or None."""
    answer = run_nvidia_smi("-i", gpu, f"--query-gpu={what}", "--format=csv,noheader,nounits")
    return answer.strip() or None if answer else None


if __name__ == "__main__":
    print("\n".join(find_wheel_folders()))
