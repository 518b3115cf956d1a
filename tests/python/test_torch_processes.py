"""PyTorch stages in several processes, beside the same pipeline in one."""

import signal

import pytest

import pipetrain

torch = pytest.importorskip("torch", minversion="2.5")
import pipetrain.torch as pt  # noqa: E402
from several import run  # noqa: E402
from test_torch import loss, make_pieces  # noqa: E402

SCHEDULES = [name for name, *_ in pipetrain.all_schedules()]
FAMILIES = ["1f1b", "interleaved", "zb-h1", "zb-v"]


@pytest.mark.parametrize("count, schedules", [(2, SCHEDULES), (4, FAMILIES)])
def test_several_processes_learn_what_one_does_to_the_bit(count, schedules):
    for status, out, err in run(count, "torch_process.py", "same", *schedules):
        assert (status, out.split()) == (0, schedules), err


@pytest.mark.parametrize("count", [2, 4])
def test_each_process_gives_its_pieces_their_keyword_arguments(count):
    for status, _, err in run(count, "torch_process.py", "keywords"):
        assert status == 0, err


def test_a_process_that_is_killed_is_named_by_the_others():
    for rank, (status, _, err) in enumerate(run(4, "torch_process.py", "killed")):
        if rank == 2:
            assert status == -signal.SIGKILL
        else:
            assert status == 1 and "RunFailed: process 2 on host" in err


def test_what_several_processes_need_is_asked_for():
    class Two:
        """A world that is not joined."""

        process, processes = 0, 2

        def stages(self, count):
            return range(count // 2)

        def joined(self):
            raise AssertionError

    for arguments, reason in [
        ({}, "largest: is missing"),
        ({"largest": [1]}, "a list for the 3 boundaries"),
        ({"largest": 0}, "give bytes"),
        ({"largest": 8, "pieces": [None] * 4}, "number 0 is None, and its stage 0 runs in this process"),
    ]:
        with pytest.raises(pipetrain.InputError, match=reason):
            pt.Pipeline(**{"pieces": make_pieces(4), "loss": loss, "world": Two(), **arguments})
