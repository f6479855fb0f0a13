#!/usr/bin/env bash
# Runs the solver's command under sanitizers: with several threads, with an
# interruption, and on malformed problems. A sanitizer's report changes the exit
# code and so fails the test. test/Driver/Solve/solve*.test check the command's output.
# usage: solve.sh HEDDLE-SOLVE SCRATCH-FOLDER
set -euo pipefail
solve=$1 scratch=$2 inputs=$(dirname "$0")/../Driver/Inputs
rm -rf "$scratch"
mkdir -p "$scratch"

python3 "$inputs/solve_hard.py" "$scratch/hard.json" 12 12
for threads in 1 4; do
  "$solve" "$scratch/hard.json" --seed 3 --work-limit 500000 \
    --threads $threads >"$scratch/answer-$threads"
done
cmp "$scratch/answer-1" "$scratch/answer-4"
"$solve" "$scratch/hard.json" --check "$scratch/answer-4"
python3 "$inputs/solve_interrupt.py" SIGINT \
  "$solve" "$scratch/hard.json" --timeout 600 --threads 4
python3 "$inputs/solve_malformed.py" "$scratch" "$solve"
