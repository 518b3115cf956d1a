"""What an action costs in PyTorch's own pipeline runtime: its 1F1B schedule over stages that compute nothing.

torchrun --nproc_per_node 8 torch_actors.py [--microbatches 64] [--steps 20]

One process a stage on the CPU, messages of one number through gloo. Prints one JSON line: microseconds of a step divided by the actions (F and B) of
one stage, and by those of all stages as `./dev bench actors` counts them.
"""
import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


class Identity(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return gradient


class Nothing(torch.nn.Module):
    def forward(self, x):
        return Identity.apply(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--microbatches", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, stages = dist.get_rank(), dist.get_world_size()
    stage = PipelineStage(Nothing(), rank, stages, torch.device("cpu"))
    schedule = Schedule1F1B(stage, options.microbatches, loss_fn=lambda output, target: output.sum())
    batch = torch.ones(options.microbatches, 1, requires_grad=True)

    def step():
        if rank == 0:
            schedule.step(batch)
        elif rank == stages - 1:
            schedule.step(target=torch.ones(options.microbatches, 1))
        else:
            schedule.step()

    times = []
    for index in range(options.steps + 3):
        dist.barrier()
        start = time.perf_counter()
        step()
        dist.barrier()
        if index >= 3:
            times.append(time.perf_counter() - start)
    if rank == 0:
        actions = 2 * options.microbatches
        median = statistics.median(times) * 1e6
        print(json.dumps({"torch": torch.__version__, "stages": stages, "microbatches": options.microbatches, "step_us": median,
                          "us_per_action_of_a_stage": median / actions, "us_per_action": median / actions / stages}), flush=True)
    dist.destroy_process_group()


main()
