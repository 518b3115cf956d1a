#!/usr/bin/env bash
# Stands for `pipetrain` in the commands of a page. Makes the inputs that the page leaves to its reader, shortens
# training to a few steps, and runs the real program. PAGES_PROGRAM is its path, and PAGES_INPUTS a folder of inputs.
set -euo pipefail

# input OPTION FILE: makes the input of an option where the page has not made it.
input() {
  local option=$1 file=${2%:[0-9]*}
  if [[ -e $file || $file == -* ]]; then return; fi
  mkdir -p "$(dirname "$file")"
  case $option:$file in
    --model:*[A-Z/]* | --model:sft | --model:base | --tokenizer:* | --reference:*) cp -r "$PAGES_INPUTS/model" "$file" ;;
    --adapter:* | --load:adapter) cp -r "$PAGES_INPUTS/adapted/model" "$file" ;;
    --data:* | --eval-data:*) data "$file" ;;
    --config:ds_config.json) echo '{"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2}' >"$file" ;;
    --prompts:*) echo '{"prompt": "The river"}' >"$file" ;;
    *:*.jsonl) cp "$PAGES_INPUTS/run.jsonl" "$file" ;;
  esac
}

# data FILE: rows of the kind that the name tells, or text.
data() {
  case $1 in
    *chats*.jsonl) cp "$PAGES_INPUTS/chats.jsonl" "$1" ;;
    *pairs*.jsonl) cp "$PAGES_INPUTS/pairs.jsonl" "$1" ;;
    *.jsonl) cp "$PAGES_INPUTS/text.jsonl" "$1" ;;
    *.tokens) cp "$PAGES_INPUTS/text.tokens" "$1" ;;
    *.txt) cp "$PAGES_INPUTS/text.txt" "$1" ;;
    *) mkdir -p "$1" && cp "$PAGES_INPUTS/text.txt" "$1/" ;;
  esac
}

# newest_step RUN: prints the last checkpoint of a run of this page, or of the run with an adapter.
newest_step() {
  local steps=("$1"/step-*)
  if [[ ! -d ${steps[0]} ]]; then steps=("$PAGES_INPUTS"/adapted/step-*); fi
  echo "${steps[-1]}"
}

words=("${@/#\/models\//models/}") # a page names /models; no test writes there
command=${words[0]-train} previous='' kept=()
if [[ $command == -* ]]; then command=train; fi
if [[ $command == launch && " ${words[*]} " =~ \ (generate|python|python3|doctor)\  ]]; then command=other; fi
for word in "${words[@]}"; do
  case $previous:$word in
    --load:*/step-*) word=$(newest_step "${word%/*}") ;; # a page names a later step
    --save:*) if [[ " ${words[*]} " != *' --resume '* ]]; then rm -rf "$word"; fi ;; # commands of a page are alternatives
    --*) input "$previous" "$word" ;;
  esac
  case $command in watch | compare) input "" "$word" ;; esac
  if [[ $command =~ ^(train|launch)$ && ($word == --steps || $previous == --steps) ]]; then
    previous=$word
    continue
  fi
  previous=$word
  kept+=("$word")
done

case $command in
  train | launch)
    if [[ " ${words[*]} " != *' --epochs '* ]]; then
      if [[ " ${words[*]} " == *' --resume '* ]]; then kept+=(--steps 6); else kept+=(--steps 4); fi
    fi
    if [[ $0 == */build-cuda/* ]]; then kept+=(--dry-run); fi # a GPU runs it
    ;;
  watch) kept+=(--once) ;; # it would end with Ctrl-C
esac
if [[ " ${kept[*]} " != *' --dry-run '* ]]; then exec "$PAGES_PROGRAM" "${kept[@]}"; fi
# A dry run prints the plan of a run for which this host need not have the memory.
status=0
exec 3>&1
error=$({ "$PAGES_PROGRAM" "${kept[@]}" >&3; } 2>&1) || status=$?
echo "$error" >&2
if ((status == 1)) && [[ $error == *'the run needs about'* ]]; then exit 0; fi
exit "$status"
