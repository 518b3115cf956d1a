"""Pipelines of Python stages: the same numbers as without a pipeline, and how they fail."""

import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import pipetrain

SHAPES = [(6, 5), (5, 4), (4, 4), (4, 3), (3, 5), (5, 2), (2, 2), (2, 3)]  # of the pieces' weights


class Linear(pipetrain.Stage):
    """A matrix for each chunk; the loss is half the sum of squares. Microbatches may have different sizes."""

    def __init__(self, weights, pieces):
        self.weights, self.pieces = weights, pieces
        self.gradients = [np.zeros_like(weight) for weight in weights]
        self.loss = 0.0
        self.errors = {}

    def begin_step(self, step, learning_rate):
        self.loss = 0.0
        for gradient in self.gradients:
            gradient[:] = 0

    def forward(self, launch):
        y = np.from_dlpack(launch.activation) @ self.weights[launch.chunk]
        if launch.virtual_stage < self.pieces - 1:
            return y
        self.errors[launch.microbatch] = y - launch.target
        self.loss += 0.5 * float((self.errors[launch.microbatch] ** 2).sum())

    def _gradient(self, launch):
        return self.errors[launch.microbatch] if launch.gradient is None else launch.gradient

    def input_grad(self, launch):
        return self._gradient(launch) @ self.weights[launch.chunk].T

    def weight_grad(self, launch):
        self.gradients[launch.chunk] += launch.activation.T @ self._gradient(launch)

    def norm(self):
        return [self.loss]

    def optimizer(self):
        for weight, gradient in zip(self.weights, self.gradients):
            weight -= 0.01 * gradient


def data(microbatches, pieces, seed=0):
    random = np.random.default_rng(seed)
    sizes = [1 + i % 3 for i in range(microbatches)]
    weights = [random.normal(size=shape) for shape in SHAPES[:pieces]]
    inputs = [random.normal(size=(size, SHAPES[0][0])) for size in sizes]
    targets = [random.normal(size=(size, SHAPES[pieces - 1][1])) for size in sizes]
    return weights, inputs, targets


def reference(weights, inputs, targets, steps):
    weights = [weight.copy() for weight in weights]
    losses = []
    for _ in range(steps):
        gradients = [np.zeros_like(weight) for weight in weights]
        losses.append(0.0)
        for x, target in zip(inputs, targets):
            kept = [x]
            for weight in weights:
                kept.append(kept[-1] @ weight)
            dy = kept.pop() - target
            losses[-1] += 0.5 * float((dy**2).sum())
            for v in reversed(range(len(weights))):
                gradients[v] += kept[v].T @ dy
                dy = dy @ weights[v].T
        for weight, gradient in zip(weights, gradients):
            weight -= 0.01 * gradient
    return weights, losses


def stages_of(plan, weights):
    return [
        Linear([weights[plan.virtual_stage(stage, chunk)] for chunk in range(plan.chunks)], len(weights))
        for stage in range(plan.stages)
    ]


@pytest.mark.parametrize("schedule", [one[0] for one in pipetrain.all_schedules()])
def test_every_schedule_trains_to_the_same_bits(schedule):
    plan = pipetrain.Plan.build(schedule, stages=3, microbatches=5)
    weights, inputs, targets = data(5, plan.stages * plan.chunks)
    expected, losses = reference(weights, inputs, targets, 3)
    with pipetrain.Pipeline(plan, stages_of(plan, weights), activation_life="W") as pipeline:
        for loss in losses:
            step = pipeline.step(inputs, targets)
            assert sum(result[0] for result in step.results if result) == loss
        assert pipeline.timeline().rows == 3
    for weight, other in zip(weights, expected):
        assert (weight == other).all()


class Failing(Linear):
    def forward(self, launch):
        if launch.microbatch == 2:
            raise KeyError("the third microbatch")
        return super().forward(launch)


def test_what_a_stage_raises_is_the_cause_of_what_step_raises():
    plan = pipetrain.Plan.build("1f1b", stages=3, microbatches=4)
    weights, inputs, targets = data(4, 3)
    stages = stages_of(plan, weights)
    stages[1].__class__ = Failing
    with pipetrain.Pipeline(plan, stages, activation_life="W") as pipeline:
        with pytest.raises(pipetrain.RunFailed, match="stage 1: KeyError: 'the third microbatch'") as failed:
            pipeline.step(inputs, targets)
        assert isinstance(failed.value.__cause__, KeyError)
        assert len(failed.value.waiting) == 3
        assert failed.value.waiting[2].startswith("stage 2: ")
        with pytest.raises(pipetrain.RunFailed):
            pipeline.step(inputs, targets)


