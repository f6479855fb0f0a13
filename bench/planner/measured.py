#!/usr/bin/env python3
"""Measures the plan that heddle plan chooses beside plans of experts and varied plans.

    bench/planner/measured.py [--heddle build/bin/heddle] [--models gpt2,llama]
                              [--networks fast,slow,hierarchical]
                              [--limits 1.5,0.6,0.3] [--folder F] [--json FILE]
    bench/planner/measured.py --table FILE

A case is a model on four emulated devices with one of three networks and one of three
memory limits. Every expert's plan (variety.py) is compiled for the limit. If fewer than
20 fit, varied plans follow until 20 fit or the list of varied plans ends. Those that fit
are trained with `--emulate-compute`. Each call and each collective then takes the time
that the cluster's devices and links would take. The order of events, the runtime and its
waiting are real, but nothing is computed. The plan that `heddle plan` chooses is measured
in the same way. A sleeper may be woken late, so all plans are measured in two rounds, and
the fastest step of each plan counts.

For each case, prints the chosen plan, its predicted and measured seconds, the best
measured plan that fits, and the ratio of the two (target: at most 1.05).

Then checks what is said about the memory of every plan that was compiled. `heddle
compile` refuses a plan, or not. `heddle plan` with everything pinned that the plan states,
and all that its schedule chose, says that it is feasible, or that nothing fits. If it is
feasible, the plan that `heddle plan` wrote must fit when it is compiled. If it is
infeasible, the program must need more than the limit, compiled with and without the
limit. Every trained program must take exactly the predicted bytes in the runtime.

For each model, a last case has a limit that nothing fits. `heddle plan` must say so. The
least memory that it states must not exceed that of any plan of both lists.

All programs of a case are compiled before the first one is measured, with the lowest
priority. Each case is written to --json as soon as it is measured. A case that is in the
file is reported, not measured again, so the cases may be measured in several runs.
--folder keeps what was compiled, so use a new one after heddle has changed. The limits
are multiples of the memory that data parallelism takes without a limit. The exit status
is 1 if a ratio, or anything said about memory, is wrong.
"""

import argparse
import json
import os
import re
import sys
import time

from variety import EXPERTS, varied_plans
from workbench import AMPLE, Bench, read, write

ENOUGH = 20  # plans that fit and are measured
# How heddle says that a program does not allow a plan. Any other refusal is a fault.
NOT_ALLOWED = re.compile("divide|no mesh of|stages")
NOTHING = 0.02  # a limit, in the unit of --limits, that nothing fits


def compile_plan(bench, model, plan, network, limit):
    """Compiles a plan without the limit, and with it if it is exceeded. Returns None if
    the plan does not fit the program."""
    whole = bench.compile(model, plan, bench.cluster(network, AMPLE))
    if "error" in whole:
        if plan in EXPERTS or not NOT_ALLOWED.search(whole["error"]):
            sys.exit(f"{model}: {plan}:\n{whole['error']}")
        return None
    row = {"plan": plan, "whole": whole["bytes"], **whole}
    if whole["bytes"] > limit:
        limited = bench.compile(model, plan, bench.cluster(network, limit))
        if "error" in limited and not limited["too_large"]:
            sys.exit(f"{model}, {limit} bytes: {plan}:\n{limited['error']}")
        row["refused"] = "error" in limited
        if not row["refused"]:
            row.update(limited)
    row["fits"] = row["bytes"] <= limit
    return row


def add_plans(bench, model, network, limit, plans, rows, enough):
    """Compiles plans until as many fit as are enough. Returns how many of them were
    tried. Plans that the program does not allow are not counted."""
    tried = 0
    step = len(plans) if enough is None else os.cpu_count() * 4
    for begin in range(0, len(plans), step):
        made = bench.map(
            lambda plan: compile_plan(bench, model, plan, network, limit),
            plans[begin:begin + step])
        for row in filter(None, made):
            if enough is not None and sum(row["fits"] for row in rows) >= enough:
                return tried
            rows.append(row)
            tried += 1
    return tried


