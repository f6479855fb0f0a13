"""Writes checkpoints under plans of 1, 2, 3, 4 and 8 ranks, and loads each checkpoint
under every other plan.

    checkpoints.py --heddle build/bin/heddle --heddle-run build/bin/heddle-run \\
                   --scratch FOLDER [--long]

A layout is a plan and the number of processes that share its ranks. Each layout
trains four steps of a tiny model and saves after the third and the fourth.
 - Layouts of one plan must save the same bits.
 - Every layout loads every checkpoint of step 3 and saves it again. All parameters
   and the whole state of the optimizer must keep their bits.
 - Every layout trains step 4 from there. If the checkpoint was written under the same
   plan, the loss and the state must have the bits of the writer's step 4. Different
   plans sum in different orders, so otherwise the loss must be within 1e-5.
Without --long, a pair of layouts has one of the last two checks: the first one if the
plans differ, the second one if they are equal.
"""

import collections
import json
import math
import shutil

import matrix
import tensors
from processes import Launched
from programs import Failure, Programs, Report, get_parser

# No number of ranks divides the sizes of this model.
MODEL = "gpt2-odd"
SAVED, STEPS = 3, 4  # the step of the loaded checkpoints; the number of steps
TOLERANCE = 1e-5     # the relative error of a loss under another plan

Plan = collections.namedtuple("Plan", ["ranks", "arguments", "micro"])
PLANS = {
    "serial": Plan(1, [], 1),
    "zero3": Plan(2, ["--mesh", "dp=2", "--zero", "3"], 1),
    "tp3": Plan(3, ["--mesh", "tp=3"], 1),
    "zero3-tp2": Plan(4, ["--mesh", "dp=2,tp=2", "--zero", "3"], 1),
    "pp2-zero1-tp2": Plan(8, ["--mesh", "pp=2,dp=2,tp=2", "--zero", "1",
                              "--pipeline", "1f1b"], 2),
    "groups-tp2": Plan(8, ["--mesh", "dp=2x2,tp=2", "--zero", "3"], 1),
}
# For each plan, the numbers of processes that it runs in.
SHORT = {"serial": [1], "zero3": [2], "tp3": [1], "zero3-tp2": [2],
         "pp2-zero1-tp2": [4]}
LONG = {"serial": [1], "zero3": [1, 2], "tp3": [1, 3], "zero3-tp2": [1, 2, 4],
        "pp2-zero1-tp2": [1, 2, 4, 8], "groups-tp2": [4]}


def rows_of(start, shape, whole):
    """Yields, for the first element of each row of a part, its place in the part and
    its place in the whole tensor."""
    strides = [math.prod(whole[i + 1:]) for i in range(len(whole))]
    width = shape[-1] if shape else 1
    for row in range(math.prod(shape[:-1])):
        place, rest = start[-1] if shape else 0, row
        for i in reversed(range(len(shape) - 1)):
            rest, index = divmod(rest, shape[i])
            place += (start[i] + index) * strides[i]
        yield row * width, place


def read_state(checkpoint):
    """Returns, for each variable's name, its bytes."""
    if not (checkpoint / "parts.json").exists():
        return {name: tensor.values.tobytes() for name, tensor in
                tensors.read(checkpoint / "model.safetensors").items()}
    parts = collections.defaultdict(list)
    for entry in json.loads((checkpoint / "parts.json").read_text())["files"]:
        data = tensors.read(checkpoint / entry["file"])
        for number, part in enumerate(entry["parts"]):
            parts[part["tensor"]].append((part, data[str(number)].values))
    state = {}
    for name, pieces in parts.items():
        whole = [max(part["start"][dim] + part["shape"][dim] for part, _ in pieces)
                 for dim in range(len(pieces[0][0]["shape"]))]
        size = pieces[0][1].itemsize
        filled = bytearray(math.prod(whole) * size)
        if sum(math.prod(part["shape"]) for part, _ in pieces) != math.prod(whole):
            raise Failure("%s: the parts overlap, or one is missing" % name)
        for part, values in pieces:
            width = part["shape"][-1] if part["shape"] else 1
            for place, to in rows_of(part["start"], part["shape"], whole):
                filled[to * size:(to + width) * size] = (
                    values[place:place + width].tobytes())
        state[name] = bytes(filled)
    return state