class Sleeping(pipetrain.Stage):
    """Hangs in F1 until it is told to go on."""

    def __init__(self, go_on):
        self.go_on = go_on

    def run(self, launch):
        if launch.kind == "F" and launch.microbatch == 1:
            self.go_on.wait()
        return [] if launch.kind == "N" else None


def sleeping_pipeline(go_on, **arguments):
    plan = pipetrain.Plan.build("1f1b", stages=2, microbatches=3)
    return pipetrain.Pipeline(plan, [Idle(), Sleeping(go_on)], **arguments)


class Idle(pipetrain.Stage):
    def run(self, launch):
        return [] if launch.kind == "N" else None


def test_a_hang_is_named_after_the_stall_timeout():
    go_on = threading.Event()
    pipeline = sleeping_pipeline(go_on, stall_timeout=0.3, grace=0.2)
    with pytest.raises(pipetrain.RunFailed, match="of stage 1 hangs"):
        pipeline.step([0, 1, 2])
    with pytest.raises(pipetrain.MisuseError, match="F1 on stage 1"):
        pipeline.close()
    go_on.set()
    pipeline.close()
    with pytest.raises(pipetrain.MisuseError, match="closed"):
        pipeline.step([0, 1, 2])


def test_waiting_and_abort_come_from_another_thread():
    go_on = threading.Event()
    pipeline = sleeping_pipeline(go_on)
    lines = []

    def watch():
        while not any("launched and not completed: F1" in line for line in lines):
            time.sleep(0.01)
            lines[:] = pipeline.waiting()
        pipeline.abort("enough of it")
        go_on.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    with pytest.raises(pipetrain.RunFailed, match="enough of it") as failed:
        pipeline.step([0, 1, 2])
    watcher.join()
    assert failed.value.kind == "aborted"
    pipeline.close()


def test_steps_are_skipped_by_decide():
    plan = pipetrain.Plan.build("1f1b", stages=2, microbatches=3)
    weights, inputs, targets = data(3, 2)
    before = [weight.copy() for weight in weights]
    with pipetrain.Pipeline(plan, stages_of(plan, weights), activation_life="W") as pipeline:
        step = pipeline.step(inputs, targets, decide=lambda results: False)
        assert not step.applied
        assert all((weight == other).all() for weight, other in zip(weights, before))
        with pytest.raises(pipetrain.RunFailed, match="ZeroDivisionError"):
            pipeline.step(inputs, targets, decide=lambda results: 1 / 0)


