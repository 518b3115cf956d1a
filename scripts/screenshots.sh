# shellcheck shell=bash
# ./dev screenshots: the pictures of pages in docs/, made by Chromium of runs that it trains. Sourced by dev.
# shellcheck disable=SC2154,SC2034  # shares variables with dev

most_picture_bytes=150000

command_screenshots() {
  local target=$root/docs
  while (($#)); do
    case $1 in
      --yes) assume_yes=yes ;;
      */*) target=$1 ;;
      *) die "screenshots: '$1' is no option; a folder has a / in its name" ;;
    esac
    shift
  done
  ensure_build_packages cpu
  if ! command -v "$(browser)" >/dev/null; then ensure_packages "${browser_packages[@]}"; fi
  build_targets cpu pipetrain >&2
  mkdir -p "$target"
  target=$(cd "$target" && pwd)
  local work program=$root/build/pipetrain
  work=$(mktemp -d)
  # shellcheck disable=SC2064  # the folder of now
  trap "rm -rf '$work'" EXIT
  (cd "$work" && make_pages "$program") >&2
  take_picture "$work/report.html" 1280 1100 "$target/report.png"
  take_picture "$work/runs.html" 1100 560 "$target/compare.png"
  take_picture "$work/simulate.html" 1280 420 "$target/simulate.png"
  take_picture "$work/watch.html" 860 450 "$target/watch.png"
}

browser() { echo "${PIPETRAIN_TEST_CHROMIUM:-chromium}"; }

# make_pages PROGRAM: writes the pages into this folder.
make_pages() {
  local program=$1 rate
  local run=(--device cpu --threads 1 --pp 2 --microbatches 8 --schedule zb-h1 --seq-len 64 --split 0.1 --eval-interval 20 --steps 120)
  "$program" "${run[@]}" --report report.html --metrics report.jsonl --save run --save-interval 60
  for rate in 1e-3 3e-4 1e-4; do
    "$program" "${run[@]}" --lr "$rate" --metrics "lr $rate.jsonl"
  done
  "$program" compare lr*.jsonl --report runs.html || true # they differ
  "$program" simulate --pp 4 --microbatches 8 --schedule zb-h1 --html simulate.html
  terminal_page "$program watch report.jsonl --once" >watch.html
}

# terminal_page COMMAND: a page with what a terminal of 96 columns shows of it.
terminal_page() {
  local text
  text=$(script -qec "stty cols 96 rows 30; $1" /dev/null | tr -d '\r' | sed -E 's/\x1b\[[0-9;?]*[a-zA-Z]//g; s/&/\&amp;/g; s/</\&lt;/g')
  cat <<END
<!doctype html><meta charset="utf-8"><style>body { margin: 0; background: #14181d; color: #d7dde4 }
pre { margin: 16px 20px; font: 14px/1.25 "DejaVu Sans Mono", monospace }</style>
<pre>\$ pipetrain watch run.jsonl
$text</pre>
END
}

# take_picture PAGE WIDTH HEIGHT PNG
take_picture() {
  local bytes
  "$(browser)" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars --virtual-time-budget=4000 \
    --user-data-dir="$work/profile" --window-size="$2,$3" --screenshot="$4.new.png" "file://$1" >"$work/browser.log" 2>&1 || true
  if [[ ! -s $4.new.png ]]; then die "screenshots: $(browser) made no picture of $1: $(tail -n 1 "$work/browser.log")"; fi
  mv "$4.new.png" "$4"
  bytes=$(stat -c %s "$4")
  if ((bytes > most_picture_bytes)); then die "screenshots: $4 has $bytes bytes, more than $most_picture_bytes; show less"; fi
  echo "$4"
}
