# shellcheck shell=bash
# ./dev bench: builds and runs one benchmark. Sourced by dev.
# shellcheck disable=SC2154,SC2034  # shares variables with dev

# shellcheck source=scripts/python.sh
source "$root/scripts/python.sh"

bench_names=(build actors c_api python trainer replay cpu simulate gpu checkpoint tokenizer ucx processes kill takeover changes goodput faults fuzz listeners steps wire)

# A benchmark is bench/NAME.cpp, a program, or bench/NAME.sh, a script that finds the pipetrain program in
# $BENCH_PROGRAM and bench_NAME, if there is one, next to it. Set BENCH_PROGRAM (to a bundle's bin/pipetrain) to build
# nothing and measure that program. bench/NAME.py measures the Python module that is built here.
command_bench() {
  if [[ ${1-} == --yes ]]; then
    assume_yes=yes
    shift
  fi
  local name=${1-} preset=cpu targets=(pipetrain)
  if [[ -z $name ]]; then
    list_benches
    return
  fi
  shift
  if [[ " ${bench_names[*]} " != *" $name "* ]]; then die "bench: '$name' is none of: ${bench_names[*]}"; fi
  if [[ $name == build ]]; then exec bash "$root/bench/build.sh" "$@"; fi # it builds clones
  if [[ $name == gpu || ($name == processes && ${1-} == cuda) ]]; then preset=cuda; fi
  if [[ $name == fuzz ]]; then # the sanitizers detect its findings; it needs no other program
    preset=asan targets=()
    export UBSAN_OPTIONS=${UBSAN_OPTIONS-print_stacktrace=1}
  fi
  if [[ -e $root/bench/$name.py ]]; then bench_module "$name" "$@"; fi
  if [[ -e $root/bench/$name.cpp ]]; then
    targets+=("bench_$name")
  elif [[ ! -e $root/bench/$name.sh ]]; then
    die "bench: '$name' is planned but not built yet; ./dev bench lists those that are"
  fi
  if [[ -z ${BENCH_PROGRAM-} ]]; then
    ensure_build_packages "$preset"
    build_targets "$preset" "${targets[@]}"
    BENCH_PROGRAM=$(build_folder "$preset")/pipetrain
  elif [[ ! -x $BENCH_PROGRAM ]]; then
    die "bench: BENCH_PROGRAM names no program: $BENCH_PROGRAM"
  fi
  export BENCH_PROGRAM
  # The comparison with PyTorch runs if there is one.
  if [[ $name == gpu && -z ${PIPETRAIN_TORCH_PEER+set} ]] && command -v torchrun >/dev/null; then
    export PIPETRAIN_TORCH_PEER=$root/bench/peers/torch_llama.py
  fi
  if [[ -e $root/bench/$name.sh ]]; then exec bash "$root/bench/$name.sh" "$@"; fi
  exec "$(dirname "$BENCH_PROGRAM")/bench_$name" "$@"
}

bench_module() {
  local name=$1 folder venv
  shift
  folder=$(build_folder cpu)
  venv=$folder/python-venv
  ensure_build_packages cpu
  build_targets cpu pipetrain
  ensure_python_packages
  if ! make_python_venv "$venv" >"$folder/python-venv.log" 2>&1; then die "bench: $name: $(tail -n 1 "$folder/python-venv.log")"; fi
  if ! build_python_module "$folder" "$venv"; then die "bench: $name: CMake failed; its messages are above"; fi
  PYTHONPATH=$folder/python exec "$venv/bin/python" "$root/bench/$name.py" "$@"
}

list_benches() {
  local name
  for name in "${bench_names[@]}"; do
    if [[ -e $root/bench/$name.cpp || -e $root/bench/$name.sh || -e $root/bench/$name.py ]]; then
      echo "$name"
    else
      echo "$name (not built yet)"
    fi
  done
}
