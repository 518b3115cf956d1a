# shellcheck shell=bash
# ./dev bundle: the program with every library it needs, to copy to another Linux host. Sourced by dev.
# shellcheck disable=SC2154,SC2034  # shares variables with dev

# The host provides: the C and C++ runtimes (the bundle needs glibc 2.34 and GLIBCXX 3.4.30 or newer: Debian 12, Ubuntu
# 22.04), and NVIDIA's libraries, which belong to its driver and CUDA installation.
host_libraries='^(ld-linux.*|lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|nsl|stdc\+\+|gcc_s)\.so.*|lib(cuda|cudart|cublas|cublasLt|cudnn.*|nccl|nvrtc.*|nvJitLink|nvidia.*)\.so.*)$'

command_bundle() {
  local preset=cpu extra=no target=$root/bundle targets=(pipetrain)
  while (($#)); do
    case $1 in
      --yes) assume_yes=yes ;;
      --cuda) preset=cuda ;;
      --tests) extra=yes targets=() ;;
      -*) die "bundle: unknown option '$1'; see ./dev help" ;;
      *) target=$1 ;;
    esac
    shift
  done
  ensure_build_packages "$preset"
  build_targets "$preset" "${targets[@]}"

  # Built next to the target and moved there whole, so that a failure leaves no half bundle.
  local staging component components=(program)
  if [[ $extra == yes ]]; then components+=(extra); fi
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
  check_bundle "$staging"
  if [[ -e $target && ! -x $target/bin/pipetrain ]]; then
    rm -rf "$staging"
    die "bundle: $target exists and is no bundle; remove it or name another folder"
  fi
  rm -rf "$target"
  mv "$staging" "$target"
  echo "$target: $(du -sh "$target" | cut -f1), $(find "$target/lib" -name '*.so*' | wc -l) libraries"
}

# Copies each shared library that the programs load, under the name they load it by, with its licence.
copy_libraries() {
  local folder=$1 name path package
  while read -r name path; do
    if [[ $path == not ]]; then
      rm -rf "$folder"
      die "bundle: $name is not installed here"
    fi
    if [[ $name =~ $host_libraries || $(readlink -f "$path") == "$(readlink -f "$folder")"/lib/* ]]; then continue; fi
    install -m 644 "$path" "$folder/lib/$name"
    package=$(dpkg-query -S "$(readlink -f "$path")" 2>/dev/null | cut -d: -f1 || true)
    if [[ -n $package && -e /usr/share/doc/$package/copyright ]]; then
      install -D -m 644 "/usr/share/doc/$package/copyright" "$folder/share/doc/$package/copyright"
    fi
  done < <(cd "$folder/bin" && ldd_all | sed -nE 's/^\t([^ ]+) => ([^ ]+).*/\1 \2/p' | sort -u)
}

# Lists the libraries of the programs in this folder, and of the library that reads Parquet, which they load only when
# they need it.
ldd_all() {
  local files=(./*)
  if [[ -e ../lib/libpipetrain_parquet.so ]]; then files+=(../lib/libpipetrain_parquet.so); fi
  ldd "${files[@]}"
}

# Every library must now come from the bundle or be one of the host's, and the program must start from another folder.
check_bundle() {
  local folder=$1 outside
  outside=$(cd "$folder/bin" && unset LD_LIBRARY_PATH && ldd_all | sed -nE 's/^\t([^ ]+) => ([^ ]+).*/\1 \2/p' | sort -u |
    while read -r name path; do
      if [[ ! $name =~ $host_libraries && $(readlink -f "$path") != "$(readlink -f "$folder")"/lib/* ]]; then echo "$name"; fi
    done)
  if [[ -n $outside ]] || ! (cd / && env -i "$folder/bin/pipetrain" --version >/dev/null); then
    rm -rf "$folder"
    echo "dev: error: bundle: it does not stand alone: ${outside:-pipetrain --version fails in it}" >&2
    exit 1
  fi
}
