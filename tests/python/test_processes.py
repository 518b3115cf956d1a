"""Pipelines whose stages run in several processes."""

import signal
import subprocess
import sys
import time

import pytest

import pipetrain
from pipetrain.program import program_path
from several import HERE, finish, free_port, need, run, start


@pytest.mark.parametrize("count, how", [(2, "well"), (4, "well"), (3, "replicas")])
def test_stages_of_several_processes_compute_what_they_should(count, how):
    for status, out, err in run(count, "stage_process.py", how):
        assert (status, out) == (0, "ended\n"), err


@pytest.mark.parametrize(
    "how, count, reason",
    [
        ("raises", 4, "RunFailed: stage 2: ValueError: a wrong stage"),
        ("hangs", 4, "a worker of stage 2 hangs"),
        ("large", 4, "bytes, and `largest` leaves room for 512"),
        ("plan", 2, "has another plan than process 0: give all processes the same"),
        ("leaves", 2, "process 1 has left the pipeline: KeyError: 'its own reason'"),
        ("stays", 2, "has not come to step 2 in 2 s: all processes must run the same steps"),
        ("evaluates", 2, "is at evaluation 1, and process 0 at step 2: all must run the same steps and evaluations"),
    ],
)
def test_what_goes_wrong_in_one_ends_all_with_the_reason(how, count, reason):
    begin = time.monotonic()
    for rank, (status, _, err) in enumerate(run(count, "stage_process.py", how)):
        assert status == 1 and (reason in err or (how == "leaves" and rank == 1 and "KeyError" in err)), err
        assert how != "raises" or ("direct cause" in err) == (rank == 2)  # where it was raised, with its traceback
    assert time.monotonic() - begin < 60


def test_a_process_that_is_killed_is_named_by_the_others():
    for rank, (status, _, err) in enumerate(run(4, "stage_process.py", "killed")):
        assert status == (-signal.SIGKILL if rank == 2 else 1)
        assert rank == 2 or "RunFailed: process 2 on host" in err


def test_ctrl_c_in_one_ends_all():
    processes = start(2, "stage_process.py", "hangs")
    time.sleep(1.5)
    processes[0].send_signal(signal.SIGINT)
    for rank, (status, _, err) in enumerate(finish(processes)):
        assert status != 0, err


def test_a_process_that_does_not_come_is_named():
    with pytest.raises(pipetrain.Error, match="process 1"):
        pipetrain.World(process=0, processes=2, master=f"127.0.0.1:{free_port()}", timeout=0.5)


def test_wrong_places_are_refused(monkeypatch):
    for arguments, reason in [
        ({"process": 2, "processes": 2}, "they count from 0"),
        ({"process": 0, "processes": 2}, "give master='host:port'"),
        ({"process": 0, "processes": 2, "master": "somewhere"}, "give 'host:port'"),
        ({"process": 0, "processes": 2, "master": "10.0.0.1:29500"}, "PIPETRAIN_TOKEN"),
    ]:
        with pytest.raises(pipetrain.InputError, match=reason):
            pipetrain.World(**arguments)
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "4")
    with pytest.raises(pipetrain.InputError, match="RANK=5"):
        pipetrain.World()
    monkeypatch.delenv("WORLD_SIZE")
    with pytest.raises(pipetrain.InputError, match="WORLD_SIZE is not set"):
        pipetrain.World()


def test_one_process_is_a_world_too(monkeypatch):
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    with pipetrain.World() as world:
        assert (world.process, world.processes, list(world.stages(3))) == (0, 1, [0, 1, 2])


def program():
    try:
        return program_path()
    except pipetrain.InputError:
        pytest.skip("the program is not built")


@pytest.mark.parametrize("how, status, line", [("well", 0, ""), ("raises", 1, "stage 2: ValueError: a wrong stage"), ("killed", 1, "SIGKILL")])
def test_pipetrain_launch_starts_programs(how, status, line, monkeypatch):
    need("ucx")
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    words = [program(), "launch", "--nproc", "4", sys.executable, str(HERE / "stage_process.py"), how]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    last = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else ""
    assert line in last and (status == 0 or last.startswith("pipetrain: error: "))
    assert done.stdout.count("ended") == (4 if status == 0 else 0)
