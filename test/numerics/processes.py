"""Trains tiny models with the ranks in several processes.

    processes.py --heddle build/bin/heddle --heddle-run build/bin/heddle-run \\
                 --scratch FOLDER

The processes that hold the ranks must not change any bits. For every plan, the losses
of ten steps and the gradients of a batch must equal those of threads of one process.
For pipelines, only losses are compared.
"""


import pipelines
from matrix import Model, expect_bits, keep_bits, stream_order
from programs import Programs, Report, get_parser

# For each model and plan, the numbers of processes.
CONFIGURATIONS = {
    "gpt2": {"dp2-tp2": [2, 4], "zero3": [4], "ring2-tp2": [2]},
    "llama-odd": {"zero3-tp2": [2, 4]},
}
# Plans that run with two micro-batches.
PIPELINES = {
    "pp2-tp2": ["--mesh", "pp=2,tp=2", "--pipeline", "zb-h1"],
    "pp4": ["--mesh", "pp=4", "--pipeline", "1f1b"],
    "pp2-free": ["--mesh", "pp=2", "--pipeline", "zb-v"] + pipelines.FREE,
    "pp4-free": ["--mesh", "pp=4", "--pipeline", "zb-h2"] + pipelines.FREE,
}
CONFIGURATIONS["gpt2"].update({"pp2-tp2": [2, 4], "pp2-free": [2]})
LONG = {
    "gpt2": {"dp4": [2, 4], "tp4": [4], "zero1": [2], "heads4": [4],
             "pp4": [2, 4], "pp4-free": [2, 4], "sequence4": [2], "hierarchy-zero3": [2, 4], "degrees8": [4]},
    "llama": {"dp2-tp2": [4], "split-uneven": [2], "gather2-tp2": [2, 4]},
}
# Every schedule with every mesh.
MESHES = ["pp2", "pp4", "pp2-tp2", "pp2-dp2", "pp2-dp2-tp2", "pp2-zero1",
          "pp2-zero2", "pp2-cp2"]
for mesh in MESHES:
    for schedule in pipelines.SCHEDULES:
        plan = mesh + "-" + schedule
        PIPELINES[plan] = pipelines.MESHES[mesh][0] + ["--pipeline", schedule]
        for name in ("gpt2", "llama"):
            LONG[name][plan] = [2]


class Launched(Programs):
    """Calls heddle-run in several processes."""

    def __init__(self, programs, processes):
        super().__init__(programs.compiler, programs.runner)
        self.run_flags = programs.run_flags
        self.processes = processes

    def call(self, arguments):
        return super().call([self.runner, "launch", "-n", self.processes, "--"]
                            + list(arguments))


def reference(model, plan):
    if plan in PIPELINES:
        return keep_bits(model, plan, PIPELINES[plan], micro=2)
    return keep_bits(model, plan, model.plan(plan))


def check(model, plan, processes, order):
    artifact = model.folder / (plan + ".heddle")
    programs = Launched(model.programs, processes)
    gradients = None
    with stream_order(order):
        steps = programs.train(artifact, [
            "--data", model.folder / "text", "--steps", 10, "--eval-every", "0",
            "--check-replicas", "--no-checkpoints"])
        if plan not in PIPELINES:
            output = model.gradients_file("%s-%d" % (plan, processes), 0)
            programs.evaluate(artifact, [
                "--data", model.folder / "batch.safetensors", "-o", output])
            gradients = output.read_bytes()
    expect_bits([step["loss"] for step in steps], gradients, model.reference)
    return "the same bits"


def main():
    parser = get_parser(__doc__, long="more plans, and random orders of streams for all")
    parser.add_argument("--only", action="append", help="run these plans only")
    options = parser.parse_args()
    report = Report()
    programs = Programs(options.heddle, options.heddle_run, options.sanitize)
    for configurations in [CONFIGURATIONS] + [LONG] * bool(
            options.long or options.only):
        for name, plans in configurations.items():
            model = Model(name, programs, options.scratch)
            for plan, counts in plans.items():
                if options.only and plan not in options.only:
                    continue
                model.reference = None
                report.case("%s %s" % (name, plan),
                            lambda: reference(model, plan))
                if model.reference is None:
                    continue
                for processes in counts:
                    orders = ["", "random:1"] if (
                        options.long or plan == "dp2-tp2") else [""]
                    for order in orders:
                        report.case(
                            "%s %s, %d processes%s" % (
                                name, plan, processes, order and " " + order),
                            lambda: check(model, plan, processes, order))
    report.finish()


if __name__ == "__main__":
    main()