def judge(bench, model, network, limit, row):
    """Adds to a row what `heddle plan` says about its plan, and returns what is wrong
    about that."""
    cluster = bench.cluster(network, limit)
    answer = bench.judge(model, row["plan"], row["schedule"], cluster)
    wrong = []
    if row.get("refused") and row["whole"] <= limit:
        wrong.append("refused, but fits")
    if "error" in answer:
        row["unjudged"] = answer["error"].strip()
        if not NOT_ALLOWED.search(answer["error"]):
            wrong.append(f"not judged: {row['unjudged']}")
        return wrong
    # A candidate that was not compiled with all layers may fit, says the answer.
    if not answer["feasible"] and (
            answer.get("infeasible_predictions") or
            any("--work" in left["reason"] for left in answer["left_out"])):
        row["unjudged"] = "--work is used up"
        return wrong
    row["feasible"] = answer["feasible"]
    said = answer["memory"]["total"]
    if not answer["feasible"]:
        if row["fits"]:
            wrong.append(f"called infeasible with {said} bytes, but fits in "
                         f"{row['bytes']} of {limit}")
        least = min(row["whole"], row["bytes"])
        if answer.get("memory_bound", 0) > least:
            wrong.append(f"said to need {answer['memory_bound']} bytes at least, "
                         f"but needs {least}")
        return wrong
    made = bench.compile_chosen(model, answer, cluster)
    if "error" in made:
        wrong.append(f"called feasible, but refused: {made['error']}")
    elif made["bytes"] > limit:
        wrong.append(f"called feasible, but takes {made['bytes']} bytes of {limit}")
    elif made["bytes"] != said:
        wrong.append(f"said to take {said} bytes, but takes {made['bytes']}")
    return wrong


def judge_all(bench, case, rows):
    def check(row):
        return [f"{row['plan']}: {wrong}" for wrong in
                judge(bench, case["model"], case["network"], case["limit"], row)]
    case["wrong"] = sum(bench.map(check, rows), [])


def make_case(bench, model, network, part):
    plain = bench.compile(model, EXPERTS[0], bench.cluster(network, AMPLE))
    return {"model": model, "network": network, "part": part,
            "limit": int(part * plain["bytes"])}


def run_case(bench, model, network, part):
    """Measures plans that fit into `part` of the memory of data parallelism."""
    case = make_case(bench, model, network, part)
    limit, rows = case["limit"], []
    cluster = bench.cluster(network, limit)
    clock = [time.time()]
    asked = bench.pool.submit(bench.plan, model, cluster)
    add_plans(bench, model, network, limit, EXPERTS, rows, None)
    case["varied"] = add_plans(bench, model, network, limit, varied_plans(), rows,
                               ENOUGH)
    clock.append(time.time())
    judge_all(bench, case, rows)
    answer = asked.result()
    if "error" in answer:
        sys.exit(f"heddle plan: {answer['error']}")
    case.update(plans=rows, feasible=answer["feasible"], options=answer["options"])
    clock.append(time.time())
    runs = [row for row in rows if row["fits"]]
    if answer["feasible"]:
        made = bench.compile_chosen(model, answer, cluster)
        if "error" in made:
            sys.exit(f"{answer['file']} does not compile within {limit} bytes")
        case.update(bytes=made["bytes"], predicted=answer["seconds"],
                    simulated=made["seconds"], text=made["text"])
        runs.insert(0, case)
    elif runs:
        case["wrong"].append(f"nothing fits, but {runs[0]['plan']} does")
    bench.map(bench.link, sorted({run["text"] for run in runs}))
    clock.append(time.time())
    measured = bench.measure([run["text"] for run in runs], cluster)
    for run in runs:
        run["measured"], run["taken"] = measured[run["text"]]
        if run["taken"] != run["bytes"] or run["taken"] > limit:
            case["wrong"].append(
                f"{run.get('plan', 'the chosen plan')}: takes {run['taken']} bytes, "
                f"predicted {run['bytes']}, limit {limit}")
    clock.append(time.time())
    case["wall"] = dict(zip(("compile", "judge", "link", "measure"),
                            (round(b - a, 1) for a, b in zip(clock, clock[1:]))))
    return case


def run_least(bench, model, network):
    """Plans for a limit that nothing fits, and compares the least memory."""
    case = make_case(bench, model, network, NOTHING)
    rows = []
    add_plans(bench, model, network, case["limit"], EXPERTS + varied_plans(), rows,
              None)
    answer = bench.plan(model, bench.cluster(network, case["limit"]))
    if "error" in answer:
        sys.exit(f"heddle plan: {answer['error']}")
    smallest = min(rows, key=lambda row: min(row["whole"], row["bytes"]))
    case.update(feasible=answer["feasible"], options=answer["options"],
                tried=len(rows), smallest=smallest["plan"],
                smallest_bytes=min(smallest["whole"], smallest["bytes"]),
                least=answer["memory"]["total"], bound=answer.get("memory_bound"),
                wrong=[])
    if case["feasible"]:
        case["wrong"].append("called feasible")
    if any(row["fits"] for row in rows):
        case["wrong"].append("a plan fits the limit that nothing should fit")
    if case["least"] > case["smallest_bytes"]:
        case["wrong"].append("another plan needs less memory than the least")
    if (case["bound"] or 0) > case["least"]:
        case["wrong"].append("the bound of the memory exceeds the least memory")
    return case


def fitting(case):
    return sorted((row["measured"], row["plan"]) for row in case["plans"]
                  if row["fits"])


