# shellcheck shell=bash
# ./dev package: what others install: a wheel, a Debian package and a tarball. Sourced by dev.
# shellcheck disable=SC2154,SC2034  # shares variables with dev

# shellcheck source=scripts/python.sh
source "$root/scripts/python.sh"
# shellcheck source=scripts/bundle.sh
source "$root/scripts/bundle.sh"

command_package() {
  local preset=cpu target=$root/dist kinds=()
  while (($#)); do
    case $1 in
      --yes) assume_yes=yes ;;
      --cuda) preset=cuda ;;
      wheel | deb | tarball) kinds+=("$1") ;;
      -*) die "package: unknown option '$1'; see ./dev help" ;;
      */*) target=$1 ;;
      *) die "package: '$1' is neither wheel, deb nor tarball; a folder has a / in its name" ;;
    esac
    shift
  done
  if ((${#kinds[@]} == 0)); then kinds=(wheel deb tarball); fi
  mkdir -p "$target"
  target=$(cd "$target" && pwd)
  ensure_build_packages "$preset"
  local kind
  for kind in "${kinds[@]}"; do (package_"$kind" "$preset" "$target"); done
}

package_version() { sed -nE 's/^project\(pipetrain VERSION ([0-9.]+).*/\1/p' "$root/CMakeLists.txt"; }

# The wheel says which C library it needs: the newest that one of its files asks for.
package_wheel() {
  local preset=$1 target=$2 venv work wheel glibc options=()
  ensure_python_packages
  venv=$(build_folder "$preset")/python-venv
  mkdir -p "$(dirname "$venv")"
  if ! make_python_venv "$venv" >&2 || ! "$venv/bin/python" -m pip install -q wheel >&2; then die 'package: no environment for Python; see above'; fi
  if [[ $preset == cuda ]]; then options+=(-C cmake.define.PIPETRAIN_CUDA=ON -C build-dir=build-wheel-cuda); fi
  work=$(mktemp -d)
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$work'" EXIT
  "$venv/bin/python" -m pip wheel -q --no-deps -w "$work" "${options[@]}" "$root" >&2
  "$venv/bin/python" -m wheel unpack -q -d "$work/unpacked" "$work"/*.whl 2>/dev/null || "$venv/bin/python" -m wheel unpack -d "$work/unpacked" "$work"/*.whl >/dev/null
  glibc=$(find "$work/unpacked" -type f \( -name '*.so*' -o -name pipetrain \) -exec objdump -T {} + 2>/dev/null |
    sed -nE 's/.*\(?GLIBC_2\.([0-9]+).*/\1/p' | sort -n | tail -n 1)
  wheel=$("$venv/bin/python" -m wheel tags --remove --platform-tag "manylinux_2_${glibc}_$(uname -m)" "$work"/*.whl | tail -n 1)
  mv "$work/$wheel" "$target/"
  echo "$target/$wheel"
}

# The program alone, with the libraries of Debian as dependencies.
package_deb() {
  local preset=$1 target=$2 work file architecture
  if ! command -v dpkg-shlibdeps >/dev/null; then ensure_packages dpkg-dev; fi
  architecture=$(dpkg --print-architecture)
  file=$target/pipetrain_$(package_version)_$architecture.deb
  build_targets "$preset" pipetrain
  work=$(mktemp -d)
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$work'" EXIT
  mkdir -p "$work/debian" "$work/package/DEBIAN" "$work/package/usr/share/doc/pipetrain"
  chmod 755 "$work/package"
  cmake --install "$(build_folder "$preset")" --prefix "$work/package/usr" --component program --strip >/dev/null
  cp "$root/LICENSE" "$work/package/usr/share/doc/pipetrain/copyright"
  printf 'Source: pipetrain\n\nPackage: pipetrain\nArchitecture: %s\n' "$architecture" >"$work/debian/control"
  local depends
  depends=$(cd "$work" && dpkg-shlibdeps -O -e package/usr/bin/pipetrain | sed -n 's/^shlibs:Depends=//p')
  cat >"$work/package/DEBIAN/control" <<END_OF_CONTROL
Package: pipetrain
Version: $(package_version)
Architecture: $architecture
Maintainer: The authors of pipetrain <pipetrain@localhost>
Section: science
Priority: optional
Installed-Size: $(du -sk "$work/package/usr" | cut -f1)
Depends: $depends
Description: pipeline-parallel training of transformer language models
 Trains transformer language models with pipeline, tensor, data and context
 parallelism, and reads and writes model folders of Hugging Face.
END_OF_CONTROL
  dpkg-deb --root-owner-group -b "$work/package" "$file" >/dev/null
  echo "$file"
}

# A bundle as one file.
package_tarball() {
  local preset=$1 target=$2 work name
  name=pipetrain-$(package_version)-linux-$(uname -m)
  if [[ $preset == cuda ]]; then name+=-cuda; fi
  work=$(mktemp -d)
  (
    if [[ $preset == cuda ]]; then command_bundle --cuda "$work/$name"; else command_bundle "$work/$name"; fi
  ) >&2
  tar -C "$work" -czf "$target/$name.tar.gz" "$name"
  rm -rf "$work"
  echo "$target/$name.tar.gz"
}
