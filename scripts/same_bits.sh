#!/usr/bin/env bash
# Compares whether two builds of pipetrain compute the same: trains a table of small runs on the CPU with both, and
# compares their metrics (without times and memory), saved models and checkpoints byte by byte. Takes some minutes on
# two cores.
# scripts/same_bits.sh [--jobs N] OLD NEW [TEXT...]     programs; runs whose line contains a TEXT, or all of them
# Prints a line for every run that differs or cannot be trained, then "N runs, N equal". Ends with status 1 if not all
# are equal.
set -euo pipefail
export LC_ALL=C

die() {
  echo "same_bits: error: $*" >&2
  exit 2
}

# Each line is a run: the name of a model that write_models makes (or the preset tiny), then options. A word NAME=VALUE
# is a variable of its environment. Options after "=>" are those with which the run resumes from its checkpoint; after
# "=old=>" the new program resumes from the checkpoint of the old one. Rows with --nproc run under pipetrain launch.
# @FILE is a file of write_rows; --offload-to names the run's folder on a disk.
table() {
  cat <<'END'
tiny --pp 1
gpt2 --pp 1
tiny --pp 2
gpt2 --pp 2
tiny --pp 4
gpt2 --pp 4 --threads 2
tiny --tp 2
gpt2 --pp 2 --tp 2
tiny --dp 2
gpt2 --pp 2 --tp 2 --dp 2
tiny --pp 2 --tp 2 --sequence-parallel off
llama-tied --pp 2 --cut 1,7 --microbatch 2
gpt2-untied --pp 4 --cut 3,1,1,3
tiny --pp 4 --schedule gpipe
gpt2 --pp 2 --schedule gpipe
tiny --pp 2 --schedule interleaved
gpt2 --pp 2 --schedule interleaved --chunks 3
tiny --pp 2 --tp 2 --schedule interleaved --dp 2
tiny --pp 2 --schedule looped-bfs
gpt2 --pp 2 --schedule looped-bfs --dp 2
tiny --pp 4 --schedule zb-h1
gpt2 --pp 2 --tp 2 --schedule zb-h1
tiny --pp 4 --schedule zb-h2
gpt2 --pp 2 --schedule zb-h2
tiny --pp 4 --schedule zb-v
gpt2 --pp 2 --schedule zb-v --dp 2
tiny --pp 2 --schedule v-half
gpt2 --pp 2 --schedule v-min
tiny --pp 4 --schedule dualpipe-v
gpt2 --pp 2 --schedule dualpipe-v --tp 2
tiny --pp 2 --schedule braided-v --tp 2
gpt2 --pp 2 --schedule braided-v --tp 2 --dp 2
llama-tied --pp 2 --schedule braided-v --tp 2 --cp 2 --recompute selective
tiny --pp 2 --schedule auto
tiny --pp 4 --order ready
gpt2 --pp 2 --schedule interleaved --order ready --dp 2 --zero 2
llama-tied --pp 2
llama-tied --pp 2 --tp 2 --schedule zb-v
llama-tied --pp 2 --dp 2 --zero 3
gpt2-untied --pp 2 --tp 2 --dp 2
tiny --cp 2
gpt2 --cp 2 --pp 2
tiny --cp 2 --pp 2 --tp 2 --schedule zb-v
tiny --cp 2 --pp 2 --slices 2
gpt2 --cp 2 --dropout 0.1 --dp 2
llama-tied --cp 2 --pack isolated --data @rows.jsonl
tiny --pp 2 --slices 4
gpt2 --pp 2 --slices 2 --schedule interleaved
tiny --pp 2 --slices 4 --dropout 0.1 --recompute full
gpt2 --pp 2 --slices 2 --pack isolated --data @rows.jsonl --tp 2
tiny --pack isolated --data @rows.jsonl --pp 2
gpt2 --pack isolated --data @rows.jsonl --dp 2 --schedule zb-h1 --pp 2
tiny --pack documents --data @rows.jsonl --microbatch 2
gpt2 --pack none --data @rows.jsonl --pp 2
tiny --dp 2 --zero 1
gpt2 --dp 2 --zero 1 --pp 2
tiny --dp 2 --zero 2 --pp 2
gpt2 --dp 2 --zero 2 --tp 2
tiny --dp 2 --zero 3 --pp 2
gpt2 --dp 2 --zero 3 --pp 2 --schedule zb-v
tiny --dp 2 --zero 3 --precision bf16 --recompute full --pp 2
llama-tied --cp 2 --zero 3 --pp 2
tiny --pp 2 --offload optimizer --offload-to disk
gpt2 --dp 2 --zero 1 --offload optimizer --offload-to disk --precision bf16
tiny --pp 2 --offload parameters --offload-to disk --recompute full
gpt2 --dp 2 --zero 3 --offload parameters --offload-to disk --zero-prefetch 2
tiny --pp 2 --offload gradients --offload-to disk
gpt2 --dp 2 --zero 2 --offload optimizer,gradients --offload-to disk
tiny --pp 2 --offload activations --offload-to disk --schedule gpipe
gpt2 --pp 4 --offload activations --activation-offload-fraction 0.5 --offload-to disk --schedule interleaved
llama-tied --pp 2 --dp 2 --zero 3 --offload optimizer,parameters,gradients,activations --offload-to disk --schedule looped-bfs
gpt2 --pp 2 --tp 2 --offload optimizer,parameters,gradients --offload-to disk --precision fp16
tiny --pp 2 --precision bf16
gpt2 --pp 2 --tp 2 --precision bf16 --schedule zb-h1
tiny --precision fp16 --pp 2
gpt2 --precision fp16 --loss-scale-initial 4194304 --steps 4 --loss-scale-hysteresis 1 --dp 2 --zero 1
tiny --dropout 0.1 --pp 2 --schedule zb-h1
gpt2 --dropout 0.2 --tp 2 --dp 2
tiny --pp 2 --recompute selective
gpt2 --pp 2 --recompute full --recompute-num-layers 1
tiny --pp 2 --loss-chunks 3
gpt2 --tp 2 --loss-chunks 4 --precision bf16
tiny --pp 2 --schedule zb-h2 --post-validation on
gpt2 --pp 2 --dp 2 --post-validation on --clip-grad 0.01 --precision bf16
tiny --pp 2 --post-validation on --precision fp16 --loss-scale-initial 4194304 --steps 4 --loss-scale-hysteresis 1
tiny --pp 2 --warmup-steps 2 --weight-decay 0.3 --beta2 0.9 --clip-grad 0
tiny --pp 2 --split 0.2 --eval-interval 2
gpt2 --pp 2 --dp 2 --eval-data @rows.jsonl --data @rows.jsonl --pack none --eval-interval 2 --schedule zb-v
tiny --num-labels 3 --data @labels.jsonl --eval-data @labels.jsonl --pp 2
gpt2 --num-labels 3 --data @labels.jsonl --eval-data @labels.jsonl --pp 2 --tp 2 --dp 2 --zero 1 --schedule zb-h1
PIPETRAIN_FAULT=1:2:skip tiny --pp 2
PIPETRAIN_FAULT=0:2:skip gpt2 --pp 2 --post-validation on
tiny --pp 2 --steps 2 => --steps 4
gpt2 --dp 2 --zero 2 --steps 2 => --steps 4 --pp 2 --dp 1 --zero 0
tiny --pp 2 --tp 2 --steps 2 =old=> --steps 4 --pp 1 --dp 2 --zero 3
gpt2 --precision fp16 --loss-scale-window 2 --steps 2 =old=> --steps 4
tiny --nproc 2 --pp 2 --transport ucx
gpt2 --nproc 2 --dp 2 --zero 3 --transport ucx
tiny --nproc 2 --tp 2 --pp 2 --schedule zb-h1 --transport ucx
tiny --nproc 2 --tp 2 --transport ucx
gpt2 --nproc 4 --pp 2 --tp 2 --transport ucx
gpt2 --nproc 2 --cp 2 --pp 2 --transport ucx
tiny --nproc 2 --cp 2 --dp 2 --zero 2 --transport ucx
llama-tied --nproc 2 --cp 2 --transport ucx
END
}

