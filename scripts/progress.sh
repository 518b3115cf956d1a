# shellcheck shell=bash
# shellcheck disable=SC2034  # scripts/build.sh reads ninja_status
# Shows progress while something takes long: one line on stderr, drawn again in place. Sourced by dev.

# Draws in place only if stderr is a terminal that can; otherwise draw_line and erase_line do nothing.
if [[ -t 2 && ${TERM-dumb} != dumb ]]; then drawn_in_place=yes; else drawn_in_place=no; fi

# draw_line TEXT: cuts the text to the terminal's width, since a line that wraps could not be erased.
draw_line() {
  if [[ $drawn_in_place == no ]]; then return; fi
  local columns=0
  read -r _ columns < <(stty size <&2 2>/dev/null) || true
  if ((columns < 2)); then columns=80; fi
  printf '\r\033[K%s' "${1:0:columns-1}" >&2
}

erase_line() {
  if [[ $drawn_in_place == yes ]]; then printf '\r\033[K' >&2; fi
}

# Prints "40 seconds", "about 3 minutes", for an estimated time.
rough_time() {
  if (($1 < 100)); then
    echo "$((($1 + 4) / 5 * 5)) seconds"
  else
    echo "$((($1 + 30) / 60)) minutes"
  fi
}

# Prints "9 min 12 s", for a measured time in whole seconds.
exact_time() {
  if (($1 < 60)); then echo "$1 s"; else echo "$(($1 / 60)) min $(($1 % 60)) s"; fi
}

# The text that ninja writes before each step if NINJA_STATUS is $ninja_status: a byte that no message contains, and the
# counts.
step_mark=$'\037'
ninja_status="${step_mark}%f/%t${step_mark}"

# Reads ninja's output. Its steps become the line drawn in place, or, without a terminal, a line after each tenth of a
# long build. Messages of compilers and ninja go to stderr unchanged; messages with which CMake and ninja report success
# are left out.
show_steps() {
  local line tenth=0
  trap '' INT # Ctrl-C ends ninja, whose last messages are still to be read
  while IFS= read -r line || [[ -n $line ]]; do
    if [[ $line == *"$step_mark"*"$step_mark"* ]]; then
      if [[ $line != "$step_mark"* ]]; then show_message "${line%%"$step_mark"*}"; fi # it did not end its line
      show_step "${line#*"$step_mark"}"
    else
      show_message "$line"
    fi
  done
  erase_line
}

show_message() {
  case $1 in
    'ninja: Entering directory'* | 'ninja: no work to do.' | '-- '*) ;;
    *)
      erase_line
      printf '%s\n' "$1" >&2
      ;;
  esac
}

# show_step COUNTS MARK TEXT: shows 37/92, and the step's subject.
show_step() {
  local counts=${1%%"$step_mark"*} text=${1#*"$step_mark"}
  local finished=${counts%/*} all=${counts#*/}
  if [[ $text == 'Re-checking globbed directories'* ]]; then return; fi # occurs at every call, and takes no time
  if [[ $drawn_in_place == yes ]]; then
    draw_line "[$(printf '%*d' "${#all}" "$finished")/$all] $(file_of_step "$text")"
  elif ((all > 50 && finished < all && finished * 10 / all > tenth)); then
    tenth=$((finished * 10 / all))
    echo "dev: $finished of $all steps" >&2
  fi
}

# Prints the source file of a compilation, else CMake's text.
file_of_step() {
  local text=$1
  if [[ $text =~ ^Building\ [A-Z]+\ object\ (.*)CMakeFiles/[^/]+\.dir/(.*)\.o$ ]]; then
    text=${BASH_REMATCH[1]}${BASH_REMATCH[2]}
  fi
  echo "$text"
}
