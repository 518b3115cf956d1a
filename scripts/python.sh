# shellcheck shell=bash
# The Python module and its tests. Sourced by scripts/test.sh and scripts/bench.sh.
# shellcheck disable=SC2154,SC2034  # shares variables with dev

# Builds the module in build/python with packages that pip fetches into build/python-venv, and runs tests/python. Adds
# to passed, failed and skipped, and adds the cases that $slow_choice leaves out to left_out. PyTorch is never fetched:
# its tests run if the system's Python has it.
run_python_tests() {
  local folder=$1 venv=$1/python-venv report=$1/python-tests.xml status=0
  echo '== python'
  ensure_python_packages
  if ! make_python_venv "$venv" >"$folder/python-venv.log" 2>&1; then
    echo "dev: note: the Python module is not tested: $(tail -n 1 "$folder/python-venv.log")" >&2
    skipped=$((skipped + 1))
    return
  fi
  if ! build_python_module "$folder" "$venv"; then
    failed=$((failed + 1))
    return
  fi
  rm -f "$report" "$folder/python-left-out.txt"
  PYTHONPATH=$folder/python PIPETRAIN_PROGRAM=$folder/pipetrain TEST_LEFT_OUT_FILE=$folder/python-left-out.txt \
    timeout --foreground -k 10 "$test_seconds" "$venv/bin/python" -m pytest -q -p no:cacheprovider --slow="$slow_choice" \
    --junitxml="$report" "$root/tests/python" </dev/null || status=$?
  if [[ -s $folder/python-left-out.txt ]]; then left_out=$((left_out + $(<"$folder/python-left-out.txt"))); fi
  if [[ -s $report && $(<"$report") =~ errors=\"([0-9]+)\"\ failures=\"([0-9]+)\"\ skipped=\"([0-9]+)\"\ tests=\"([0-9]+)\" ]]; then
    local bad=$((BASH_REMATCH[1] + BASH_REMATCH[2])) left=${BASH_REMATCH[3]} all=${BASH_REMATCH[4]}
    passed=$((passed + all - bad - left)) failed=$((failed + bad)) skipped=$((skipped + left))
    if ((status != 0 && bad == 0)); then failed=$((failed + 1)); fi
  else
    echo "python: pytest died with status $status"
    failed=$((failed + 1))
  fi
}

# build_python_module FOLDER VENV [PRESET]: builds in the folder's python/, next to the program. Fails, with CMake's last
# lines, if it cannot be configured.
build_python_module() {
  local folder=$1 venv=$2 preset=${3-cpu}
  if [[ ! -e $folder/CMakeCache.txt ]]; then configure "$preset" "$folder"; fi
  if ! cmake "$folder" -DPIPETRAIN_PYTHON=ON -DPython_EXECUTABLE="$venv/bin/python" >"$folder/python-configure.log" 2>&1; then
    tail -n 20 "$folder/python-configure.log" >&2
    return 1
  fi
  build_targets "$preset" pipetrain_python pipetrain
}

# Debian packages venv and the headers separately from Python itself. If they cannot be installed, a later step finds
# them missing.
ensure_python_packages() {
  if python3 -c 'import ensurepip, os, sysconfig; os.stat(sysconfig.get_path("include") + "/Python.h")' 2>/dev/null; then return; fi
  (ensure_packages "${python_packages[@]}") || true
}

# The last line of its output says why it failed.
make_python_venv() {
  local venv=$1
  if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo 'it needs Python 3.11 or newer'
    return 1
  fi
  if [[ ! -x $venv/bin/python ]] && ! python3 -m venv --system-site-packages "$venv"; then
    rm -rf "$venv"
    echo 'python3 -m venv failed; install python3-venv'
    return 1
  fi
  if "$venv/bin/python" -c 'import nanobind, numpy, pytest'; then return; fi
  if ! "$venv/bin/python" -m pip install -q nanobind numpy pytest; then
    echo 'pip could not fetch nanobind, numpy and pytest'
    return 1
  fi
}
