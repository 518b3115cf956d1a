#!/usr/bin/env python3
"""Moves the units that scripts/moves.txt lists to their new folders, and rewrites every include and mention of them.

    scripts/move_files.py

A branch that began before the move follows it: take this script and its table from main, run it, commit, then merge main. What
has been moved already stays where it is, so the script may run twice.
"""
import os
import re
import subprocess

ENDINGS = ("hpp", "cpp", "cuh", "cu", "cpp.in")
TEXTS = (".hpp", ".cpp", ".cu", ".cuh", ".h", ".md", ".txt", ".cmake", ".py", ".sh", ".in", "dev")
CODE = (".hpp", ".cpp", ".cu", ".cuh", ".h")
TABLE = "scripts/moves.txt"


def git(*arguments):
    return subprocess.run(("git", *arguments), check=True, capture_output=True, text=True).stdout


def read_table():
    with open(TABLE, encoding="utf-8") as table:
        return dict(line.split() for line in table if line.strip() and not line.startswith("#"))


def move_units(moves):
    for old, new in moves.items():
        for ending in ENDINGS:
            if os.path.exists(f"{old}.{ending}"):
                os.makedirs(os.path.dirname(new), exist_ok=True)
                git("mv", f"{old}.{ending}", f"{new}.{ending}")


def rewrite_mentions(moves):
    """Returns the code files that changed."""
    # Tests include their own headers from tests/.
    names = dict(moves)
    for old, new in moves.items():
        if old.startswith("tests/"):
            names[f'"{old.removeprefix("tests/")}'] = f'"{new.removeprefix("tests/")}'
    longest_first = sorted(names, key=len, reverse=True)
    pattern = re.compile(r"(?<![\w/-])(" + "|".join(map(re.escape, longest_first)) + r")(?=\.(?:hpp|cpp|cuh?|\{))")
    changed = []
    for path in git("ls-files").split("\n"):
        if path == TABLE or not path.endswith(TEXTS) or not os.path.isfile(path):
            continue
        with open(path, encoding="utf-8") as file:
            text = file.read()
        rewritten = pattern.sub(lambda match: names[match.group(1)], text)
        if rewritten != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(rewritten)
            if path.endswith(CODE):
                changed.append(path)
    return changed


def main():
    os.chdir(git("rev-parse", "--show-toplevel").strip())
    moves = read_table()
    move_units(moves)
    changed = rewrite_mentions(moves)
    if changed:  # includes in their order again
        subprocess.run(("clang-format", "-i", *changed), check=True)
    git("add", "--all")
    print(f"{len(moves)} units stand in their new folders; {len(changed)} code files name them anew")


if __name__ == "__main__":
    main()
