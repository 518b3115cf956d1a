# shellcheck shell=bash
# The Debian packages that pipetrain needs, and how to get them. Sourced by dev.
# shellcheck disable=SC2034,SC2154  # the tables are read, and assume_yes is set, by dev and its commands

# Debian 12 is tested. Debian 13, Ubuntu 22.04 and Ubuntu 24.04 have packages of the same names; they are untested.
tested_distributions=(debian:12)
untested_distributions=(debian:13 ubuntu:22.04 ubuntu:24.04)

build_packages=(
  g++ cmake ninja-build    # the compiler and the build
  ccache                   # a cache of compilations
  libcaf-dev               # actors
  libdnnl-dev              # matrix products
  libfmt-dev               # text
  libcli11-dev             # command line
  nlohmann-json3-dev       # JSON files
  libsimdjson-dev          # JSON lines, fast
  zlib1g-dev libzstd-dev   # compressed data
  liburing-dev             # states on a disk
  libpcre2-dev             # regular expressions of tokenizers
  libutf8proc-dev          # normal forms of Unicode
  libsentencepiece-dev     # tokenizer.model
  libxxhash-dev            # checksums
  libtomlplusplus-dev      # TOML files
  libboost-dev             # Asio: connections between processes
  libucx-dev               # bulk data between processes
  libdlpack-dev            # tensors of other libraries
  catch2 librapidcheck-dev # tests
  pkgconf                  # tests: finds the C API as other builds do
)
cuda_packages=(python3-pip) # fetches cudnn-frontend; the user installs the CUDA toolkit and cuDNN
# Tests of the Python module, with packages that pip fetches into build/python-venv.
python_packages=(python3-venv python3-dev)
lint_packages=(clang-format shellcheck)
# ./dev screenshots draws pages with it. Tests of pages use it where it is installed; ./dev test does not install it.
browser_packages=(chromium fonts-dejavu-core)

# Installs the packages that building a preset needs.
ensure_build_packages() {
  local wanted=("${build_packages[@]}")
  if [[ $1 == cuda ]] && ! python3 -m pip --version >/dev/null 2>&1; then wanted+=("${cuda_packages[@]}"); fi
  ensure_packages "${wanted[@]}"
}

# Installs those of the named packages that are missing. If none is, the cost is one call of dpkg-query.
ensure_packages() {
  if ! command -v dpkg-query >/dev/null; then return; fi # not a Debian: CMake will name what is missing
  local -A installed=()
  local name state missing=()
  while read -r name state; do
    if [[ $state == installed ]]; then installed[$name]=1; fi
  done < <(dpkg-query -W -f '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null)
  for name in "$@"; do
    if [[ -z ${installed[$name]-} ]]; then missing+=("$name"); fi
  done
  if ((${#missing[@]})); then install_packages "${missing[@]}"; fi
}

install_packages() {
  warn_untested_distribution
  local line="sudo apt-get install -y --no-install-recommends $*" sudo=()
  if ((EUID != 0)); then
    if ! command -v sudo >/dev/null; then
      die "packages are missing: $*; as root, type: apt-get update && ${line#sudo }"
    elif [[ $assume_yes == no && ! -t 0 ]]; then
      die "packages are missing: $*; type: sudo apt-get update && $line   (or give --yes)"
    elif [[ $assume_yes == no ]]; then
      local answer
      read -r -p "dev: install with sudo: $*? [y/N] " answer
      if [[ $answer != [yY]* ]]; then die "packages are missing: $*; type: sudo apt-get update && $line"; fi
    fi
    sudo=(sudo)
    if [[ ! -t 0 ]]; then sudo+=(-n); fi # nobody is there to type a password
    if ! "${sudo[@]}" true; then die "sudo refused; type: sudo apt-get update && $line"; fi
  fi
  echo "dev: installing $*" >&2
  local apt=("${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q)
  # The lists may be missing (never fetched) or so old that the servers dropped packages that they name: then fetches
  # them and tries again.
  if apt-cache show "$@" >/dev/null 2>&1 && "${apt[@]}" install -y --no-install-recommends "$@" >&2; then return; fi
  if ! { "${apt[@]}" update >&2 && "${apt[@]}" install -y --no-install-recommends "$@" >&2; }; then
    die "apt-get could not install: $*; see its messages above, then type: ${sudo[*]} apt-get update && $line"
  fi
}

warn_untested_distribution() {
  local ID='' VERSION_ID='' here
  if [[ -r /etc/os-release ]]; then
    # shellcheck source=/dev/null
    source /etc/os-release
  fi
  here="$ID:$VERSION_ID"
  if [[ " ${tested_distributions[*]} " == *" $here "* ]]; then return; fi
  if [[ " ${untested_distributions[*]} " == *" $here "* ]]; then
    echo "dev: note: $here should work but is untested" >&2
  else
    echo "dev: note: $here is unknown; the package names are those of Debian 12" >&2
  fi
}