# Writes config.json files of small models, whose weights are drawn.
write_models() {
  local gpt2='"model_type": "gpt2", "activation_function": "gelu_new", "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0,
    "n_embd": 64, "n_head": 4, "n_layer": 4, "n_positions": 64, "vocab_size": 256, "initializer_range": 0.1, "layer_norm_epsilon": 1e-5,
    "bos_token_id": 1, "eos_token_id": 2'
  local llama='"model_type": "llama", "hidden_size": 64, "intermediate_size": 160, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64, "vocab_size": 256, "initializer_range": 0.1, "rms_norm_eps": 1e-5,
    "hidden_act": "silu", "rope_theta": 10000, "bos_token_id": 1, "eos_token_id": 2'
  mkdir "$work/gpt2" "$work/gpt2-untied" "$work/llama-tied"
  echo "{\"architectures\": [\"GPT2LMHeadModel\"], $gpt2, \"tie_word_embeddings\": true}" >"$work/gpt2/config.json"
  echo "{\"architectures\": [\"GPT2LMHeadModel\"], $gpt2, \"tie_word_embeddings\": false}" >"$work/gpt2-untied/config.json"
  echo "{\"architectures\": [\"LlamaForCausalLM\"], $llama, \"tie_word_embeddings\": true}" >"$work/llama-tied/config.json"
}

