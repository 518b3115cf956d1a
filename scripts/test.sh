# shellcheck shell=bash
# ./dev test: builds and runs the test programs, and counts their test cases. Sourced by dev.
# shellcheck disable=SC2154,SC2034  # shares variables with dev

# shellcheck source=scripts/python.sh
source "$root/scripts/python.sh"
# shellcheck source=scripts/arrow.sh
source "$root/scripts/arrow.sh"
# shellcheck source=scripts/test_cases.sh
source "$root/scripts/test_cases.sh"
# shellcheck source=scripts/test_slots.sh
source "$root/scripts/test_slots.sh"

test_seconds=1800 # for a program, or for one of its shards; a longer run hangs

# Programs that run while no other does. A single such case is tagged [alone] instead: one that measures time, or uses
# names of the whole machine (network namespaces).
alone_programs=(
  test_comm # a process that is silent for 1.5 s counts as lost, and some cases keep every core busy
)
# Programs that take so long that they are divided, so that every slot is busy to the end.
sharded_programs=(test_apps test_actors)

# The slow cases to run: none, all, or those of one tenth (0 to 9).
slow_choice=none

command_test() {
  local preset=cpu filters=() slots='' durations=no
  while (($#)); do
    case $1 in
      --yes) assume_yes=yes ;;
      --preset | --jobs | --slow-tenth)
        if (($# < 2)); then die "test: $1 needs a value; see ./dev help"; fi
        read_test_option "$1" "$2"
        shift
        ;;
      --preset=*) preset=${1#*=} ;;
      --slow) slow_choice=all ;;
      --durations) durations=yes ;;
      -*) die "test: unknown option '$1'; see ./dev help" ;;
      *) filters+=("$1") ;;
    esac
    shift
  done
  check_preset "$preset" cpu plain cuda asan tsan
  if [[ ${#filters[@]} -gt 0 && $slow_choice != none ]]; then
    die "test: a filter runs what it names, slow or not; leave out --slow and --slow-tenth"
  fi
  if [[ -z $slots ]]; then slots=$(default_slots "$preset"); fi
  SECONDS=0
  after_build='; then the tests run'
  ensure_build_packages "$preset"
  ensure_arrow "$(build_folder "$preset")"
  build_targets "$preset"
  run_tests "$preset"
}

# read_test_option NAME VALUE: sets the variable of command_test.
read_test_option() {
  case $1 in
    --preset) preset=$2 ;;
    --jobs)
      if [[ ! $2 =~ ^[1-9][0-9]?$ ]]; then die "test: --jobs $2: must be a number from 1 to 99"; fi
      slots=$2
      ;;
    --slow-tenth)
      slow_choice=$2
      if [[ $2 == today ]]; then slow_choice=$(($(date +%s) / 86400 % 10)); fi
      if [[ ! $slow_choice =~ ^[0-9]$ ]]; then die "test: --slow-tenth $2: must be today, or a number from 0 to 9"; fi
      ;;
  esac
}

# Two slots if there are two cores. Tests of GPUs take all of each GPU.
default_slots() {
  if [[ $1 != cuda && $(nproc) -gt 1 ]]; then echo 2; else echo 1; fi
}

run_tests() {
  local preset=$1 folder work known_durations passed=0 failed=0 skipped=0 left_out=0
  folder=$(build_folder "$preset")
  known_durations=$folder/test_durations.tsv
  if [[ ! -s $known_durations ]]; then known_durations=/dev/null; fi
  work=$(mktemp -d)
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$work'" EXIT
  export ASAN_OPTIONS=${ASAN_OPTIONS-detect_stack_use_after_return=1}
  export UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
  # UCX replaces functions of the C library, which crashes TSan at the end of a thread.
  if [[ $preset == tsan ]]; then export UCX_MEM_MMAP_HOOK_MODE=${UCX_MEM_MMAP_HOOK_MODE-none}; fi
  plan_jobs "$folder" "$work"
  run_jobs "$folder" "$work"
  if [[ $preset == cpu && ${#filters[@]} -eq 0 ]]; then run_python_tests "$folder"; fi

  if [[ $durations == yes ]]; then show_durations "$work/durations"; fi
  if ((passed + failed == 0)); then echo 'dev: no test case matches' >&2; fi
  if ((skipped)); then echo "$skipped skipped; those of GPUs need ./dev test --preset cuda on a machine with GPUs"; fi
  if [[ $slow_choice == [0-9] ]]; then
    echo "of the slow cases, tenth $slow_choice ran; again: ./dev test --slow-tenth $slow_choice"
  fi
  if ((left_out)); then echo "$left_out slow cases were left out; ./dev test --slow runs them too"; fi
  echo "building and running took $(exact_time "$SECONDS")"
  echo "$passed passed, $failed failed"
  ((failed == 0 && passed > 0))
}

# Prints the fifty slowest cases of all programs.
show_durations() {
  if [[ ! -s $1 ]]; then return; fi
  echo '== slowest cases'
  LC_ALL=C sort -t $'\t' -k1,1gr "$1" | awk -F '\t' 'NR <= 50 { printf "%8.2f s  %s: %s\n", $1, $2, $3 }'
}
