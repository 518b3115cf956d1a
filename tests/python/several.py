"""Starts a Python program in several processes of this host, as a launcher would."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import pipetrain

HERE = Path(__file__).parent


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def need(transport):
    if transport not in pipetrain._engine.transports():
        pytest.skip(f"built without {transport}")


def start(count, script, *words, transport="ucx"):
    """By torchrun's variables."""
    need(transport)
    package = str(Path(pipetrain.__file__).parent.parent)
    told = {"WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "OMP_NUM_THREADS": "1"}
    path = os.pathsep.join([package, str(HERE), os.environ.get("PYTHONPATH", "")])
    return [
        subprocess.Popen(
            [sys.executable, str(HERE / script), *words],
            env={**os.environ, **told, "RANK": str(rank), "LOCAL_RANK": str(rank), "PYTHONPATH": path},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        for rank in range(count)
    ]


def finish(processes, seconds=120):
    """(status, stdout, stderr) of each."""
    try:
        ends = [process.communicate(timeout=seconds) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, out, err) for process, (out, err) in zip(processes, ends)]


def run(count, script, *words, **how):
    return finish(start(count, script, *words, **how))