# Writes rows of several lengths, the same in every call.
write_rows() {
  local words=(the pipeline trains a model in stages of blocks and each has its own queue) row text i
  for ((row = 0; row < 96; ++row)); do
    text=
    for ((i = 0; i < 1 + row * 7 % 8; ++i)); do text+="${words[(row * 5 + i * i * 3) % ${#words[@]}]} "; done
    text=${text:0:32}
    echo "{\"text\": \"$text\"}" >>"$work/rows.jsonl"
    echo "{\"text\": \"$text\", \"label\": $((row * row % 7 % 3))}" >>"$work/labels.jsonl"
  done
}

# train PROGRAM FOLDER WORD...: trains in FOLDER, which then has metrics.jsonl and run/; the program's messages are in
# FOLDER/messages. The last value of a repeated option counts.
train() {
  local program=$1 folder=$2 command=train name variables=() arguments=()
  local -A option=([--steps]=3 [--threads]=1 [--global-batch]=8 [--seq-len]=32 [--lr]=1e-2 [--device]=cpu [--save]=run
    [--metrics]=metrics.jsonl [--log-interval]=1000000)
  shift 2
  while (($#)); do
    case $1 in
      PIPETRAIN_*=*) variables+=("$1") ;;
      tiny) option[--model]=tiny ;;
      gpt2 | gpt2-untied | llama-tied) option+=([--model]=$work/$1 [--init]=random) ;;
      *)
        option[$1]=${2/#@/$work/}
        shift
        ;;
    esac
    shift
  done
  if [[ -n ${option[--nproc]-} ]]; then command=launch; fi
  if [[ -n ${option[--offload-to]-} ]]; then option[--offload-to]=$disk; fi
  for name in "${!option[@]}"; do arguments+=("$name" "${option[$name]}"); done
  if [[ -e $folder/run ]]; then arguments+=(--resume); fi
  mkdir -p "$folder"
  (cd "$folder" && env "${variables[@]}" timeout 120 "$program" "$command" "${arguments[@]}" &>messages </dev/null)
}

# Lines of metrics without what depends on the machine.
bare_metrics() {
  local timed='seconds|elapsed|tokens_per_second|tokens_per_second_per_device|tflops_per_device|mfu|bubble|stage_bubble|input_wait'
  # Keys without a value are left out too, because older programs lack some of them.
  sed -E "s/\"($timed|memory_bytes|trainable_parameters|membership|takeovers|total_steps)\":(\[[^]]*\]|[^,}]*),?//g; s/\"[a-z_]+\":null,?//g; s/,}/}/" "$1"
}

# lost OLD NEW: prints a line of checkpoint state OLD that NEW lacks. Lines that only NEW has are allowed: a format may
# grow. The file's checksum of itself follows from the rest.
lost() { grep -m 1 '^<' < <(diff <(grep -v '^ "checksum": ' "$1") <(grep -v '^ "checksum": ' "$2")); }

