"""pipetrain.torch beside torch.distributed.pipelining: the same modules, split alike, over four stages on the CPU.

    PYTHONPATH=build/python python bench/peers/torch_pipelining.py [--schedule 1f1b|interleaved] [--layers 8 --width 256]

PyTorch's side runs one process a stage with gloo, ours one process with a thread a stage; both have one compute thread a stage. They take turns, and
each prints its median step. One JSON line: our tokens/s, PyTorch's, and their ratio; and the processor seconds that a step took of each, over all its
threads and processes, which other work on the machine disturbs less.
"""
import argparse
import json
import os
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


def ours(options):
    import pipetrain.torch

    torch.set_num_threads(1)
    with pipetrain.torch.Pipeline(
        pieces_of(options),
        loss=loss,
        schedule=options.schedule,
        stages=STAGES,
        microbatches=options.microbatches,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
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
    optimizer = torch.optim.AdamW([one for stage in stages for one in stage.submod.parameters()], lr=1e-3)

    def step(inputs, targets):
        losses = []
        optimizer.zero_grad()
        if rank == 0:
            schedule.step(inputs)
        elif rank == STAGES - 1:
            schedule.step(target=targets, losses=losses)
        else:
            schedule.step()
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
    python = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={STAGES}"] if side == "peer" else [sys.executable]
    done = subprocess.run(
        [*python, __file__, *sys.argv[1:], "--side", side],
        stdout=subprocess.PIPE, text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return json.loads(done.stdout.splitlines()[-1])


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
    parser.add_argument("--side", choices=["ours", "peer"])
    options = parser.parse_args()
    if options.side == "ours":
        print(json.dumps(ours(options)))
    elif options.side == "peer":
        peer(options)
    else:
        rounds = [(run_apart("ours"), run_apart("peer")) for _ in range(options.rounds)]
        tokens = options.microbatches * options.rows * options.length
        mine = tokens / statistics.median(one[0] for one, _ in rounds)
        theirs = tokens / statistics.median(one[0] for _, one in rounds)
        processor = [round(statistics.median(one[side][1] for one in rounds), 3) for side in (0, 1)]
        losses = [rounds[0][0][2], rounds[0][1][2]]
        print(json.dumps({"bench": f"torch stages, {options.schedule}, 4 stages on the CPU", "pipetrain": round(mine, 1),
                          "torch.distributed.pipelining": round(theirs, 1), "unit": "tokens/s", "ratio": round(mine / theirs, 3),
                          "processor s/step": processor, "processor ratio": round(processor[1] / processor[0], 3), "losses": losses}))


if __name__ == "__main__":
    main()
