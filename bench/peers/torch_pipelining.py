"""pipetrain.torch beside torch.distributed.pipelining: the same modules, split alike, over four stages on the CPU.

    PYTHONPATH=build/python python bench/peers/torch_pipelining.py [--schedule 1f1b|interleaved] [--layers 8 --width 256]

PyTorch's side runs one process a stage with gloo, ours one process with a thread a stage, and with --processes a second time with a process a stage;
all have one compute thread a stage. Both sides give the norm of all stages' gradients and read the loss in every step (with --bare 1 PyTorch's side
leaves the norm out, which ours cannot). They take turns, and each prints its median step. One JSON line: tokens/s of ours, of ours in processes and
of PyTorch's, and their ratios to PyTorch's; and the processor seconds that a step took of each, over all its threads and processes, which other work on
the machine disturbs less.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from torch_pipeline import loss, make_model  # noqa: E402

STAGES = 4
VOCABULARY = 64


def pieces_of(options):
    """The same weights in both programs, cut into as many layers each."""
    torch.manual_seed(0)
    layers = list(make_model(vocabulary=VOCABULARY, width=options.width, layers=options.layers, length=options.length))
    count = STAGES * (options.chunks if options.schedule == "interleaved" else 1)
    body = options.layers // count
    cuts = [0, *(1 + body * (piece + 1) for piece in range(count - 1)), len(layers)]
    return [torch.nn.Sequential(*layers[begin:end]) for begin, end in zip(cuts, cuts[1:])]


def batch_of(options, step):
    generator = torch.Generator().manual_seed(step)
    tokens = torch.randint(0, VOCABULARY, (options.microbatches * options.rows, options.length + 1), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


def norm_of(parameters):
    """Of the gradients of all ranks' parameters together, as a user of torch.distributed.pipelining has to take it."""
    import torch.distributed as dist

    square = torch.nn.utils.get_total_norm([one.grad for one in parameters if one.grad is not None]).double().square()
    dist.all_reduce(square)
    return square.sqrt().item()


def timed(options, step, wait=lambda: None):
    """The median seconds of a step, its processor seconds in this process, and the last step's loss."""
    times, value, begun = [], None, 0.0
    for number in range(options.steps + 2):
        inputs, targets = batch_of(options, number)
        wait()
        if number == 2:
            begun = time.process_time()
        start = time.perf_counter()
        value = step(inputs, targets)
        wait()
        if number >= 2:
            times.append(time.perf_counter() - start)
    return statistics.median(times), (time.process_time() - begun) / options.steps, value


def ours(options, world):
    import pipetrain.torch

    torch.set_num_threads(1)
    with world, pipetrain.torch.Pipeline(
        pieces_of(options),
        loss=loss,
        schedule=options.schedule,
        stages=STAGES,
        microbatches=options.microbatches,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        world=world,
        largest=torch.empty(options.rows, options.length, options.width, device="meta"),
    ) as pipeline:
        return timed(options, lambda inputs, targets: pipeline.step(inputs, targets).loss)


def peer(options):
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, cpu = dist.get_rank(), torch.device("cpu")
    pieces = pieces_of(options)
    stages = [PipelineStage(pieces[index], index, len(pieces), cpu) for index in range(rank, len(pieces), STAGES)]
    if options.schedule == "1f1b":
        schedule = Schedule1F1B(stages[0], options.microbatches, loss_fn=loss)
    else:
        schedule = ScheduleInterleaved1F1B(stages, options.microbatches, loss_fn=loss)
    parameters = [one for stage in stages for one in stage.submod.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)

    def step(inputs, targets):
        losses = []
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(inputs)
        elif rank == STAGES - 1:
            schedule.step(target=targets, losses=losses)
        else:
            schedule.step()
        if not options.bare and not math.isfinite(norm_of(parameters)):
            raise SystemExit("torch_pipelining: a gradient is not finite")
        optimizer.step()
        return float(sum(losses) / len(losses)) if losses else None

    seconds, processor, value = timed(options, step, dist.barrier)
    processors = torch.tensor(processor, dtype=torch.float64)
    dist.all_reduce(processors)
    if rank == STAGES - 1:
        print(json.dumps([seconds, float(processors), value]))
    dist.destroy_process_group()


def run_apart(side):
    """One side of the comparison as a program of its own."""
    launch = [] if side == "ours" else ["-m", "torch.distributed.run", f"--nproc_per_node={STAGES}"]
    done = subprocess.run(
        [sys.executable, *launch, __file__, *sys.argv[1:], "--side", side],
        stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    lines = [json.loads(one) for one in re.findall(r"\[\d[^]]*\]", done.stdout)]  # processes may share a line
    return max(line[0] for line in lines), sum(line[1] for line in lines), lines[-1][2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--schedule", choices=["1f1b", "interleaved"], default="1f1b")
    parser.add_argument("--chunks", type=int, default=2, help="of interleaved")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rows", type=int, default=2, help="of a microbatch")
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--processes", action="store_true", help="ours in a process a stage too")
    parser.add_argument("--bare", type=int, default=0, help="1: PyTorch's side takes no norm")
    parser.add_argument("--side", choices=["ours", "processes", "peer"])
    options = parser.parse_args()
    if options.side in ("ours", "processes"):
        import pipetrain

        print(json.dumps(ours(options, pipetrain.World() if options.side == "processes" else pipetrain.World.alone())))
    elif options.side == "peer":
        peer(options)
    else:
        sides = {"ours": "pipetrain", **({"processes": "pipetrain, processes"} if options.processes else {}), "peer": "torch.distributed.pipelining"}
        rounds = [{side: run_apart(side) for side in sides} for _ in range(options.rounds)]
        tokens = options.microbatches * options.rows * options.length
        rates = {side: tokens / statistics.median(one[side][0] for one in rounds) for side in sides}
        processor = {side: statistics.median(one[side][1] for one in rounds) for side in sides}
        print(json.dumps({"bench": f"torch stages, {options.schedule}, 4 stages on the CPU", "unit": "tokens/s",
                          **{name: round(rates[side], 1) for side, name in sides.items()},
                          "ratio": {side: round(rates[side] / rates["peer"], 3) for side in sides if side != "peer"},
                          "processor s/step": {side: round(processor[side], 3) for side in sides},
                          "processor ratio": {side: round(processor["peer"] / processor[side], 3) for side in sides if side != "peer"},
                          "losses": [rounds[0][side][2] for side in sides]}))


if __name__ == "__main__":
    main()
