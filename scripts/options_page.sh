#!/usr/bin/env bash
# Prints docs/options.md: the help of every command's options. tests/structure/options_page_test.cpp compares the page
# with it.
# scripts/options_page.sh build/pipetrain >docs/options.md
set -euo pipefail

program=$1
cat <<'PAGE'
# Options

This page is the output of `pipetrain COMMAND --help` for every command. Brackets after an option show its default; an
option without brackets has none. Options come from the command line, else from the environment (`--seq-len` as
`PIPETRAIN_SEQ_LEN`), else from a TOML or JSON file (`--config`). [training.md](training.md) and the pages of subjects
that it names explain them.
PAGE
for command in train launch simulate tune doctor tokenize generate export replay compare watch relayout completion man; do
  printf '\n## %s\n\n```text\n' "$command"
  if [[ $command == launch ]]; then # its options are train's
    "$program" "$command" --help | sed '/^Model and data$/,$d' | sed -e :a -e '/^\n*$/{$d;N;ba' -e '}'
    echo '...the options of train, among them those of its processes'
  else
    "$program" "$command" --help
  fi
  printf '```\n'
done
