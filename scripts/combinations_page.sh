#!/usr/bin/env bash
# Writes the table of what does not work together into docs/training.md, and the list of what is not built yet into
# README.md, as pipetrain prints them. tests/structure/options_page_test.cpp holds both pages to it.
#   scripts/combinations_page.sh build/pipetrain
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)

# write FILE NAME: the lines of stdin become those between the two comments of this name.
write() {
  text=$(cat) awk -v name="$2" '
    $0 ~ "^<!-- end of " name { inside = 0 }
    !inside { print }
    $0 ~ "^<!-- " name ":" { inside = 1; print ENVIRON["text"] }' "$root/$1" >"$root/$1.new"
  mv "$root/$1.new" "$root/$1"
}

page=$("$1" doctor --combinations)
sed '1,/^$/d' <<<"$page" | write docs/training.md combinations
sed '/^$/,$d' <<<"$page" | write README.md "not built"