class Evaluated(Linear):
    """Notes what is asked of it."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.asked = []

    def begin_evaluation(self):
        self.loss = 0.0
        self.asked.append("begin")

    def run(self, launch):
        self.asked.append(launch.kind)
        return super().run(launch)


@pytest.mark.parametrize("schedule", ["1f1b", "zb-v"])
def test_an_evaluation_has_forwards_and_the_loss_alone(schedule):
    plan = pipetrain.Plan.build(schedule, stages=3, microbatches=5)
    weights, inputs, targets = data(5, plan.stages * plan.chunks)
    expected, (_, loss) = reference(weights, inputs, targets, 2)
    stages = [Evaluated(stage.weights, stage.pieces) for stage in stages_of(plan, weights)]
    with pipetrain.Pipeline(plan, stages, activation_life="W") as pipeline:
        pipeline.step(inputs, targets)
        for stage in stages:
            stage.asked.clear()
        for _ in range(2):
            assert sum(result[0] for result in pipeline.evaluate(inputs, targets)) == loss
        for stage in stages:
            assert stage.asked == ["begin", *"F" * (5 * plan.chunks), "N"] * 2
        assert pipeline.timeline().title.endswith(", evaluated")
        assert pipeline.step(inputs, targets).step == 2
    for weight, other in zip(weights, expected):
        assert (weight == other).all()


def test_a_stage_that_knows_no_evaluations_begins_them_as_steps():
    plan = pipetrain.Plan.build("1f1b", stages=2, microbatches=3)
    weights, inputs, targets = data(3, 2)
    _, (loss,) = reference(weights, inputs, targets, 1)
    with pipetrain.Pipeline(plan, stages_of(plan, weights)) as pipeline:
        assert pipeline.evaluate(inputs, targets) == [[0.0], [loss]]


def test_custom_actions_are_left_out_of_evaluations():
    weights, inputs, targets = data(2, 2)
    stages = stages_of(pipetrain.Plan.parse(CUSTOM), weights)
    with pipetrain.Pipeline(pipetrain.Plan.parse(CUSTOM), stages, activation_life="W") as pipeline:
        assert len(pipeline.evaluate(inputs, targets)) == 2  # else custom() would raise


def test_an_evaluation_is_refused_as_a_step_is():
    go_on = threading.Event()
    pipeline = sleeping_pipeline(go_on)
    failed = []

    def run():
        try:
            pipeline.evaluate([0, 1, 2])
        except pipetrain.RunFailed as error:
            failed.append(str(error))

    runner = threading.Thread(target=run)
    runner.start()
    while not any("launched and not completed: F1" in line for line in pipeline.waiting()):
        time.sleep(0.01)
    for call in (pipeline.step, pipeline.evaluate):
        with pytest.raises(pipetrain.MisuseError, match=f"^{call.__name__}: a step of this pipeline is running"):
            call([0, 1, 2])
    pipeline.abort("enough of it")
    go_on.set()
    runner.join()
    assert "enough of it" in failed[0]
    with pytest.raises(pipetrain.RunFailed, match="enough of it"):
        pipeline.evaluate([0, 1, 2])
    pipeline.close()
    with pytest.raises(pipetrain.MisuseError, match="^evaluate: the pipeline has been closed"):
        pipeline.evaluate([0, 1, 2])


def test_replicas_run_the_plan_each():
    plan = pipetrain.Plan.build("1f1b", stages=2, microbatches=3)
    weights, inputs, targets = data(3, 2)
    stages = stages_of(plan, weights) + stages_of(plan, [weight.copy() for weight in weights])
    with pipetrain.Pipeline(plan, stages, replicas=2, activation_life="W") as pipeline:
        step = pipeline.step([inputs, inputs], [targets, targets])
        assert step.results[1] == step.results[3]
        assert pipeline.timeline().rows == 4


def test_wrong_arguments_are_refused():
    plan = pipetrain.Plan.build("1f1b", stages=2, microbatches=3)
    with pytest.raises(pipetrain.InputError, match="stages 1"):
        pipetrain.Pipeline(plan, [Idle()])
    with pytest.raises(pipetrain.InputError, match="must be F, I or W"):
        pipetrain.Pipeline(plan, [Idle()] * 2, activation_life="Q")
    with pipetrain.Pipeline(plan, [Idle(), Idle()]) as pipeline:
        with pytest.raises(pipetrain.InputError, match="3 microbatches, not 2"):
            pipeline.step([1, 2])


def test_a_pipeline_that_nobody_holds_ends():
    threads = threading.active_count()
    plan = pipetrain.Plan.build("1f1b", stages=2, microbatches=3)
    pipeline = pipetrain.Pipeline(plan, [Idle(), Idle()])
    pipeline.step([1, 2, 3])
    del pipeline
    gc.collect()
    assert threading.active_count() == threads


CUSTOM = """microbatches: 2
custom X0: fetch after 1:F0 uses nic
custom X1: send uses nic
stage 0: F0 F1 X0 B0 B1
stage 1: F0 F1 B0 X1 B1
"""


class Noting(Linear):
    seen = []

    def custom(self, launch):
        self.seen.append((launch.kind, launch.custom, launch.microbatch, launch.virtual_stage))


def test_custom_actions_go_to_their_stage_by_name_and_in_order():
    plan = pipetrain.Plan.parse(CUSTOM)
    assert plan.custom[0] == {"name": "fetch", "stage": 0, "after": [(1, "F0")], "resources": ["nic"]}
    weights, inputs, targets = data(2, 2)
    expected, _ = reference(weights, inputs, targets, 2)
    stages = stages_of(plan, weights)
    for stage in stages:
        stage.__class__ = Noting
    Noting.seen.clear()
    with pipetrain.Pipeline(plan, stages, activation_life="W") as pipeline:
        pipeline.step(inputs, targets)
        pipeline.step(inputs, targets)
    assert Noting.seen == [("X", "fetch", 0, 0), ("X", "send", 1, 1)] * 2
    for weight, other in zip(weights, expected):
        assert (weight == other).all()


def test_a_stage_without_a_custom_action_of_that_name_ends_the_step():
    plan = pipetrain.Plan.parse(CUSTOM)
    weights, inputs, targets = data(2, 2)
    with pipetrain.Pipeline(plan, stages_of(plan, weights), activation_life="W") as pipeline:
        with pytest.raises(pipetrain.RunFailed, match="custom, for fetch"):
            pipeline.step(inputs, targets)


def test_custom_actions_are_simulated_with_times_by_name():
    plan = pipetrain.Plan.parse(CUSTOM)
    plain = pipetrain.simulate(schedule=plan)
    slow = pipetrain.simulate(schedule=plan, custom={"fetch": 3, "send": 2.5})
    assert slow.makespan > plain.makespan
    with pytest.raises(pipetrain.InputError, match="no custom action nobody"):
        pipetrain.simulate(schedule=plan, custom={"nobody": 1})


class Counting(pipetrain.Stage):
    """Notes on which thread its actions run, and what that thread keeps."""

    def __init__(self):
        self.threads, self.kept, self.own = set(), [], threading.local()

    def run(self, launch):
        self.threads.add(threading.get_ident())
        self.own.actions = getattr(self.own, "actions", 0) + 1
        self.kept.append(self.own.actions)
        assert isinstance(launch, pipetrain.Launch) and launch.virtual_stage == launch.chunk * 3 + self.number
        return [] if launch.kind == "N" else None


class Overlapping(pipetrain.Stage):
    """F1 of stage 0 and F0 of stage 1 wait for each other, which takes two threads."""

    any_thread = True
    meeting = threading.Barrier(2)

    def __init__(self, number):
        self.number, self.inside, self.most = number, 0, 0

    def run(self, launch):
        self.inside += 1
        self.most = max(self.most, self.inside)
        if launch.kind == "F" and self.number < 2 and launch.microbatch == 1 - self.number:
            self.meeting.wait(20)
        self.inside -= 1
        return [] if launch.kind == "N" else None


def test_on_any_thread_stages_overlap_and_each_does_one_action_at_a_time():
    stages = [Overlapping(number) for number in range(3)]
    with pipetrain.Pipeline(pipetrain.Plan.build("1f1b", stages=3, microbatches=6), stages) as pipeline:
        for _ in range(5):
            pipeline.step([None] * 6)
    assert [stage.most for stage in stages] == [1, 1, 1]


def test_a_stage_keeps_its_thread_and_what_belongs_to_it():
    plan = pipetrain.Plan.build("interleaved", stages=3, microbatches=6)
    stages = [Counting() for _ in range(3)]
    for number, stage in enumerate(stages):
        stage.number = number
    with pipetrain.Pipeline(plan, stages) as pipeline:
        for _ in range(3):
            pipeline.step([None] * 6)
    assert all(len(stage.threads) == 1 for stage in stages)
    assert len(set.union(*(stage.threads for stage in stages))) == 3
    actions = 3 * (2 * 2 * 6 + 2)
    assert all(stage.kept == list(range(1, actions + 1)) for stage in stages)
    assert threading.main_thread().ident not in set.union(*(stage.threads for stage in stages))


def test_a_step_that_is_refused_leaves_the_inputs_of_the_running_one():
    go_on, begun, seen = threading.Event(), threading.Event(), []

    class Slow(pipetrain.Stage):
        def run(self, launch):
            if launch.kind == "F":
                begun.set()
                go_on.wait(20)
                seen.append(launch.activation)
            return [] if launch.kind == "N" else None

    with pipetrain.Pipeline(pipetrain.Plan.build("1f1b", stages=1, microbatches=8), [Slow()]) as pipeline:
        stepper = threading.Thread(target=lambda: pipeline.step(list(range(8))))
        stepper.start()
        begun.wait(20)
        with pytest.raises(pipetrain.MisuseError, match="running"):
            pipeline.step(["another"] * 8)
        go_on.set()
        stepper.join()
        assert pipeline.step([0] * 8).step == 2
    assert seen[:8] == list(range(8))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_is_told_that_it_has_no_threads_and_may_make_its_own_pipeline():
    program = """
import os, sys, pipetrain
class Idle(pipetrain.Stage):
    def run(self, launch):
        return [] if launch.kind == "N" else None
make = lambda: pipetrain.Pipeline(pipetrain.Plan.build("1f1b", stages=2, microbatches=4), [Idle(), Idle()])
pipeline = make()
pipeline.step([None] * 4)
child = os.fork()
if child == 0:
    for call in (lambda: pipeline.step([None] * 4), lambda: pipeline.evaluate([None] * 4), lambda: pipeline.abort("no"), pipeline.waiting, pipeline.timeline):
        try:
            call()
            sys.exit(1)
        except pipetrain.MisuseError as error:
            assert "a fork has none of its threads" in str(error)
    pipeline.close()
    with make() as own:
        assert own.step([None] * 4).step == 1
    del pipeline
    sys.exit(7)  # by way of atexit
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert pipeline.step([None] * 4).step == 2
pipeline.close()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
