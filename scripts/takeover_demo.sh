#!/usr/bin/env bash
# Shows a takeover: trains a small run of four processes on this machine twice, kills two processes of the second run, one
# after the other, and compares the final weights and the losses of both byte by byte.
# scripts/takeover_demo.sh [PROGRAM]     the pipetrain program; build/pipetrain
# Ends with status 0 where both runs are equal.
set -euo pipefail
export LC_ALL=C

program=${1-build/pipetrain}
[[ -x $program ]] || { echo "takeover_demo: error: there is no program $program; build it with ./dev build" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

train() { # NAME [OPTION...]
  "$program" launch --nproc 4 --device cpu --threads 1 --pp 2 --dp 2 --zero 1 --microbatches 2 --layers 4 --seq-len 32 --steps 200 \
    --log-interval 1000000 --save "$folder/$1" --metrics "$folder/$1.jsonl" "${@:2}"
}

# Waits until the second run has done this many steps, then kills this process of it.
kill_after() { # STEPS PROCESS
  until [[ -f $folder/disturbed.jsonl ]] && (($(wc -l <"$folder/disturbed.jsonl") >= $1)); do
    kill -0 "$run" 2>/dev/null || return 0
    sleep 0.01
  done
  local process
  for process in $(pgrep -P "$(pgrep -P "$run" || echo "$run")"; pgrep -P "$run"); do
    if tr '\0' '\n' <"/proc/$process/environ" | grep "^PIPETRAIN_LAUNCH=$2/" >/dev/null; then
      echo "kill -9 $process    # process $2, after step $(wc -l <"$folder/disturbed.jsonl")"
      kill -9 "$process"
      return
    fi
  done
}

echo "1. An undisturbed run of four processes:"
train undisturbed
echo
echo "2. The same run, of which two processes are killed:"
train disturbed --elastic takeover &
run=$!
kill_after 60 2
kill_after 120 0
wait "$run"
echo
losses() { sed -E 's/"(seconds|elapsed|tokens_per_second.*"mfu".*)$//' "$1" | grep -oE '"step":[0-9]+,"loss":[^,]+,"grad_norm":[^,]+'; }
cmp "$folder/undisturbed/model/model.safetensors" "$folder/disturbed/model/model.safetensors"
cmp <(losses "$folder/undisturbed.jsonl") <(losses "$folder/disturbed.jsonl")
echo "3. The weights, and the losses and gradient norms of all $(wc -l <"$folder/disturbed.jsonl") steps, are equal to the bit."
