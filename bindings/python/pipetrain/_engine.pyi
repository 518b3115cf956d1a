"""The extension: plans, simulations and pipelines of the C++ engine. Programs import `pipetrain`."""

from collections.abc import Callable
from typing import Any

__version__: str

def all_schedules() -> list[tuple[str, int, bool, bool]]:
    """Name, default chunks, whether chunks can vary, whether order='ready' is possible."""

def simulate(plan: Plan, costs: dict[str, Any], how: dict[str, Any]) -> tuple[Timeline, dict[str, Any], float]: ...
def transports() -> list[str]:
    """Those that this build has, of "ucx", "ipc" and "nccl"."""

def launch_place() -> dict[str, Any] | None:
    """What the environment of a launcher says: launcher, where, process, processes (0: it does not tell), local, host, port."""

def join(how: dict[str, Any]) -> World: ...
def stages_of(process: int, processes: int, stages: int) -> list[int]: ...
def build_auto(stages: int, microbatches: int, costs: dict[str, Any], slots: list[float]) -> Plan: ...

class Plan:
    """An order of actions for every stage, and where each piece of the model lives."""

    @staticmethod
    def build(schedule: str, stages: int, microbatches: int, chunks: int = 0) -> Plan:
        """The compute of one step, by the schedule's name; 0 chunks: the schedule's own. Raises InputError."""

    @staticmethod
    def read(path: str) -> Plan:
        """From a file: PyTorch's CSV where its name ends in .csv, else our text. Raises PlanError, InputError."""

    @staticmethod
    def parse(text: str, name: str = "plan", csv: bool = False) -> Plan:
        """From text, which errors call by `name`. Raises PlanError."""

    def with_end(self, reduce: bool = False, sum_replicated: bool = False, sum_tied: bool = False) -> Plan:
        """A new plan with R, S and T where asked for, and N and O, at its end."""

    def validate(self, order: str = "planned", activation_life: str = "", gradient_life: str = "") -> list[list[dict[str, int]]]:
        """Proves the plan, or raises PlanError. What each chunk of each stage must reserve."""

    def actions(self, stage: int) -> list[str]:
        """The list of a stage, such as ['F0', 'B0']."""

    def virtual_stage(self, stage: int, chunk: int) -> int:
        """Which piece of the model, counted from its input, this chunk of this stage is."""

    def text(self) -> str:
        """In our format."""

    def csv(self) -> str:
        """In PyTorch's, without the end of step."""

    @property
    def schedule(self) -> str: ...
    @property
    def stages(self) -> int: ...
    @property
    def chunks(self) -> int:
        """Per stage."""

    @property
    def microbatches(self) -> int: ...
    @property
    def has_end(self) -> bool:
        """Whether N and O are there."""

    @property
    def custom(self) -> list[dict[str, Any]]:
        """The custom actions, by number: name, stage, after (pairs of stage and action) and resources of each."""

class Timeline:
    """What every stage did when, simulated or measured."""

    @property
    def title(self) -> str: ...
    @property
    def unit(self) -> str:
        """Of its times: 's' where they were measured."""

    @property
    def rows(self) -> int:
        """Stages, of each replica."""

    def spans(self, row: int) -> list[tuple[str, float, float, str]]:
        """Action, start, end and what the start waited for, in order of time."""

    def summary(self) -> dict[str, Any]:
        """makespan, bubble_fraction, span_bubble; span, idle, busy and peak_activations per row."""

    def terminal(self, width: int = 100) -> str:
        """One line a stage."""

    def svg(self, width: int = 1000) -> str: ...
    def html(self) -> str:
        """One page that needs nothing else."""

    def chrome_trace(self) -> str:
        """JSON for chrome://tracing and ui.perfetto.dev."""

    def csv(self) -> str:
        """Header and one row per action."""

    def _repr_svg_(self) -> str: ...

class World:
    @property
    def process(self) -> int: ...
    @property
    def processes(self) -> int: ...
    def name_of(self, process: int) -> str: ...
    def leave(self) -> None: ...

class Slot:
    """Memory that a value travels through between processes. Streams are those of CUDA, as numbers; where the memory needs no events
    the calls about them do nothing."""

    @property
    def address(self) -> int: ...
    @property
    def capacity(self) -> int:
        """Bytes."""

    @property
    def note(self) -> bytes:
        """What the producer said of the content."""

    def fill(self, bytes: int, note: bytes) -> None:
        """So much of the memory holds the content, which the note describes to the other process."""

    def memory(self, gpu: int | None = None) -> Any:
        """All of it as bytes, a DLPack capsule. Valid as long as the pipeline."""

    def wait_until_free(self, stream: int, gpu: int) -> None: ...
    def mark_ready(self, stream: int, gpu: int) -> None: ...
    def wait_until_ready(self, stream: int, gpu: int) -> None: ...
    def mark_free(self, stream: int, gpu: int) -> None: ...

def keep_silent_about_leaks() -> None: ...
def model_refusal(folder: str) -> str | None:
    """Why the model of a folder's config.json is not built; None where it is. Not in a module built without training, as Training."""

class TrainedStep:
    step: int
    loss: float
    grad_norm: float
    tokens: int
    skipped: bool
    seconds: float
    bubble: float

class Training:
    """A run of the program's trainer in this process, whose samples and steps Python gives. The options are those of `pipetrain train`, which
    must say --shuffle=off and --steps."""

    def __init__(self, options: list[str], sequence_length: int) -> None: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def global_batch(self) -> int: ...
    @property
    def steps_done(self) -> int: ...
    def push(self, ids: Any, labels: Any, lengths: list[int]) -> None:
        """Queues samples that follow each other in two arrays of int32; an empty one fills up a batch. Raises InputError."""

    def step(self, learning_rate: float) -> TrainedStep: ...
    def save_model(self, folder: str) -> None: ...
    def save_checkpoint(self, folder: str) -> None:
        """Writes FOLDER/step-N."""

    def close(self) -> None: ...

class Pipeline:
    def __init__(self, plan: Plan, stages: list[Any], how: dict[str, Any]) -> None: ...
    def step(
        self,
        how: dict[str, Any],
        inputs: list[list[Any]],
        targets: list[list[Any]],
        decide: Callable[[list[list[float]]], tuple[bool, float]],
        begin: Callable[[], Any] | None,
        end: Callable[[], Any] | None,
    ) -> tuple[list[list[float]], bool, float]:
        """how: number, evaluation, tokens, learning_rate. begin and end are called on the caller's thread: begin once nothing refuses
        the step, end before another one can begin, however this one ended. What each stage's N gave, whether the optimizers ran, the
        scale of the gradients."""

    def abort(self, why: str) -> None: ...
    def waiting(self) -> list[str]: ...
    def timeline(self) -> Timeline: ...
    def close(self) -> None: ...
    @property
    def plan(self) -> Plan: ...
    @property
    def notes(self) -> list[str]:
        """What each process gave as how["note"], by process."""
