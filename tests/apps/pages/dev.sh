#!/usr/bin/env bash
# Stands for `./dev` in the commands of a page: runs the program for `run`, and looks up the other commands.
set -euo pipefail

if [[ ${1-} == run ]]; then exec pipetrain "${@:2}"; fi
"$PAGES_ROOT/dev" help | grep -qE "^  $1( |\$)" || { echo "./dev has no command $1" >&2 && exit 2; }
