# shellcheck shell=bash
# Configuring and building. Sourced by dev.
# shellcheck disable=SC2154  # $root is dev's

build_folder() {
  if [[ $1 == cpu ]]; then echo "$root/build"; else echo "$root/build-$1"; fi
}

# check_preset NAME ALLOWED...
check_preset() {
  local name=$1
  shift
  if [[ " $* " != *" $name "* ]]; then die "--preset '$name' is none of: $*"; fi
}

# build_targets PRESET [ninja targets...]: brings the preset's folder up to date, all of it without targets. Everything is printed
# on stderr, and nothing when there is nothing to do, so that a program started next has both streams to itself.
build_targets() {
  local preset=$1 folder
  shift
  folder=$(build_folder "$preset")
  mkdir -p "$folder"
  exec 9>"$folder/.lock"
  flock 9 # two commands at once take turns
  configure "$preset" "$folder"
  if ! run_ninja "$folder" "$@"; then
    echo "dev: error: the build failed; its messages are above" >&2
    exit 1
  fi
  exec 9>&-
}

# Only when it must: afterwards ninja itself runs CMake again when a CMake file or the set of sources has changed.
configure() {
  local preset=$1 folder=$2 cache=$2/CMakeCache.txt log=$2/configure.log
  if [[ -e $cache ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
    rm -rf "$cache" "$folder/CMakeFiles" # the repository was moved or copied
  fi
  if [[ -e $folder/build.ninja && -e $cache && $cache -nt $root/CMakePresets.json ]]; then return; fi
  echo "dev: configuring ${folder#"$root"/}" >&2
  if ! (cd "$root" && cmake --preset "$preset") >"$log" 2>&1; then
    cat "$log" >&2
    echo "dev: error: CMake failed; its messages are above" >&2
    exit 1
  fi
  touch "$cache"
}

run_ninja() {
  local folder=$1 status=0
  shift
  ninja -C "$folder" "$@" 9>&- 2>&1 |
    { grep --line-buffered -vE '^ninja: (Entering directory|no work to do)|Re-checking globbed directories|GLOB mismatch' || true; } >&2 ||
    status=$?
  return "$status"
}
