"""The command-line program from Python. A stand-in program serves where the real one is not named by PIPETRAIN_PROGRAM."""

import os
import subprocess
import sys

import pytest

import pipetrain
from pipetrain.program import option_words

real = pytest.mark.skipif("PIPETRAIN_PROGRAM" not in os.environ, reason="PIPETRAIN_PROGRAM names no program")


def test_keywords_are_the_options():
    words = option_words({"seq_len": 64, "sequence_parallel": True, "forward": [1, 2.5], "data": ["a.txt", "b c.txt"], "lr": None})
    assert words == ["--seq-len=64", "--sequence-parallel=on", "--forward=1,2.5", "--data", "a.txt", "b c.txt"]


def test_without_a_program_it_says_how_to_get_one(monkeypatch):
    monkeypatch.setenv("PIPETRAIN_PROGRAM", "/no/such/program")
    with pytest.raises(pipetrain.InputError, match="PIPETRAIN_PROGRAM"):
        pipetrain.train(steps=1)
    ended = subprocess.run([sys.executable, "-m", "pipetrain"], capture_output=True, text=True, env=os.environ, check=False)
    assert ended.returncode == 2
    assert ended.stderr.startswith("pipetrain: error: no program")


@real
def test_the_module_is_the_program():
    ended = subprocess.run([sys.executable, "-m", "pipetrain", "--version"], capture_output=True, text=True, check=True)
    assert pipetrain.__version__ in ended.stdout


@real
def test_train_gives_the_metrics_of_a_run(tmp_path):
    run = pipetrain.train(pp=2, microbatches=4, seq_len=32, steps=3, device="cpu", metrics=tmp_path / "metrics.jsonl")
    assert len(run) == 3
    assert run.losses[0] > 0
    assert run._repr_svg_().startswith("<svg")
    assert (tmp_path / "metrics.jsonl").exists()
    with pytest.raises(pipetrain.ProgramFailed, match="--tp") as failed:
        pipetrain.train(tp=3, device="cpu", steps=1)
    assert failed.value.status == 2


@real
def test_tune_gives_layouts():
    layouts = pipetrain.tune(model="tiny", devices=2, device="cpu", memory=1, count=3)
    assert len(layouts) >= 1
