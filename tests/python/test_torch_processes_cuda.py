"""Stages on GPUs of different processes, joined by CUDA IPC. Skipped where there are not two."""

import signal

import pytest

import pipetrain

torch = pytest.importorskip("torch", minversion="2.5")
from several import run  # noqa: E402

pytestmark = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")


def check(*words):
    for status, _, err in run(2, "torch_process.py", *words, transport="ipc"):
        assert status == 0, err


def test_two_processes_learn_what_one_does_in_every_schedule():
    check("gpus", *[name for name, *_ in pipetrain.all_schedules()])


def test_large_values_arrive_whole_while_the_sender_goes_on():
    check("gpus-large")


def test_a_process_that_is_killed_is_named_by_the_other():
    (first, _, err), (second, _, _) = run(2, "torch_process.py", "gpus-killed", transport="ipc")
    assert second == -signal.SIGKILL
    assert first == 1 and "RunFailed: process 1 on host" in err
