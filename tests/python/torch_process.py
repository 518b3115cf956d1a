"""One process of those that test_torch_processes.py starts: `same SCHEDULE...`, `keywords` or `killed`, and on GPUs `gpus SCHEDULE...`, `gpus-killed`, `gpus-large`."""

import copy
import os
import signal
import sys

import torch
from test_torch import WIDTH, Wide, adam, batch, loss, make_pieces
from test_torch_keywords import batch as keyword_batch
from test_torch_keywords import make_pieces as keyword_pieces
from torch import nn

import pipetrain
import pipetrain.torch as pt

LARGEST = torch.empty(3, 7, WIDTH, dtype=torch.float64, device="meta")


def learn(pieces, schedule, **arguments):
    """Steps over microbatches of different sizes, and of different ones in each step, with evaluations between them."""
    tokens, targets = batch()
    with pt.Pipeline(pieces, loss=loss, schedule=schedule, microbatches=4, optimizer=adam, clip_grad=0.5, **arguments) as pipeline:
        steps = []
        for skip in (0, 3, 1):
            steps.append(pipeline.step(tokens[skip:], targets[skip:]))
            found = pipeline.evaluate(tokens[: 11 - skip], targets[: 11 - skip], outputs=True)
            # Only the process of the last piece has outputs.
            assert (found.outputs is None) == (None in pipeline.stages and "world" in arguments and not last_here(pipeline))
            steps.append(found.loss)
        return steps


def last_here(pipeline):
    last = pipeline.plan.stages * pipeline.plan.chunks - 1
    at = [pipeline.plan.virtual_stage(stage, chunk) for stage, one in enumerate(pipeline.stages) if one for chunk in range(pipeline.plan.chunks)]
    return last in at


def check_equals_one_process(world, schedule, on_gpus=False):
    """To the bit on CPUs; on GPUs to what the order of their sums leaves."""
    chunks = next(chunks for name, chunks, *_ in pipetrain.all_schedules() if name == schedule)
    alone = make_pieces(4 * chunks)
    apart = [copy.deepcopy(piece) for piece in alone]
    devices = [f"cuda:{process}" for process in range(world.processes) for _ in world_of(process, world)] if on_gpus else None
    made = []

    def make(number):
        made.append(number)
        return apart[number]

    steps = learn(alone, schedule, devices=devices)
    found = learn(make, schedule, devices=devices, world=world, largest=LARGEST, stages=4)
    for one, other in zip(steps, found, strict=True):
        assert one == other or on_gpus and is_near(one, other)
    plan = pipetrain.Plan.build(schedule, 4, 4, chunks)
    assert sorted(made) == sorted(plan.virtual_stage(stage, chunk) for stage in world.stages(4) for chunk in range(chunks))
    for number in made:
        for one, other in zip(alone[number].parameters(), apart[number].parameters()):
            assert torch.equal(one, other) or on_gpus and torch.allclose(one, other, rtol=1e-10, atol=0), f"{schedule}: piece {number}"


def is_near(one, other):
    if isinstance(one, float):
        return abs(one - other) < 1e-12
    return abs(one.loss - other.loss) < 1e-12 and abs(one.grad_norm - other.grad_norm) < 1e-12


def give_keywords(world):
    """All processes give all arguments, also those that only pieces of others take; a name that no process takes is an error in each."""
    x, y, kwargs = keyword_batch()
    pieces = keyword_pieces()
    with pt.Pipeline(keyword_pieces(), loss=nn.functional.mse_loss, microbatches=4) as pipeline:
        expected = pipeline.step(x, y, kwargs=kwargs), pipeline.evaluate(x, y, kwargs=kwargs).loss
    pieces[-1].forward = no_other_names(pieces[-1])
    with pt.Pipeline(pieces, loss=nn.functional.mse_loss, microbatches=4, world=world, largest=1 << 12) as pipeline:
        for name, hint in [("shfit", "did you mean shift"), ("x", "piece 0 is called with"), ("hidden", "piece 1 is called with")]:
            try:
                pipeline.step(x, y, kwargs={name: x})
                raise AssertionError(name)
            except pipetrain.InputError as error:
                assert hint in str(error), error
        inputs = x if world.process == 0 else None  # otherwise tensors are split nearly evenly
        assert (pipeline.step(inputs, y, kwargs=kwargs), pipeline.evaluate(inputs, y, kwargs=kwargs).loss) == expected


def no_other_names(module):
    forward = module.forward
    return lambda hidden, attention_mask: forward(hidden, attention_mask=attention_mask)


def world_of(process, world):
    return pipetrain._engine.stages_of(process, world.processes, 4)


def send_large_values(world):
    """While the sender goes on: each must arrive whole."""
    torch.manual_seed(1)
    pieces = [Wide(2048) for _ in range(2)]
    x = torch.randn(16 * 1024, 2048)
    expected = nn.functional.mse_loss(nn.Sequential(*copy.deepcopy(pieces)).cuda()(x.cuda()), torch.zeros_like(x).cuda()).item()
    largest = torch.empty(1024, 2048, device="meta")
    devices = [f"cuda:{process}" for process in range(2)]
    with pt.Pipeline(pieces, loss=nn.functional.mse_loss, microbatches=16, devices=devices, world=world, largest=largest) as pipeline:
        for _ in range(20):
            loss = pipeline.step(x, torch.zeros_like(x)).loss
            assert abs(loss - expected) < 1e-5 * expected, (loss, expected)


class Killed(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module, self.calls = module, 0

    def forward(self, x):
        self.calls += 1
        if self.calls == 6:
            os.kill(os.getpid(), signal.SIGKILL)
        return self.module(x)


def be_killed(world, on_gpus):
    pieces = make_pieces(4)
    pieces[2] = Killed(pieces[2])
    devices = ["cuda:0", "cuda:0", "cuda:1", "cuda:1"] if on_gpus else None
    learn(pieces, "1f1b", devices=devices, world=world, largest=LARGEST)


def main():
    torch.set_num_threads(1)
    with pipetrain.World() as world:
        how, on_gpus = sys.argv[1], "gpus" in sys.argv[1]
        if how == "keywords":
            give_keywords(world)
        if "killed" in how:
            be_killed(world, on_gpus)
        if "large" in how:
            send_large_values(world)
        for schedule in sys.argv[2:]:
            check_equals_one_process(world, schedule, on_gpus)
            print(schedule, flush=True)


if __name__ == "__main__":
    main()
