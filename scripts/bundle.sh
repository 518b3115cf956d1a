# shellcheck shell=bash
# ./dev bundle: the program, or the fuzzer, with every library it needs, to copy to another Linux host. Sourced by dev.
# shellcheck disable=SC2154,SC2034  # shares variables with dev

command_bundle() {
  local preset=cpu target=$root/bundle targets=(pipetrain) components=(program) program=pipetrain
  while (($#)); do
    case $1 in
      --yes) assume_yes=yes ;;
      --cuda) preset=cuda ;;
      --tests) components+=(extra) targets=() ;;
      --fuzz) preset=asan targets=(bench_fuzz) components=(fuzz) program=bench_fuzz ;;
      -*) die "bundle: unknown option '$1'; see ./dev help" ;;
      *) target=$1 ;;
    esac
    shift
  done
  ensure_build_packages "$preset"
  build_targets "$preset" "${targets[@]}"

  # Built next to the target and moved there whole, so that a failure leaves no half bundle.
  local staging component
  mkdir -p "$(dirname "$target")"
  staging=$(mktemp -d "$(dirname "$target")/.bundle.XXXXXX")
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$staging'" EXIT
  chmod 755 "$staging"
  for component in "${components[@]}"; do
    cmake --install "$(build_folder "$preset")" --prefix "$staging" --component "$component" --strip >/dev/null
  done
  mkdir -p "$staging/lib"
  copy_libraries "$staging"
  check_bundle "$staging" "$program"
  if [[ -e $target && ! -x $target/bin/$program ]]; then
    rm -rf "$staging"
    die "bundle: $target exists and is no bundle; remove it or name another folder"
  fi
  rm -rf "$target"
  mv "$staging" "$target"
  echo "$target: $(du -sh "$target" | cut -f1), $(find "$target/lib" -name '*.so*' | wc -l) libraries"
}

# Prints the programs of a bundle, and the library that reads Parquet, which they load only when they need it.
bundled_programs() {
  printf '%s\n' "$1"/bin/*
  if [[ -e $1/lib/libpipetrain_parquet.so ]]; then echo "$1/lib/libpipetrain_parquet.so"; fi
}

copy_libraries() {
  local programs
  mapfile -t programs < <(bundled_programs "$1")
  if ! "$root/scripts/copy_libraries.sh" "$1/lib" "$1/share/doc" "${programs[@]}"; then
    rm -rf "$1"
    die 'bundle: a library is missing'
  fi
}

# Every library must now come from the bundle or be one of the host's, and the program must start from another folder.
check_bundle() {
  local folder=$1 program=$2 outside programs
  mapfile -t programs < <(bundled_programs "$folder")
  outside=$(unset LD_LIBRARY_PATH && "$root/scripts/copy_libraries.sh" --check "$folder/lib" "$folder/share/doc" "${programs[@]}")
  if [[ -n $outside ]] || ! (cd / && env -i "$folder/bin/$program" --help >/dev/null); then
    rm -rf "$folder"
    echo "dev: error: bundle: it does not stand alone: ${outside:-$program --help fails in it}" >&2
    exit 1
  fi
}
