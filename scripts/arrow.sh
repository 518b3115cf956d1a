# shellcheck shell=bash
# Provides Apache Arrow, which reads Parquet files and which Debian 12 lacks. Sourced by scripts/test.sh.
# shellcheck disable=SC2154  # $root is dev's

# Configures the folder of a preset with the Arrow that pip fetches into build/python-venv. Without pip or network the
# build has no Arrow, and the tests of Parquet count as skipped.
ensure_arrow() {
  local folder=$1 venv=$root/build/python-venv arrow log=$root/build/arrow.log
  mkdir -p "$folder" "$root/build"
  if grep -qs '^Arrow_INCLUDE_DIR:PATH=/' "$folder/CMakeCache.txt"; then return; fi
  ensure_python_packages
  if ! { make_python_venv "$venv" && add_arrow "$venv"; } >"$log" 2>&1; then
    echo "dev: note: Parquet is not tested: $(tail -n 1 "$log")" >&2
    return
  fi
  arrow=$("$venv/bin/python" -c 'import pyarrow; print(pyarrow.__path__[0])')
  export Arrow_ROOT=$arrow # read when the folder is configured
  if [[ -e $folder/CMakeCache.txt ]]; then cmake "$folder" >"$log" 2>&1 || true; fi
}

# The last line of its output says why it failed.
add_arrow() {
  local python=$1/bin/python
  if "$python" -c 'import pyarrow'; then return; fi
  if ! "$python" -m pip install -q 'pyarrow>=19'; then
    echo 'pip could not fetch pyarrow'
    return 1
  fi
}
