#!/usr/bin/env bash
# Measures how long pipetrain takes to build, to test and to check, in clones of the commit that is checked out, each
# with caches of its own. All rows take more than an hour on two cores.
# ./dev bench build [--runs N] [ROW...]        rows: objects first-step test touch pip ci ci-cached
# shellcheck disable=SC2317  # rows are called by their names
set -euo pipefail
export LC_ALL=C # for the decimal points that it reads

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
all_rows=(objects first-step test touch pip ci ci-cached) # in this order, since some rows continue where others ended
touched_source=actors/training/run/trainer.cpp
touched_header=core/error.hpp

die() {
  echo "bench: error: build: $*" >&2
  exit 2
}

main() {
  local runs=1 rows=() run row work commit
  while (($#)); do
    case $1 in
      --runs)
        runs=${2-}
        if [[ ! $runs =~ ^[1-9][0-9]?$ ]]; then die "--runs '$runs': must be a number from 1 to 99"; fi
        shift
        ;;
      *)
        if [[ " ${all_rows[*]} " != *" $1 "* ]]; then die "'$1' is none of: ${all_rows[*]}"; fi
        rows+=("$1")
        ;;
    esac
    shift
  done
  if ((${#rows[@]} == 0)); then rows=("${all_rows[@]}"); fi
  work=$(mktemp -d)
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$work'" EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  commit=$(git -C "$root" rev-parse HEAD)
  unset PIPETRAIN_CCACHE
  for ((run = 1; run <= runs; ++run)); do
    for row in "${all_rows[@]}"; do
      if [[ " ${rows[*]} " != *" $row "* ]]; then continue; fi
      echo "bench: build $row, run $run of $runs" >&2
      "measure_${row/-/_}"
    done
    # Each run begins with an empty folder.
    find "$work" -mindepth 1 -maxdepth 1 ! -name '*.values' -exec rm -rf {} +
  done
  report_all
}

# Reports every row that has been measured. Ends with status 1 if one misses its limit.
report_all() {
  local missed=0
  report 'objects of the program' objects 120 objects
  report 'fresh clone to the first training step' first-step 180 s
  report './dev test after it' test 900 s
  report "rebuild after a change of $touched_source" touch-source 20 s
  report "rebuild after a change of $touched_header" touch-header 100 s
  report 'pip install .' pip 240 s
  report '.ci/run without a cache' ci 2100 s
  report '.ci/run with a filled cache' ci-cached 1080 s
  exit "$missed"
}

# report NAME FILE LIMIT UNIT: the median of the runs, null if one of them failed.
report() {
  local value pass=false
  if [[ ! -e $work/$2.values ]]; then return; fi
  value=$(sort -n "$work/$2.values" | awk '
    $1 == "failed" { failed = 1 }
    { value[NR] = $1 }
    END { printf failed ? "null" : "%.6g", (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }')
  if [[ $value != null ]] && awk -v value="$value" -v limit="$3" 'BEGIN { exit !(value <= limit) }'; then pass=true; fi
  if [[ $pass == false ]]; then missed=1; fi
  echo "{\"bench\":\"build $1\",\"value\":$value,\"unit\":\"$4\",\"limit\":$3,\"pass\":$pass}"
}

# timed ROW FOLDER COMMAND...: runs the command in the folder and adds its seconds to the row's values; shows its last
# lines if it fails. set -e does not apply inside a function that is given.
timed() {
  local row=$1 folder=$2 begin=$EPOCHREALTIME
  shift 2
  if (cd "$folder" && "$@") >"$work/log" 2>&1 </dev/null; then
    awk -v begin="$begin" -v end="$EPOCHREALTIME" 'BEGIN { printf "%.2f\n", end - begin }' >>"$work/$row.values"
  else
    echo "bench: build $row failed: $*; its failures and last lines:" >&2
    grep -nE 'FAILED|error:|died|timed out' "$work/log" >&2 || true
    tail -n 40 "$work/log" >&2
    echo failed >>"$work/$row.values"
  fi
}

# clone NAME: makes a fresh clone of the commit, with an empty cache.
clone() {
  export CCACHE_DIR=$work/$1-ccache
  git clone -q "$root" "$work/$1" && git -C "$work/$1" checkout -q --detach "$commit"
}

# Uses the clone in which the program has been built, as a newcomer has it, and its cache; builds it if no row has done
# so.
use_built() {
  export CCACHE_DIR=$work/newcomer-ccache
  if [[ -x $work/newcomer/build/pipetrain ]]; then return; fi
  rm -rf "$work/newcomer"
  clone newcomer
  if ! (cd "$work/newcomer" && ./dev build --yes) >"$work/log" 2>&1; then
    tail -n 40 "$work/log" >&2
    die 'the program cannot be built'
  fi
}

measure_objects() {
  clone objects
  if ! (cd "$work/objects" && cmake --preset cpu) >"$work/log" 2>&1; then
    tail -n 40 "$work/log" >&2
    die 'CMake failed'
  fi
  ninja -C "$work/objects/build" -t inputs pipetrain | grep -c '\.o$' >>"$work/objects.values"
  rm -rf "$work/objects"
}

measure_first_step() { timed first-step "$work" first_step; }

first_step() {
  clone newcomer && cd newcomer && ./dev run --yes --pp 2 --tp 4 --microbatch 1 --steps 1
}

measure_test() {
  use_built
  timed test "$work/newcomer" ./dev test --yes
}

# Adds a new assertion; for a new time or comment the cache would still have the object.
measure_touch() {
  use_built
  local at=$work/newcomer row file
  timed settled "$at" ./dev build --yes # the work that earlier rows left
  rm -f "$work/settled.values"
  for row in touch-source touch-header; do
    if [[ $row == touch-source ]]; then file=$touched_source; else file=$touched_header; fi
    echo "static_assert(true, \"changed at $EPOCHREALTIME\");" >>"$at/$file"
    timed "$row" "$at" ./dev build --yes
  done
  git -C "$at" checkout -q .
}

measure_pip() {
  clone pip
  timed pip "$work/pip" install_module
  rm -rf "$work/pip"
}

install_module() {
  python3 -m venv venv && venv/bin/python -m pip install .
}

measure_ci() {
  rm -rf "$work/ci-ccache"
  clone ci
  timed ci "$work/ci" .ci/run
  rm -rf "$work/ci"
}

# Measures in another folder, with the cache that .ci/run filled.
measure_ci_cached() {
  if [[ ! -d $work/ci-ccache ]]; then measure_ci; fi
  clone cached
  export CCACHE_DIR=$work/ci-ccache
  timed ci-cached "$work/cached" .ci/run
  rm -rf "$work/cached"
}

main "$@"
