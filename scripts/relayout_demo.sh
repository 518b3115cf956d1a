#!/usr/bin/env bash
# Shows a run that changes while it trains: it grows to four processes, changes its schedule, loses a process for which launch
# starts another one, gives a process back, and shrinks to one. Its weights and losses are compared byte by byte with those of
# a run in which nothing happens.
# scripts/relayout_demo.sh [PROGRAM]     the pipetrain program; build/pipetrain
# Ends with status 0 where both runs are equal.
set -euo pipefail
export LC_ALL=C

program=${1-build/pipetrain}
[[ -x $program ]] || { echo "relayout_demo: error: there is no program $program; build it with ./dev build" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

train() { # NAME COMMAND [OPTION...]
  "$program" "${@:2}" --device cpu --threads 1 --pp 2 --microbatches 4 --layers 4 --seq-len 32 --steps 600 \
    --log-interval 1000000 --save "$folder/$1" --metrics "$folder/$1.jsonl"
}

wait_for_steps() { # STEPS
  until [[ -f $folder/changed.jsonl ]] && (($(wc -l <"$folder/changed.jsonl") >= $1)); do
    kill -0 "$run" 2>/dev/null || return 0
    sleep 0.01
  done
}

relayout() { # STEPS OPTION...
  wait_for_steps "$1"
  echo "pipetrain relayout run ${*:2}"
  "$program" relayout "$folder/changed" "${@:2}" >/dev/null
}

send() { # STEPS SIGNAL PROCESS
  wait_for_steps "$1"
  local process
  for process in $(pgrep -P "$(pgrep -P "$run" || echo "$run")"; pgrep -P "$run"); do
    if tr '\0' '\n' <"/proc/$process/environ" | grep "^PIPETRAIN_LAUNCH=$3/" >/dev/null; then
      echo "kill -$2 $process    # process $3"
      kill "-$2" "$process"
      return
    fi
  done
}

echo "1. A run of one process in which nothing happens:"
train whole train
echo
echo "2. The same run in two processes, which others join and leave:"
train changed launch --nproc 2 --elastic takeover --restart-processes 1 &
run=$!
relayout 40 --nproc 4 --pp 4
relayout 80 --schedule zb-h1
send 120 KILL 1
relayout 170 --pp 2 --schedule zb-v
send 210 USR2 0
relayout 250 --nproc 1 --pp 1 --schedule 1f1b
wait "$run"
echo
# Prints what must be equal: the weights, and the losses and gradient norms of all steps.
result() { # NAME
  cat "$folder/$1/model/model.safetensors"
  sed -E 's/"(seconds|elapsed|tokens_per_second.*"mfu".*)$//' "$folder/$1.jsonl" |
    grep -oE '"step":[0-9]+,"loss":[^,]+,"grad_norm":[^,]+'
}
cmp <(result whole) <(result changed)
echo "3. The weights, and the losses and gradient norms of all $(wc -l <"$folder/changed.jsonl") steps, are equal to the bit."
