# shellcheck shell=bash
# ./dev lint: what a reviewer should not have to say. Sourced by dev.
# shellcheck disable=SC2154,SC2034  # shares variables with dev

command_lint() {
  local assume=${1-}
  case $assume in
    '') ;;
    --yes) assume_yes=yes ;;
    *) die "lint: unknown option '$assume'; see ./dev help" ;;
  esac
  ensure_packages "${build_packages[@]}" "${lint_packages[@]}"
  cd "$root" || exit
  local failures=0 cpp=() headers=() scripts=() text=()
  mapfile -t cpp < <(tracked '*.cpp' '*.hpp' '*.cu' '*.cuh')
  mapfile -t headers < <(tracked '*.hpp' '*.cuh')
  mapfile -t scripts < <(tracked dev .ci/run '*.sh')
  mapfile -t text < <(tracked '*.cpp' '*.hpp' '*.cu' '*.cuh' '*.cmake' '*CMakeLists.txt' '*.sh' dev .ci/run '*.md')

  check 'clang-format' check_format "${cpp[@]}"
  check 'every header begins with one #pragma once' check_pragma_once "${headers[@]}"
  check 'no trailing blanks, no tabs' check_absent $'[ \t]+$|\t' "${text[@]}"
  check 'shellcheck' shellcheck -x "${scripts[@]}"
  build_targets cpu test_structure
  check 'layers' "$root/build/tests/test_structure" '~[install]'
  note_long_files "${cpp[@]}"

  if ((failures)); then
    echo "lint: $failures checks failed"
    return 1
  fi
  echo 'lint: clean'
}

# Tracked files of these patterns, and new ones git does not ignore; not those deleted on disk.
tracked() {
  local file
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
    if [[ -f $file ]]; then echo "$file"; fi
  done
}

# check NAME COMMAND...: runs it, shows its words only when it fails.
check() {
  local name=$1 output
  shift
  if output=$("$@" 2>&1); then
    echo "ok      $name"
  else
    echo "FAILED  $name"
    echo "$output"
    failures=$((failures + 1))
  fi
}

check_format() {
  local file bad=0
  for file in "$@"; do
    if ! clang-format --dry-run -Werror "$file" 2>/dev/null; then
      echo "$file:1: not formatted; type: clang-format -i $file"
      bad=1
    fi
  done
  return "$bad"
}

check_pragma_once() {
  local file bad=0
  for file in "$@"; do
    if [[ $(grep -c '^#pragma once$' "$file") != 1 ]] || grep -qE '^#ifndef .*_(H|HPP)_?$' "$file"; then
      echo "$file:1: needs exactly one #pragma once and no include guard"
      bad=1
    fi
  done
  return "$bad"
}

# check_absent PATTERN FILES...
check_absent() { ! grep -nE "$@"; }

note_long_files() {
  local file lines
  for file in "$@"; do
    lines=$(wc -l <"$file")
    if ((lines > 400)); then echo "note    $file has $lines lines; most should be under 300"; fi
  done
}
