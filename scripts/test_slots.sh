# shellcheck shell=bash
# Runs the jobs of ./dev test, several at a time, and counts. Sourced by scripts/test.sh.
# shellcheck disable=SC2154,SC2034  # shares variables with scripts/test.sh

# run_jobs FOLDER WORK: adds to passed, failed and skipped. The output of a job is printed whole, in the order of the
# jobs.
run_jobs() {
  local folder=$1 work=$2 queue=() next=0 printed=0 finished=0 job status
  local -A process_of=() done_with=()
  mapfile -t queue < <(order_of_jobs)
  if ((${#queue[@]} == 0)); then return; fi
  announce_tests
  trap 'stop_jobs; exit 130' INT
  trap 'stop_jobs; exit 143' TERM
  mkfifo "$work/ended" # where each job reports its end: bash's own wait -n may miss one
  exec 8<>"$work/ended"
  while ((finished < ${#queue[@]})); do
    while ((next < ${#queue[@]})) && may_start "${queue[next]}"; do
      run_job "${queue[next]}" </dev/null &>"$work/${queue[next]}.output" &
      process_of[${queue[next]}]=$!
      next=$((next + 1))
    done
    show_running
    read -r job status <&8
    count_job "$job" "$status"
    done_with[$job]=yes
    unset "process_of[$job]"
    finished=$((finished + 1))
    while [[ -n ${done_with[$printed]-} ]]; do
      print_job "$printed"
      printed=$((printed + 1))
    done
  done
  exec 8>&-
  trap 'exit 130' INT
  trap - TERM
  keep_durations
}

# Orders the jobs: first those that run alone; then, if durations are known, the longest first.
order_of_jobs() {
  local job
  for job in "${!job_program[@]}"; do
    if [[ ${job_alone[job]} == yes ]]; then echo "$job"; fi
  done
  for job in "${!job_program[@]}"; do
    if [[ ${job_alone[job]} == no ]]; then echo "$job ${job_seconds[job]}"; fi
  done | if [[ $known_durations == /dev/null ]]; then cat; else LC_ALL=C sort -s -k2,2gr; fi | cut -d ' ' -f 1
}

# "dev: running 812 cases of 14 programs, 2 at a time, about 6 minutes": the time is that of the last runs.
announce_tests() {
  local text seconds cases programs
  cases=$(cat "$work"/*.names | wc -l)
  programs=$(printf '%s\n' "${job_program[@]}" | sort -u | wc -l)
  text="dev: running $cases cases of $programs programs, $slots at a time"
  if [[ $known_durations != /dev/null ]]; then
    seconds=$(for job in "${!job_program[@]}"; do echo "${job_alone[job]} ${job_seconds[job]}"; done |
      awk -v slots="$slots" '{ sum += $1 == "yes" ? $2 : $2 / slots } END { printf "%d", sum + 0.5 }')
    text+=", about $(rough_time "$seconds")"
  fi
  echo "$text" >&2
}

may_start() {
  local job
  if ((${#process_of[@]} == 0)); then return 0; fi
  if ((${#process_of[@]} >= slots)) || [[ ${job_alone[$1]} == yes ]]; then return 1; fi
  for job in "${!process_of[@]}"; do
    if [[ ${job_alone[job]} == yes ]]; then return 1; fi
  done
}

# Runs in the background; SIGTERM ends the program too. tests/main.cpp writes the counts and the durations.
run_job() {
  local job=$1 program status=0
  trap - EXIT # the folder is not its own
  quote_cases <"$work/$job.names" >"$work/$job.cases"
  TEST_COUNTS_FILE=$work/$job.counts TEST_DURATIONS_FILE=$work/durations \
    timeout --foreground -k 10 "$test_seconds" "${job_program[job]}" --input-file "$work/$job.cases" 8>&- &
  program=$!
  trap 'kill "$program"; wait "$program"; exit 143' TERM
  { wait "$program"; } 2>/dev/null || status=$? # bash would report a signal, as count_job does
  echo "$job $status" >&8
}

show_running() {
  local titles
  titles=$(for job in "${!process_of[@]}"; do printf ', %s' "${job_title[job]}"; done)
  draw_line "[$finished/${#queue[@]}] ${titles#, }"
}

# Ends every job that runs, and waits until they have ended.
stop_jobs() {
  erase_line
  kill "${process_of[@]}" 2>/dev/null || true
  wait
}

# count_job JOB STATUS: adds the program's counts. Errors other than failed cases are added after its output.
count_job() {
  local job=$1 status=$2 name=${job_title[$1]} counts='' wanted p=0 f=0 s=0 said=''
  wanted=$(wc -l <"$work/$job.names")
  if [[ -e $work/$job.counts ]]; then counts=$(<"$work/$job.counts"); fi
  if [[ $counts =~ ^([0-9]+)\ ([0-9]+)\ ([0-9]+)$ ]]; then
    p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]}
    if ((p + f + s != wanted)); then
      said="$name: ran $((p + f + s)) test cases in place of $wanted"
      f=$((f + 1))
    elif ((status != 0 && f == 0)); then # e.g. a sanitizer's report at exit
      said="$name: ended with status $status although its test cases passed"
      f=1
    fi
  else
    said="$name: died with status $status in the test case: ${counts#running }"
    f=1
  fi
  if [[ -n $said ]]; then echo "$said" >>"$work/$job.output"; fi
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# Prints the output without Catch2's first line, which repeats the name of every case.
print_job() {
  erase_line
  echo "== ${job_title[$1]}"
  sed '1{/^Filters: /d}' "$work/$1.output"
}

# Keeps the newest duration of every case in the folder, for the next run's shards and order.
keep_durations() {
  if [[ ! -s $work/durations ]]; then return; fi
  awk -F '\t' '{ key = $2 FS $3 } FILENAME == ARGV[1] { now[key]; print; next } !(key in now)' \
    "$work/durations" "$known_durations" >"$work/kept"
  cp "$work/kept" "$folder/test_durations.tsv"
}
