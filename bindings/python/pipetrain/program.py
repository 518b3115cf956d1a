"""The command-line program, from Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .errors import InputError, ProgramFailed
from .records import Table, curve_svg


def program_path() -> str:
    """The program `pipetrain`: PIPETRAIN_PROGRAM, the one inside this package, or the one on PATH. Raises InputError."""
    inside = Path(__file__).parent / "bin" / "pipetrain"
    named = os.environ.get("PIPETRAIN_PROGRAM")
    found = named or (str(inside) if inside.is_file() else _on_path())
    if found is None or not os.access(found, os.X_OK):
        raise InputError(
            f"no program {named or 'pipetrain'}: this module was built without it; name one with PIPETRAIN_PROGRAM "
            "(./dev build makes build/pipetrain), or install without -C cmake.define.PIPETRAIN_TRAINING=OFF"
        )
    return found


def _on_path() -> str | None:
    """Passes over a script: the command that pip installs would look for the program again."""
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        found = shutil.which("pipetrain", path=folder)
        if found is not None and Path(found).read_bytes()[:2] != b"#!":
            return found
    return None


def option_words(options: dict[str, object]) -> list[str]:
    """Converts keyword arguments to options of the command line: seq_len=64 is --seq-len=64, True and False are on and off; numbers of a
    list become one value with commas, texts and paths several values."""
    words = []
    for key, value in options.items():
        name = "--" + key.replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            words.append(f"{name}={'on' if value else 'off'}")
        elif isinstance(value, (str, os.PathLike)) or not isinstance(value, Sequence):
            words.append(f"{name}={os.fspath(value) if isinstance(value, os.PathLike) else value}")
        elif all(isinstance(one, (int, float)) for one in value):
            words.append(f"{name}={','.join(str(one) for one in value)}")
        else:
            words += [name, *map(str, value)]
    return words


def _run(words: Sequence[str], show: bool) -> str:
    """Runs the program and returns its stdout. Raises ProgramFailed with the program's own line."""
    ended = subprocess.run(
        [program_path(), *words], stdout=subprocess.PIPE, stderr=None if show else subprocess.PIPE, text=True, check=False
    )
    if ended.returncode != 0:
        lines = (ended.stderr or "").strip().splitlines()
        line = next((one for one in reversed(lines) if one.startswith("pipetrain: error: ")), "its messages are above")
        raise ProgramFailed(line.removeprefix("pipetrain: error: "), ended.returncode)
    return ended.stdout


class TrainingRun(Table):
    """The lines of a run's metrics, a row a step; `losses` are those of training, `evaluations` the lines of evaluations."""

    def __init__(self, lines: Sequence[dict]):
        self.evaluations = Table([line for line in lines if "loss" not in line])
        steps = [line for line in lines if "loss" in line]
        super().__init__(steps, ["step", "loss", "grad_norm", "lr", "tokens_per_second", "bubble"])

    @property
    def losses(self) -> list[float]:
        return self["loss"]

    def _repr_svg_(self) -> str:
        return curve_svg(self.losses, "loss")


def train(*, show: bool = False, **options: object) -> TrainingRun:
    """Trains with the program, in a separate process. Keyword arguments are the options of `pipetrain train`:
    train(pp=2, microbatches=8, schedule="zb-h1", steps=20, save="run"). show: let its progress be seen on stderr.

    Raises ProgramFailed with the program's line and exit status; InputError where there is no program.
    """
    with tempfile.TemporaryDirectory() as folder:
        given = options.pop("metrics", None)
        metrics = Path(str(given)) if given is not None else Path(folder) / "metrics.jsonl"
        _run(["train", *option_words(options | {"metrics": metrics})], show)
        lines = metrics.read_text().splitlines() if metrics.exists() else []
    return TrainingRun([json.loads(line) for line in lines])


def tune(*, show: bool = False, **options: object) -> Table:
    """Searches the fastest layouts with the program. Keyword arguments are the options of `pipetrain tune`:
    tune(model="llama2-7b", devices=8, memory=140). A row a layout, the fastest first.

    Raises ProgramFailed, InputError.
    """
    return Table(json.loads(_run(["tune", "--json", *option_words(options)], show)))


def main() -> int:
    """`pipetrain` and `python -m pipetrain`: becomes the program."""
    try:
        program = program_path()
    except InputError as error:
        print(f"pipetrain: error: {error}", file=sys.stderr)
        return 2
    os.execv(program, ["pipetrain", *sys.argv[1:]])
