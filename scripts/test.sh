# shellcheck shell=bash
# ./dev test: builds and runs the test programs, and counts their test cases. Sourced by dev.
# shellcheck disable=SC2154,SC2034  # shares variables with dev

# shellcheck source=scripts/python.sh
source "$root/scripts/python.sh"
# shellcheck source=scripts/arrow.sh
source "$root/scripts/arrow.sh"

test_seconds=1800 # of one program; longer is a hang

command_test() {
  local preset=cpu filters=()
  while (($#)); do
    case $1 in
      --yes) assume_yes=yes ;;
      --preset)
        preset=${2-}
        shift
        ;;
      --preset=*) preset=${1#*=} ;;
      -*) die "test: unknown option '$1'; see ./dev help" ;;
      *) filters+=("$1") ;;
    esac
    shift || true
  done
  check_preset "$preset" cpu cuda asan tsan
  ensure_build_packages "$preset"
  ensure_arrow "$(build_folder "$preset")"
  build_targets "$preset"

  export ASAN_OPTIONS=${ASAN_OPTIONS-detect_stack_use_after_return=1}
  export UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
  # UCX takes the place of functions of the C library, which crashes TSan at the end of a thread.
  if [[ $preset == tsan ]]; then export UCX_MEM_MMAP_HOOK_MODE=${UCX_MEM_MMAP_HOOK_MODE-none}; fi
  local folder program passed=0 failed=0 skipped=0
  folder=$(build_folder "$preset")
  trap 'exit 130' INT
  while read -r program; do
    run_test_program "$program" "${filters[@]}"
  done <"$folder/test_programs.txt"
  if [[ $preset == cpu && ${#filters[@]} -eq 0 ]]; then run_python_tests "$folder"; fi

  if ((passed + failed == 0)); then echo 'dev: no test case matches' >&2; fi
  if ((skipped)); then echo "$skipped skipped; those of GPUs need ./dev test --preset cuda on a machine with GPUs"; fi
  echo "$passed passed, $failed failed"
  ((failed == 0 && passed > 0))
}

# Runs one program and adds to passed, failed and skipped. The counts come from a file the program writes (tests/main.cpp).
run_test_program() {
  local program=$1 counts name=${1##*/} status=0 p=0 f=0 s=0
  shift
  counts=$(mktemp)
  echo "== $name"
  TEST_COUNTS_FILE=$counts timeout --foreground -k 10 "$test_seconds" "$program" "$@" </dev/null || status=$?
  if [[ $(<"$counts") =~ ^([0-9]+)\ ([0-9]+)\ ([0-9]+)$ ]]; then
    p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]}
    if ((status != 0 && f == 0 && p > 0)); then # a sanitizer's report at exit, for one
      echo "$name: ended with status $status although its test cases passed"
      f=1
    fi
  else
    echo "$name: died with status $status in the test case: $(sed -n 's/^running //p' "$counts")"
    f=1
  fi
  rm -f "$counts"
  passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}
