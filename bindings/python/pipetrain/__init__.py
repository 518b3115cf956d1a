"""Pipeline-parallel schedules: simulated, searched, and run with your own stages.

    pipetrain.simulate(stages=4, microbatches=8, schedule="zb-h1")   one step in virtual time
    pipetrain.Plan.build("1f1b", stages=4, microbatches=8)           a plan: read, print, validate
    pipetrain.Pipeline(plan, stages)                                 your Python stages, in the order of a plan
    pipetrain.World()                                                the processes of a run, for stages in several
    pipetrain.torch                                                  PyTorch modules as stages
    pipetrain.train(...), pipetrain.tune(...)                        the command-line program
"""

from ._engine import Plan, Timeline, __version__, all_schedules
from .errors import Error, InputError, MisuseError, PlanError, ProgramFailed, RunFailed
from .pipeline import Pipeline, Step
from .program import TrainingRun, train, tune
from .records import Table
from .simulation import Simulation, Simulations, simulate
from .stage import Launch, Stage
from .world import World

__all__ = [
    "Error", "InputError", "Launch", "MisuseError", "Pipeline", "Plan", "PlanError", "ProgramFailed", "RunFailed", "Simulation",
    "Simulations", "Stage", "Step", "Table", "Timeline", "TrainingRun", "World", "__version__", "all_schedules", "simulate", "train",
    "tune",
]  # fmt: skip
