"""One process of those that test_processes.py starts: a chain of stages of numbers, without PyTorch. `HOW` says what goes wrong."""

import os
import signal
import sys
import time

import pipetrain

MICROBATCHES = 6


class Chain(pipetrain.Stage):
    """Adds 1 to all it gets, and sends it on with a text of that length; gradients are doubled."""

    def __init__(self, stages, how="well"):
        self.stages, self.how, self.seen, self.steps = stages, how, [], 0

    def begin_step(self, step, learning_rate):
        self.steps = step
        self.seen = []

    def begin_evaluation(self):
        self.steps, self.seen = "an evaluation", []

    def forward(self, launch):
        if self.how != "well" and self.steps == 2 and launch.microbatch == 3:
            self.go_wrong()
        numbers, text = launch.activation if launch.virtual_stage else (launch.activation, "")
        assert len(text) == launch.virtual_stage
        numbers = [one + 1 for one in numbers]
        if launch.virtual_stage == self.stages - 1:
            self.seen.append(sum(numbers) * launch.target)
        return numbers, text + "x" * (500 if self.how == "large" else 1)

    def go_wrong(self):
        if self.how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.how == "raises":
            raise ValueError("a wrong stage")
        if self.how == "hangs":
            time.sleep(6)

    def backward(self, launch):
        gradient = 1 if launch.virtual_stage == self.stages - 1 else launch.gradient
        if launch.virtual_stage == 0:
            self.seen.append(gradient)
        return 2 * gradient

    def norm(self):
        return [float(sum(self.seen))]


def batch(world, number):
    first, last = world.process == 0, world.process == world.processes - 1
    inputs = [[number] * (1 + microbatch) for microbatch in range(MICROBATCHES)] if first else None
    return inputs, [2] * MICROBATCHES if last else None


def step(pipeline, world, number):
    return pipeline.step(*batch(world, number), decide=lambda results: results[0][0] / 64)


def evaluate(pipeline, world, number):
    return pipeline.evaluate(*batch(world, number))


def train(world, how):
    plan = pipetrain.Plan.build("gpipe" if how == "plan" and world.process == 1 else "1f1b", 4, MICROBATCHES)
    largest = 400

    def make(replica, stage):
        return Chain(4, how if stage == 2 else "well")

    with pipetrain.Pipeline(plan, make, world=world, largest=largest, stall_timeout=2, grace=1) as pipeline:
        for number in (1, 2, 3):
            if how == "leaves" and world.process == 1 and number == 2:
                raise KeyError("its own reason")
            if how == "stays" and world.process == 1 and number == 2:
                time.sleep(4)
            if how == "evaluates" and world.process == 1 and number == 2:
                evaluate(pipeline, world, number)
            done = step(pipeline, world, number)
            expected = 2.0 * sum((number + 4) * (1 + microbatch) for microbatch in range(MICROBATCHES))
            assert done.results == [[8.0 * MICROBATCHES], [0.0], [0.0], [expected]] and done.grad_scale == 0.75
            assert how == "evaluates" or evaluate(pipeline, world, number) == [[0.0], [0.0], [0.0], [expected]]


def train_replicas(world):
    """Two of two stages, so that the second begins in the middle of a process's share where there are three."""
    plan = pipetrain.Plan.build("1f1b", 2, 3)
    pipeline = pipetrain.Pipeline(plan, lambda replica, stage: Chain(2), world=world, largest=1000, replicas=2)
    try:
        inputs = [[[replica, 1]] * 3 for replica in (10, 20)]
        done = pipeline.step(inputs, [[1] * 3] * 2)
        assert done.results == [[6.0], [3 * 15.0], [6.0], [3 * 25.0]], done.results
    finally:
        pipeline.close()


def main():
    how = sys.argv[1]
    with pipetrain.World(timeout=20) as world:
        if how == "replicas":
            train_replicas(world)
        train(world, how)
        if how == "well":
            train(world, how)  # another pipeline of the same processes
    print("ended")


if __name__ == "__main__":
    main()
