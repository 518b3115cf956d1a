# shellcheck shell=bash
# Configuring and building. Sourced by dev.
# shellcheck disable=SC2154  # $root is dev's

# shellcheck source=scripts/progress.sh
source "$root/scripts/progress.sh"

# The mean time of a build step on one core, over the program and its tests (g++ 12 at 2 to 3 GHz, nothing cached). Only
# the announcement uses it.
core_seconds_per_step=3.5

# on, off, or empty, which keeps the folder's configuration. The variable is not passed on to pipetrain, which would
# take it for an option.
ccache_wish=${PIPETRAIN_CCACHE-}
unset PIPETRAIN_CCACHE

# The work after the build, for its announcement.
after_build=''

build_folder() {
  if [[ $1 == cpu ]]; then echo "$root/build"; else echo "$root/build-$1"; fi
}

# check_preset NAME ALLOWED...
check_preset() {
  local name=$1
  shift
  if [[ " $* " != *" $name "* ]]; then die "--preset '$name' is none of: $*"; fi
}

# build_targets PRESET [ninja targets...]: brings the preset's folder up to date, all of it without targets. Prints
# everything on stderr, and nothing if there is nothing to do, so that a program started next has both streams to
# itself.
build_targets() {
  local preset=$1 folder steps once=''
  shift
  folder=$(build_folder "$preset")
  if [[ ! -e $folder/build.ninja ]]; then once=', once'; fi
  open_folder "$preset" "$folder"
  if ! steps=$(count_steps "$folder" "$@"); then build_failed; fi
  if ((steps > 0)); then
    announce_build "$preset" "$folder" "$steps" "$once" "$@"
    draw_line "[0/$steps]"
    if ! run_ninja "$folder" "$@"; then build_failed; fi
  fi
  exec 9>&-
}

# open_folder PRESET FOLDER: locks and configures it, brings ninja's rules up to date, and counts the steps that ninja
# would take.
open_folder() {
  local preset=$1 folder=$2
  mkdir -p "$folder"
  exec 9>"$folder/.lock"
  if ! flock -n 9; then # two commands at once run one after the other
    echo "dev: waiting for another command that builds in ${folder#"$root"/}" >&2
    flock 9
  fi
  trap 'exit 130' INT # once ninja has ended
  configure "$preset" "$folder"
  if ! run_ninja "$folder" build.ninja; then build_failed; fi
}

build_failed() {
  echo 'dev: error: the build failed; its messages are above' >&2
  exit 1
}

# Only if it must: afterwards ninja itself runs CMake again when a CMake file or the set of sources has changed.
configure() {
  local preset=$1 folder=$2 cache=$2/CMakeCache.txt log=$2/configure.log options=()
  case $ccache_wish in
    '') ;;
    on) options=(-DPIPETRAIN_CCACHE=ON) ;;
    off) options=(-DPIPETRAIN_CCACHE=OFF) ;;
    *) die "PIPETRAIN_CCACHE=$ccache_wish: must be on or off" ;;
  esac
  if [[ -e $cache ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
    rm -rf "$cache" "$folder/CMakeFiles" # the repository was moved or copied
  fi
  if [[ -e $folder/build.ninja && -e $cache && $cache -nt $root/CMakePresets.json ]] && has_ccache_wish "$cache"; then
    return
  fi
  echo "dev: configuring ${folder#"$root"/}" >&2
  if ! (cd "$root" && cmake --preset "$preset" "${options[@]}") >"$log" 2>&1; then
    cat "$log" >&2
    echo "dev: error: CMake failed; its messages are above" >&2
    exit 1
  fi
  touch "$cache"
}

# Succeeds if the folder of this cache was configured with the requested ccache.
has_ccache_wish() {
  local off='^PIPETRAIN_CCACHE:[A-Z]+=(OFF|FALSE|NO|0|.*NOTFOUND)$'
  case $ccache_wish in
    off) grep -qE "$off" "$1" ;;
    on) ! grep -qE "$off" "$1" ;;
  esac
}

# Counts the steps that ninja would take. The file of its rules has another name meanwhile: under its own name ninja
# would only count the check whether it is up to date.
count_steps() {
  local folder=$1 output
  shift
  ln -sf build.ninja "$folder/.steps.ninja"
  if ! output=$(NINJA_STATUS="$ninja_status" ninja -C "$folder" -f .steps.ninja -n "$@" 9>&- 2>&1); then
    echo "$output" >&2
    return 1
  fi
  if [[ $output =~ ${step_mark}[0-9]+/([0-9]+)$step_mark ]]; then echo "${BASH_REMATCH[1]}"; else echo 0; fi
}

# "dev: building pipetrain in build: 92 steps, about 3 minutes on 2 cores, once"
announce_build() {
  local preset=$1 folder=$2 steps=$3 once=$4 what cores seconds
  shift 4
  case $# in
    0) what=everything ;;
    1 | 2 | 3) what=$(printf ', %s' "$@") what=${what#, } ;;
    *) what="$# targets" ;;
  esac
  cores=$(nproc)
  # A single step runs on one core only.
  seconds=$(awk -v steps="$steps" -v each="$core_seconds_per_step" -v cores="$cores" \
    'BEGIN { if (cores > steps) cores = steps; printf "%d", steps * each / cores + 0.5 }')
  local text="dev: building $what in ${folder#"$root"/}: $steps step"
  if ((steps > 1)); then text+=s; fi
  # Compilations of CUDA take minutes each, so their total time is unknown.
  if [[ $preset != cuda ]]; then text+=", about $(rough_time "$seconds") on $cores core"; fi
  if [[ $preset != cuda ]] && ((cores > 1)); then text+=s; fi
  echo "$text$once$after_build" >&2
}

run_ninja() {
  local folder=$1 status=0
  shift
  NINJA_STATUS=$ninja_status ninja -C "$folder" "$@" 9>&- 2>&1 | show_steps 9>&- || status=$?
  return "$status"
}
