"""The processes of a run."""

from __future__ import annotations

import atexit
import os
import sys
import weakref
from types import TracebackType

from . import _engine
from .errors import Error, InputError

_LOOPBACK = ("localhost", "::1", "127.")
_worlds: weakref.WeakSet[World] = weakref.WeakSet()


class World:
    """This process's place among those of a run that `pipetrain launch --nproc 4 python script.py`, torchrun, Slurm's srun or Open MPI has
    started; their environment gives the place. Without a launcher there is one process.

    process, processes, master: given instead of the environment; master is "host:port" of process 0.
    token: secret of the run, needed off this host; else PIPETRAIN_TOKEN. timeout: seconds in which all must join. patience: seconds for a
    process that the others wait for while a pipeline is made or ended.

    Blocks until all have joined. Use it as a context manager, or call close() last. Raises InputError, and Error where a process does
    not join.
    """

    def __init__(
        self,
        *,
        process: int | None = None,
        processes: int | None = None,
        master: str | None = None,
        token: str | None = None,
        timeout: float = 300.0,
        patience: float = 600.0,
    ):
        place = (_engine.launch_place() if process is None else None) or {}
        self.process: int = place.get("process", 0) if process is None else process
        self.processes: int = (place.get("processes") or 1) if processes is None else processes
        self.local: int = place.get("local", 0)  #: number of this process among those of its host
        if not 0 <= self.process < self.processes:
            raise InputError(f"process: {self.process} of {self.processes} processes; they count from 0")
        self._world: _engine.World | None = None
        if self.processes > 1:
            host, port = _address(master, place)
            token = os.environ.get("PIPETRAIN_TOKEN", "") if token is None else token
            if not token and not host.startswith(_LOOPBACK):
                raise InputError(f"token: {host} is reached from other hosts, so the run needs one; give every process the same PIPETRAIN_TOKEN")
            how = {"process": self.process, "processes": self.processes, "host": host, "port": port, "token": token}
            self._world = _engine.join({**how, "job": place.get("job", ""), "timeout": float(timeout), "patience": float(patience)})
        _worlds.add(self)
        _report_failures_to_launch()

    @classmethod
    def alone(cls) -> World:
        """One process, whatever the environment says."""
        return cls(process=0, processes=1)

    def stages(self, count: int) -> range:
        """Returns the stages, out of so many counted from 0, that run in this process. Raises Error for fewer stages than processes."""
        mine = _engine.stages_of(self.process, self.processes, count)
        return range(mine[0], mine[-1] + 1)

    def joined(self) -> _engine.World:
        """For pipelines of more than one process."""
        if self._world is None:
            raise InputError("world: it has been closed, or has one process only")
        return self._world

    def close(self) -> None:
        """This process leaves and does not count as lost. Call it after its pipeline's close()."""
        if self._world is not None:
            self._world.leave()
        self._world = None

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_) -> None:
        self.close()


def _address(master: str | None, place: dict) -> tuple[str, int]:
    if master is None:
        if not place.get("host"):
            raise InputError(f"master: {place.get('where', 'nothing')} does not say where process 0 is; give master='host:port'")
        return place["host"], place.get("port") or 29500
    host, _, port = master.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(f"master: {master}; give 'host:port'")
    return host.strip("[]"), int(port)


def _report_failures_to_launch() -> None:
    """Lets pipetrain launch print one line for all processes: that of the first cause."""
    variable = os.environ.pop("PIPETRAIN_LAUNCH_REPORT", "")
    if not variable.isdigit():
        return
    pipe, before = int(variable), sys.excepthook
    try:
        os.set_inheritable(pipe, False)
    except OSError:
        return

    def tell(kind: type[BaseException], raised: BaseException, traceback: TracebackType | None) -> None:
        before(kind, raised, traceback)
        text = str(raised.args[0]) if isinstance(raised, Error) and raised.args else f"{kind.__name__}: {raised}"
        number = _KINDS.get(getattr(raised, "kind", "internal"), 6)
        try:
            os.write(pipe, f"failed {number} {' '.join(text.split())}"[:4000].encode() + b"\n")
        except OSError:
            pass  # the other processes are gone

    sys.excepthook = tell


_KINDS = {
    "input": 0, "wrong input": 0, "out of memory": 1, "not a finite number": 2, "aborted": 3, "peer lost": 4, "not available": 5,
}  # fmt: skip


@atexit.register
def _leave_all() -> None:
    for world in list(_worlds):
        try:
            world.close()
        except Exception as error:  # a stage's code hangs, but the process ends
            print(f"pipetrain: {error}", file=sys.stderr)
