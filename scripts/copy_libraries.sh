#!/usr/bin/env bash
# Copies the shared libraries of programs, under the names that they load them by, with their licences, so that the programs
# start on a host that does not have them.
#
#   scripts/copy_libraries.sh LIBRARIES LICENSES PROGRAM...
#
# Programs look for them by a run path of their own. Not copied: the C and C++ runtimes, which every host has (those of
# Debian 12 need glibc 2.34 and GLIBCXX 3.4.30 or newer), and NVIDIA's libraries, which belong to its driver and CUDA
# installation. With --check in front, copies nothing, and lists the libraries that come from elsewhere.
set -euo pipefail

host_libraries='^(ld-linux.*|lib(c|m|mvec|dl|rt|pthread|resolv|util|anl|nsl|stdc\+\+|gcc_s)\.so.*|lib(cuda|cudart|cublas|cublasLt|cudnn.*|nccl|nvrtc.*|nvJitLink|nvidia.*)\.so.*)$'

check=no
if [[ $1 == --check ]]; then
  check=yes
  shift
fi
libraries=$1 licenses=$2
shift 2
mkdir -p "$libraries"

# Prints name and path of each library that the programs load; the path is "not" where there is none.
loaded() { ldd "$@" | sed -nE 's/^\t([^ ]+) => ([^ ]+).*/\1 \2/p' | sort -u; }

while read -r name path; do
  if [[ $name =~ $host_libraries || $(readlink -f "$path") == "$(readlink -f "$libraries")"/* ]]; then continue; fi
  if [[ $check == yes ]]; then
    echo "$name"
    continue
  fi
  if [[ $path == not ]]; then
    echo "copy_libraries: $name is not installed here" >&2
    exit 1
  fi
  install -m 644 "$path" "$libraries/$name"
  package=$(dpkg-query -S "$(readlink -f "$path")" 2>/dev/null | cut -d: -f1 || true)
  if [[ -n $package && -e /usr/share/doc/$package/copyright ]]; then
    install -D -m 644 "/usr/share/doc/$package/copyright" "$licenses/$package/copyright"
  fi
done < <(loaded "$@")