# difference OLD NEW: prints the first difference between two folders of runs, or nothing.
difference() {
  local old=$1 new=$2 state line
  if [[ ! -s $old/metrics.jsonl || ! -s $old/run/model/model.safetensors ]]; then
    echo 'the old program has written no metrics or no model'
    return
  fi
  if ! line=$(diff <(bare_metrics "$old/metrics.jsonl") <(bare_metrics "$new/metrics.jsonl")); then
    echo "metrics: $(grep -m 1 '^<' <<<"$line" || true) $(grep -m 1 '^>' <<<"$line" || true)"
    return
  fi
  if ! line=$(diff -rq --exclude=state.json "$old/run" "$new/run"); then
    echo "saved: ${line%%$'\n'*}"
    return
  fi
  for state in "$old"/run/step-*/state.json; do
    if line=$(lost "$state" "$new/${state#"$old"/}"); then
      echo "${state#"$old"/}: $line"
      return
    fi
  done
}

# train_both FOLDER WORD...: trains in FOLDER/old and FOLDER/new and prints the difference.
train_both() {
  local folder=$1 failed=''
  shift
  if ! train "$old_program" "$folder/old" "$@"; then failed="the old program fails: $(tail -n 1 "$folder/old/messages")"; fi
  if ! train "$new_program" "$folder/new" "$@"; then failed+="${failed:+; }the new program fails: $(tail -n 1 "$folder/new/messages")"; fi
  if [[ -n $failed ]]; then
    echo "$failed"
  else
    difference "$folder/old" "$folder/new"
  fi
}

# run_row NUMBER LINE: writes the difference to NUMBER.result.
run_row() {
  local folder=$work/$1 line=$2 words more result
  read -ra words <<<"${line%% =*}"
  result=$(train_both "$folder" "${words[@]}")
  if [[ -z $result && $line == *'=> '* ]]; then
    if [[ $line == *' =old=> '* ]]; then
      rm -r "$folder/new"
      cp -r "$folder/old" "$folder/new"
    fi
    read -ra more <<<"${line##*=> }"
    result=$(train_both "$folder" "${words[@]}" "${more[@]}")
  fi
  rm -rf "$folder"
  echo "$result" >"$work/$1.result"
}

# run_rows JOBS LINE...: runs this many at a time.
run_rows() {
  local jobs=$1 number=0 line
  shift
  for line in "$@"; do
    if ((number >= jobs)); then wait -n; fi
    run_row "$number" "$line" &
    number=$((number + 1))
  done
  wait
}

report() {
  local number=0 equal=0 line result
  for line in "$@"; do
    result=$(<"$work/$number.result")
    if [[ -z $result ]]; then equal=$((equal + 1)); else echo "$line: $result"; fi
    number=$((number + 1))
  done
  echo "$number runs, $equal equal"
  ((equal == number))
}

# chosen TEXT...: prints the lines of the table that contain one of these, or all.
chosen() { if (($#)); then table | grep -F "${@/#/-e}"; else table; fi; }

main() {
  local jobs rows
  jobs=$(nproc)
  if [[ ${1-} == --jobs ]]; then
    jobs=${2-}
    if [[ ! $jobs =~ ^[1-9][0-9]?$ ]]; then die "--jobs '$jobs': must be a number from 1 to 99"; fi
    shift 2
  fi
  if (($# < 2)); then die 'give two programs: scripts/same_bits.sh [--jobs N] OLD NEW [TEXT...]'; fi
  old_program=$(realpath "$1") new_program=$(realpath "$2")
  shift 2
  for program in "$old_program" "$new_program"; do
    if [[ ! -f $program || ! -x $program ]]; then die "$program is no program"; fi
  done
  mapfile -t rows < <(chosen "$@")
  if ((${#rows[@]} == 0)); then die "no run contains ${*@Q}"; fi
  disk=$(mktemp -d)
  work=$(mktemp -d -p "$(if [[ -w /dev/shm ]]; then echo /dev/shm; else dirname "$disk"; fi)")
  # shellcheck disable=SC2064  # the folders of now
  trap "rm -rf '$work' '$disk'" EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  write_models
  write_rows
  run_rows "$jobs" "${rows[@]}"
  report "${rows[@]}"
}

main "$@"
