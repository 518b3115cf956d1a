# shellcheck shell=bash
# Selects the cases that ./dev test runs, and divides them into jobs. Sourced by scripts/test.sh.
# shellcheck disable=SC2154,SC2034  # shares variables with scripts/test.sh

# A job is one run of a program with the cases whose names stand in $work/JOB.names.
job_program=() job_title=() job_alone=() job_seconds=()

# plan_jobs FOLDER WORK: plans the jobs of every program in the folder's list, in its order.
plan_jobs() {
  local folder=$1 work=$2 program
  while read -r program; do plan_program "$program"; done <"$folder/test_programs.txt"
}

# Adds the jobs of a program, none if no case of it is to run.
plan_program() {
  local program=$1 name=${1##*/} all=$work/all alone=$work/alone rest=$work/rest shards=1
  if ! select_cases "$program" >"$all"; then
    echo "$name: cannot list its test cases"
    failed=$((failed + 1))
    return
  fi
  if [[ ! -s $all ]]; then return; fi
  if [[ " ${alone_programs[*]} " == *" $name "* ]]; then
    add_jobs "$program" "$all" 1 yes "$name"
    return
  fi
  list_cases "$program" '[alone]' >"$work/tagged" || true
  grep -aFxf "$work/tagged" "$all" >"$alone" || true
  grep -aFxvf "$work/tagged" "$all" >"$rest" || true
  if [[ $slots -gt 1 && " ${sharded_programs[*]} " == *" $name "* ]]; then
    shards=$((1 + $(wc -l <"$rest") / 10))
    if ((shards > 2 * slots)); then shards=$((2 * slots)); fi
  fi
  add_jobs "$program" "$rest" "$shards" no "$name"
  add_jobs "$program" "$alone" 1 yes "$name alone"
}

# Prints the names of a program's cases that are to run, and adds to left_out.
select_cases() {
  local program=$1
  if ((${#filters[@]})); then
    list_cases "$program" "${filters[@]}"
    return
  fi
  list_cases "$program" '~[.]' >"$work/default" || return
  if [[ $slow_choice == all ]]; then
    cat "$work/default"
    return
  fi
  list_cases "$program" '[slow]' >"$work/tagged" || return
  grep -aFxf "$work/tagged" "$work/default" | slow_left_out >"$work/out" || true
  left_out=$((left_out + $(wc -l <"$work/out")))
  grep -aFxvf "$work/out" "$work/default" || true
}

# Reads names of slow cases, and prints those not to run. The checksum of a case's name chooses its tenth.
slow_left_out() {
  local name sum
  while IFS= read -r name; do
    if [[ $slow_choice == [0-9] ]]; then
      sum=$(printf '%s' "$name" | cksum)
      if ((${sum%% *} % 10 == slow_choice)); then continue; fi
    fi
    printf '%s\n' "$name"
  done
}

# list_cases PROGRAM FILTER...: prints the names of the cases that the filters match together, as Catch2 v2 lists them,
# else as v3 does. v2 ends with their number as its status.
list_cases() {
  local program=$1 names status=0
  shift
  names=$("$program" --list-test-names-only "$@" 2>/dev/null </dev/null) || status=$?
  if [[ -z $names && $status -ne 0 ]]; then
    names=$("$program" --list-tests --verbosity quiet "$@" </dev/null) || return
  fi
  if [[ -n $names ]]; then sed -E 's/^"(#.*)"$/\1/' <<<"$names"; fi # both quote a name that begins with #
}

# Quotes the names for --input-file: with a backslash before special characters.
quote_cases() { sed -E 's/[\\,"]/\\&/g; s/.*/"&"/'; }

# add_jobs PROGRAM NAMES SHARDS ALONE TITLE: divides the names' cases into that many jobs of about equal time, as far as
# durations are known. Adjacent cases stay together, because those of one file may share preparations.
add_jobs() {
  local program=$1 names=$2 shards=$3 alone=$4 title=$5 first=${#job_program[@]} number=0 seconds parts
  parts=$(awk -F '\t' -v program="${1##*/}" -v shards="$shards" -v first="$first" -v work="$work" '
    FILENAME == ARGV[1] { if ($2 == program) known[$3] = $1; next }
    { name[++count] = $0; total += seconds[count] = ($0 in known) ? known[$0] : 1 }
    END {
      for (i = 1; i <= count; ++i) {
        shard = int((before + seconds[i] / 2) / (total + 1e-9) * shards)
        if (shard != last || i == 1) { if (i > 1) print sum; ++files; sum = 0 }
        print name[i] > (work "/" (first + files - 1) ".names")
        sum += seconds[i]; before += seconds[i]; last = shard
      }
      if (count) print sum
    }' "$known_durations" "$names")
  if [[ -z $parts ]]; then return; fi
  shards=$(wc -l <<<"$parts")
  while read -r seconds; do
    number=$((number + 1))
    job_program+=("$program") job_alone+=("$alone") job_seconds+=("$seconds")
    if ((shards > 1)); then job_title+=("$title $number/$shards"); else job_title+=("$title"); fi
  done <<<"$parts"
}
