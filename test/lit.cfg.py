"""Configuration of the lit tests: `.mlir` and `.test` files below test/."""

import os
import shutil
import subprocess
import sys

import lit.formats

source_root = os.path.dirname(os.path.abspath(__file__))

if not hasattr(config, "heddle_binary_root"):
    # lit was started on the source tree. Load the build folder's configuration,
    # which sets the paths that CMake found and loads this file again.
    build = os.environ.get(
        "HEDDLE_BINARY_ROOT", os.path.join(os.path.dirname(source_root), "build")
    )
    site = os.path.join(build, "test", "lit.site.cfg.py")
    if not os.path.exists(site):
        lit_config.fatal("%s does not exist: run tools/build first" % site)
    lit_config.load_config(config, site)
else:
    config.name = "Heddle"
    config.test_format = lit.formats.ShTest(execute_external=False)
    config.suffixes = [".mlir", ".test"]
    config.excludes = ["unit", "numerics", "reference", "Inputs"]
    config.test_source_root = source_root
    config.test_exec_root = os.path.join(config.heddle_binary_root, "test")

    # Finds heddle, heddle-opt and heddle-run, and LLVM's FileCheck, not and
    # split-file.
    config.environment["PATH"] = os.path.pathsep.join(
        [
            os.path.join(config.heddle_binary_root, "bin"),
            config.llvm_tools_dir,
            os.environ.get("PATH", ""),
        ]
    )
    config.environment["FILECHECK_OPTS"] = "--enable-var-scope"
    if shutil.which("chromium"):  # tools/setup --browser installs it
        config.available_features.add("chromium")
    if os.environ.get("HEDDLE_LONG_TESTS"):
        config.available_features.add("long")
        config.environment["HEDDLE_VERIFY_EACH_PASS"] = "1"
    else:
        # Three quarters of the time of compiling a tiny model. The numerics
        # tests and the unit tests run optimized kernels.
        config.environment["HEDDLE_OPTIMIZE_KERNELS"] = "0"
    if config.gloo in ("1", "TRUE", "ON"):
        config.available_features.add("gloo")

    # Only root may make networks of its own.
    if shutil.which("unshare") and shutil.which("ip"):
        command = "unshare --net --uts ip link add name a0 type veth peer name b0"
        if subprocess.run(command.split(), capture_output=True).returncode == 0:
            config.available_features.add("network-namespaces")

    if shutil.which("ptxas") or os.path.exists("/usr/local/cuda/bin/ptxas"):
        config.available_features.add("ptxas")
    # A folder with the libraries of an emulated GPU.
    gpu = os.path.join(config.heddle_binary_root, "lib", "emulated-gpu")
    if os.path.exists(os.path.join(gpu, "libcuda.so.1")):
        config.available_features.add("emulated-gpu")
    config.substitutions.append(("%{gpu}", gpu))

    config.substitutions.append(
        ("%{bin}", os.path.join(config.heddle_binary_root, "bin"))
    )
    # The interpreter itself. CMake may have found a script that starts it, which
    # takes longer than most of what tests do with it.
    config.substitutions.append(("%python", '"%s"' % sys.executable))
    # The full path of heddle-opt, for tests that change PATH.
    config.substitutions.append(
        ("%{opt}", os.path.join(config.heddle_binary_root, "bin", "heddle-opt"))
    )
    # The stock mlir-opt with our plugin. Tests must give passes as
    # --pass-pipeline=..., because mlir-opt parses options such as
    # --heddle-localize before it loads plugins.
    plugin = os.path.join(config.heddle_binary_root, "lib", "HeddlePlugin.so")
    config.substitutions.append(("%{plugin}", plugin))
    config.substitutions.append(
        (
            "%{mlir-opt}",
            "%s --load-dialect-plugin=%s --load-pass-plugin=%s"
            % (os.path.join(config.llvm_tools_dir, "mlir-opt"), plugin, plugin),
        )
    )
    config.substitutions.append(("%{inputs}", os.path.join(source_root, "Inputs")))
    config.substitutions.append(
        ("%{reference}", os.path.join(source_root, "reference"))
    )
