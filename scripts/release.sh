# shellcheck shell=bash
# ./dev release: the files of a release, each tried, with their checksums. Sourced by dev.
# shellcheck disable=SC2154,SC2034  # shares variables with dev

# shellcheck source=scripts/package.sh
source "$root/scripts/package.sh"

command_release() {
  local target=$root/dist/release tag=no packages=()
  while (($#)); do
    case $1 in
      --yes) assume_yes=yes ;;
      --cuda) packages+=(--cuda) ;;
      --tag) tag=yes ;;
      */*) target=$1 ;;
      *) die "release: '$1' is no option; a folder has a / in its name; see ./dev help" ;;
    esac
    shift
  done
  local version
  version=$(package_version)
  check_release "$version"
  if [[ -d $target && -n $(ls -A "$target") ]]; then die "release: $target is not empty; remove it or name another folder"; fi
  mkdir -p "$target"
  target=$(cd "$target" && pwd)
  release_source "$version" "$target/pipetrain-$version.tar.gz"
  (command_package "${packages[@]}" "$target/")
  (cd "$target" && sha256sum -- * >SHA256SUMS && sha256sum --quiet -c SHA256SUMS)
  try_release "$target"
  if [[ $tag == yes ]]; then
    git -C "$root" tag -a "v$version" -m "pipetrain $version"
    echo "dev: made the tag v$version here; to publish it: git push origin v$version" >&2
  fi
  echo "$target:"
  cat "$target/SHA256SUMS"
}

# check_release VERSION: the files are those of the commit, and the changelog ends with this version.
check_release() {
  local heading
  if ! git -C "$root" rev-parse --verify -q HEAD >/dev/null; then die 'release: there is no git repository; clone one'; fi
  if [[ -n $(git -C "$root" status --porcelain) ]]; then die 'release: there are changes that no commit has; commit them'; fi
  heading=$(grep -m 1 '^## \[' "$root/CHANGELOG.md")
  if [[ ! $heading =~ ^##\ \[$1\]\ -\ [0-9]{4}-[0-9]{2}-[0-9]{2}$ ]]; then
    die "release: CHANGELOG.md begins with '$heading'; make it '## [$1] - $(date +%F)'"
  fi
}

# release_source VERSION FILE: the same commit gives the same bytes.
release_source() {
  git -C "$root" archive --format=tar --prefix="pipetrain-$1/" HEAD | gzip -9n >"$2"
}

# try_release FOLDER: installs each file, and trains a step with it.
try_release() {
  local folder=$1 work file
  work=$(mktemp -d)
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$work'" EXIT
  for file in "$folder"/*; do
    case $file in
      *.whl) try_wheel "$file" "$work/wheel" ;;
      *.deb) try_deb "$file" "$work/deb" ;;
      *-linux-*.tar.gz) tar -C "$work" -xzf "$file" && try_program "$file" "$work/$(basename "$file" .tar.gz)/bin/pipetrain" ;;
      *.tar.gz) try_source "$file" "$work" ;;
    esac
  done
}

# try_program FILE PROGRAM: FILE brought this program.
try_program() {
  local out
  if ! out=$(cd / && "$2" --version 2>&1) || [[ $out != *" $(package_version)"* && $out != "$(package_version)"* ]]; then
    die "release: $1: pipetrain --version prints '$out'"
  fi
  if ! out=$(cd / && "$2" --device cpu --pp 2 --steps 1 2>&1); then die "release: $1 does not train: ${out##*$'\n'}"; fi
  echo "dev: $(basename "$1") installs and trains" >&2
}

try_wheel() {
  local tag
  tag=$(sed -E 's/.*-(manylinux_[0-9]+_[0-9]+)_.*/\1/' <<<"$1")
  if ! grep -q "$tag" "$root/docs/install.md"; then die "release: the wheel is for $tag, and docs/install.md says otherwise"; fi
  python3 -m venv "$2"
  "$2/bin/pip" install -q --no-index --no-deps "$1"
  try_program "$1" "$2/bin/pipetrain"
}

# Debian's own tool says whether the dependencies can be met; nothing is installed on this host.
try_deb() {
  local told
  if ! told=$(apt-get install --simulate "$1" 2>&1); then die "release: $1: apt-get cannot install it: ${told##*$'\n'}"; fi
  dpkg-deb -x "$1" "$2"
  try_program "$1" "$2/usr/bin/pipetrain"
}

# The archive builds without git.
try_source() {
  local folder
  tar -C "$2" -xzf "$1"
  folder=$2/$(basename "$1" .tar.gz)
  "$folder/dev" build --yes >&2
  try_program "$1" "$folder/build/pipetrain"
}