def check_same(actual, expected, what):
    if set(actual) != set(expected):
        raise Failure("%s: other variables: %s" % (
            what, sorted(set(actual) ^ set(expected))))
    other = [name for name in expected if actual[name] != expected[name]]
    if other:
        raise Failure("%s: other bits in %s" % (what, ", ".join(other)))


class Layout:
    def __init__(self, model, plan, processes):
        self.model, self.plan, self.processes = model, plan, processes
        ranks = PLANS[plan].ranks
        self.name = "%s (%d %s x %d)" % (
            plan, processes, "processes" if processes > 1 else "process",
            ranks // processes)
        self.folder = model.folder / ("%s-%d" % (plan, processes))

    def train(self, output, steps, extra=()):
        """Trains and returns the losses by step."""
        shutil.rmtree(output, ignore_errors=True)
        programs = self.model.programs
        if self.processes > 1:
            programs = Launched(programs, self.processes)
        rows = programs.train(self.model.folder / (self.plan + ".heddle"), [
            "--data", self.model.folder / "text", "--steps", steps,
            "--eval-every", "0", "--eval-windows", "1", "--keep", "0",
            "--checkpoint-every", SAVED, "--check-replicas", "-o", output, *extra])
        return {row["step"]: row["loss"] for row in rows}

    def checkpoint(self, step):
        return self.folder / "checkpoints" / ("step-%08d" % step)

    def write(self, twins):
        """Trains without interruption, and compares the saved state with those of the
        layouts `twins`, which have the same plan."""
        losses = self.train(self.folder, STEPS)
        files = len(list(self.checkpoint(SAVED).glob("*.safetensors")))
        if files != self.processes:
            raise Failure("expected %d files, got %d" % (self.processes, files))
        self.loss = losses[STEPS]
        self.states = {step: read_state(self.checkpoint(step))
                       for step in (SAVED, STEPS)}
        for twin in twins:
            check_same(self.states[STEPS], twin.states[STEPS], twin.name)
        return "%d variables in %d files" % (len(self.states[SAVED]), files)

    def load(self, writer, long):
        """Loads a checkpoint of another layout."""
        output = self.model.folder / "loaded"
        source = ["--from", writer.checkpoint(SAVED)]
        same = writer.plan == self.plan
        notes = []
        if long or not same:
            self.train(output, 0, source)
            check_same(read_state(output / "checkpoints" / ("step-%08d" % SAVED)),
                       writer.states[SAVED], "saved again")
            notes.append("the same state")
        if long or same:
            loss = self.train(output, STEPS, source)[STEPS]
            state = read_state(output / "checkpoints" / ("step-%08d" % STEPS))
            if same and loss != writer.loss:
                raise Failure("step %d: loss %r, expected %r" % (
                    STEPS, loss, writer.loss))
            if same:
                check_same(state, writer.states[STEPS], "step %d" % STEPS)
            if abs(loss - writer.loss) > TOLERANCE * writer.loss:
                raise Failure("step %d: loss %r, far from the writer's %r" % (
                    STEPS, loss, writer.loss))
            notes.append("the same step" if same else "step within %.0e" % TOLERANCE)
        return ", ".join(notes)


def main():
    parser = get_parser(__doc__, long="more numbers of processes, and for each pair of "
                        "layouts both checks")
    options = parser.parse_args()
    report = Report()
    model = matrix.Model(MODEL, Programs(options.heddle, options.heddle_run,
                                         options.sanitize), options.scratch)
    layouts = []
    for plan, counts in (LONG if options.long else SHORT).items():
        micro = PLANS[plan].micro
        model.programs.compile(
            model.path, model.folder / (plan + ".heddle"),
            PLANS[plan].arguments + matrix.TRAINING + [
                "--batch", str(model.ROWS // micro), "--seq", str(model.sequence),
                "--micro-batches", str(micro)])
        layouts += [Layout(model, plan, count) for count in counts]
    for number, layout in enumerate(layouts):
        report.case(layout.name + " writes", lambda: layout.write(
            [twin for twin in layouts[:number] if twin.plan == layout.plan]))
    if report.failures:
        report.finish()
    for writer in layouts:
        for reader in layouts:
            report.case("%s -> %s" % (writer.name, reader.name),
                        lambda: reader.load(writer, options.long))
    report.finish()


if __name__ == "__main__":
    main()
