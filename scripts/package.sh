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

# Program and module come from the build folder; the description is what scikit-build-core makes of pyproject.toml, as for
# `pip install .`. The name says which C library the wheel needs: the newest that one of its files asks for.
package_wheel() {
  local preset=$1 target=$2 folder venv work glibc
  folder=$(build_folder "$preset")
  venv=$folder/python-venv
  mkdir -p "$folder"
  ensure_python_packages
  if ! make_python_venv "$venv" >"$folder/python-venv.log" 2>&1 ||
    ! "$venv/bin/python" -m pip install -q 'scikit-build-core>=0.10' wheel >>"$folder/python-venv.log" 2>&1; then
    die "package: the wheel needs packages of Python: $(tail -n 1 "$folder/python-venv.log")"
  fi
  build_python_module "$folder" "$venv" "$preset" >&2
  work=$(mktemp -d)
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$work'" EXIT
  cmake --install "$folder" --component python --prefix "$work/wheel" --strip >/dev/null
  cp -R "$root/bindings/python/pipetrain/." "$work/wheel/pipetrain/"
  find "$work/wheel" -name __pycache__ -prune -exec rm -r {} +
  (cd "$root" && "$venv/bin/python" -c '
import sys
from scikit_build_core.build import prepare_metadata_for_build_wheel
prepare_metadata_for_build_wheel(sys.argv[1])' "$work/wheel") >/dev/null
  glibc=$(find "$work/wheel" -type f \( -name '*.so*' -o -name pipetrain \) -exec objdump -T {} + |
    sed -nE 's/.*\(?GLIBC_2\.([0-9]+).*/\1/p' | sort -n | tail -n 1)
  sed -i -E "s/^(Tag: .*-)[^-]*\$/\1manylinux_2_${glibc}_$(uname -m)/" "$work/wheel"/*.dist-info/WHEEL
  "$venv/bin/python" -m wheel pack -d "$work" "$work/wheel" >/dev/null
  mv "$work"/*.whl "$target/"
  echo "$target/$(cd "$work/wheel" && "$venv/bin/python" -c '
import glob, re
text = open(glob.glob("*.dist-info/WHEEL")[0]).read()
print(glob.glob("*.dist-info")[0].removesuffix(".dist-info") + "-" + re.search("Tag: (.*)", text)[1] + ".whl")')"
}

# package_help PREFIX: the manual page, and what shells complete, as PREFIX/bin/pipetrain prints them.
package_help() {
  local program=$1/bin/pipetrain share=$1/share
  mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/vendor-completions" \
    "$share/fish/vendor_completions.d"
  "$program" man | gzip -9n >"$share/man/man1/pipetrain.1.gz"
  "$program" completion bash >"$share/bash-completion/completions/pipetrain"
  "$program" completion zsh >"$share/zsh/vendor-completions/_pipetrain"
  "$program" completion fish >"$share/fish/vendor_completions.d/pipetrain.fish"
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
  package_help "$work/package/usr"
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