def ratio(case):
    plans = fitting(case)
    return case["measured"] / plans[0][0] if plans else 0


def verdicts(case):
    """Returns how many plans were called feasible, infeasible, and neither."""
    said = [row.get("feasible") for row in case["plans"]]
    return said.count(True), said.count(False), said.count(None)


def report(case):
    """Prints a case, and returns whether everything is as it should be."""
    name = (f"{case['model']:6} {case['network']:13} "
            f"{case['limit'] / 2**20:6.2f} MiB ")
    good = not case["wrong"]
    if "least" in case:
        print(f"{name} nothing fits: heddle plan needs {case['least']} bytes at least "
              f"(bound {case['bound']}), the smallest of {case['tried']} plans "
              f"{case['smallest_bytes']}\n    {case['options']}\n"
              f"    {case['smallest']}")
    else:
        plans, tried = fitting(case), len(case["plans"])
        if case["feasible"]:
            print(f"{name} {case['predicted']:.3f} s predicted, {case['measured']:.3f} "
                  f"s measured, ratio {ratio(case):.3f}\n    {case['options']}")
            good &= ratio(case) <= 1.05
        else:
            print(f"{name} nothing fits")
        best = f", best {plans[0][0]:.3f} s: {plans[0][1]}" if plans else ""
        few = "; no more of the list fit" if len(plans) < ENOUGH else ""
        print(f"    {len(plans)} of {tried} plans tried fit ({case['varied']} "
              f"varied){few}{best}")
        feasible, infeasible, neither = verdicts(case)
        if good or not case["wrong"]:
            print(f"    {feasible} called feasible, all fit; {infeasible} called "
                  f"infeasible, none fits; {neither} not judged; {case['wall']}")
    for wrong in case["wrong"]:
        print(f"    WRONG: {wrong}")
    sys.stdout.flush()
    return good


def print_table(cases):
    print("| model | network | limit | plans measured, of those tried | chosen, predicted "
          "| chosen, measured | best of the others | ratio | called feasible | called "
          "infeasible | wrong |\n" + "|---" * 11 + "|")
    for case in cases:
        if "least" in case:
            continue
        feasible, infeasible, _ = verdicts(case)
        chosen = "nothing fits | | | "
        if case["feasible"]:
            best = fitting(case)[0][0] if fitting(case) else float("nan")
            chosen = (f"`{case['options']}` {case['predicted']:.3f} | "
                      f"{case['measured']:.3f} | {best:.3f} | {ratio(case):.3f}")
        print(f"| {case['model']} | {case['network']} | {case['part']} | "
              f"{len(fitting(case))} of {len(case['plans'])} | {chosen} | {feasible} | "
              f"{infeasible} | {len(case['wrong'])} |")
    print("\n| model | limit, bytes | least memory, `heddle plan` | its bound | smallest "
          "of the listed plans | wrong |\n" + "|---" * 6 + "|")
    for case in cases:
        if "least" in case:
            print(f"| {case['model']} | {case['limit']} | `{case['options']}` "
                  f"{case['least']} | {case['bound']} | `{case['smallest']}` "
                  f"{case['smallest_bytes']}, of {case['tried']} | "
                  f"{len(case['wrong'])} |")


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--heddle", default="build/bin/heddle")
    parser.add_argument("--models", default="gpt2,llama")
    parser.add_argument("--networks", default="fast,slow,hierarchical")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--folder", default="measured")
    parser.add_argument("--json")
    parser.add_argument("--limits", default="1.5,0.6,0.3")
    parser.add_argument("--table", metavar="FILE",
                        help="print the tables of what --json FILE wrote, and stop")
    options = parser.parse_args()
    if options.table:
        print_table(json.loads(read(options.table)))
        return
    bench = Bench(options.heddle, options.folder, options.steps)
    done = []
    if options.json and os.path.exists(options.json):
        done = json.loads(read(options.json))
    networks = options.networks.split(",")
    limits = list(map(float, options.limits.split(",")))
    asked = [(model, network, part) for model in options.models.split(",")
             for network in networks
             for part in limits + [NOTHING] * (network == networks[0])]
    good, before = 0, None
    for model, network, part in asked:
        if (model, network) != before:
            bench.measured.clear()
            before = model, network
        case = next((case for case in done
                     if (case["model"], case["network"], case["part"])
                     == (model, network, part)), None)
        if not case:
            case = (run_least(bench, model, network) if part == NOTHING
                    else run_case(bench, model, network, part))
            done.append(case)
            if options.json:
                write(options.json, json.dumps(done, indent=1))
        good += report(case)
    print(f"{good} of {len(asked)} cases within 5 % of the best, and right about memory")
    sys.exit(good < len(asked))


main()
