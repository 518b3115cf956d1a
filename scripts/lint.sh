# shellcheck shell=bash
# ./dev lint checks what a reviewer should not have to say. Sourced by dev.
# shellcheck disable=SC2154,SC2034  # shares variables with dev

command_lint() {
  local all_headers=no option
  for option in "$@"; do
    case $option in
      --yes) assume_yes=yes ;;
      --all-headers) all_headers=yes ;;
      *) die "lint: unknown option '$option'; see ./dev help" ;;
    esac
  done
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
  check_headers "$all_headers"
  note_long_files "${cpp[@]}"

  if ((failures)); then
    echo "lint: $failures checks failed"
    return 1
  fi
  echo 'lint: clean'
}

# Lists tracked files of these patterns, and new ones that git does not ignore, but not those deleted on disk.
tracked() {
  local file
  git ls-files --cached --others --exclude-standard -- "$@" | while read -r file; do
    if [[ -f $file ]]; then echo "$file"; fi
  done
}

# check NAME COMMAND...: runs the command, and shows its output only if it fails.
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

# check_headers ALL: checks that each header compiles with nothing before it; without ALL, those that changed. The
# preset plain has a target checkheaders, with one object for each header, except headers that need unavailable
# libraries.
check_headers() {
  local name='headers compile alone' all=$1 targets=(checkheaders) header object known
  if [[ $all == no ]]; then
    mapfile -t targets < <(changed_headers)
    if ((${#targets[@]} == 0)); then
      echo "ok      $name (none changed)"
      return
    fi
    # Its messages are shown as they arrive, like those of every build.
    if ! (open_folder plain "$root/build-plain") || ! known=$(ninja -C "$root/build-plain" -t targets all); then
      targets=()
    else
      mapfile -t targets < <(for header in "${targets[@]}"; do
        object=CMakeFiles/checkheaders.dir/checkheaders/$header.cpp.o
        if grep -q "^$object:" <<<"$known"; then echo "$object"; fi
      done)
      if ((${#targets[@]} == 0)); then
        echo "ok      $name (none that is built here changed)"
        return
      fi
    fi
  fi
  if ((${#targets[@]})) && (build_targets plain "${targets[@]}"); then
    echo "ok      $name"
  else
    echo "FAILED  $name; the messages are above"
    failures=$((failures + 1))
  fi
}

# Lists headers that differ from the commit at which this branch left origin/main, or else from the commit before the
# newest one; uncommitted changes count.
changed_headers() {
  local base
  base=$(git merge-base HEAD origin/main 2>/dev/null || git rev-parse -q --verify HEAD~1 || git rev-parse HEAD)
  {
    git diff --name-only --diff-filter=d "$base" -- '*.hpp'
    git ls-files --others --exclude-standard -- '*.hpp'
  } | sort -u
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
