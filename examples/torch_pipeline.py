"""A transformer in PyTorch, cut into four stages and trained in the order of a schedule.

    pip install . torch
    python examples/torch_pipeline.py --schedule zb-h1
    pipetrain launch --nproc 4 python examples/torch_pipeline.py --processes    (or torchrun --nproc-per-node 4 ...)
"""

import argparse

import torch
from torch import nn

import pipetrain
import pipetrain.torch


class Embedding(nn.Module):
    def __init__(self, vocabulary, width, length):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(0.02 * torch.randn(length, width))

    def forward(self, tokens):
        return self.tokens(tokens) + self.positions[: tokens.shape[1]]


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        rows, length, width = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(rows, length, width))
        return x + self.mlp(self.norm_2(x))


def make_model(vocabulary=64, width=64, layers=8, length=32):
    blocks = [Block(width, heads=4) for _ in range(layers)]
    return nn.Sequential(Embedding(vocabulary, width, length), *blocks, nn.LayerNorm(width), nn.Linear(width, vocabulary))


def loss(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def draw_batch(rows=30, length=32):
    """Sequences that count by threes: 30 of them are microbatches of 4 and of 3. The same in all processes, which have the same seed."""
    sequences = (torch.randint(0, 64, (rows, 1)) + 3 * torch.arange(length + 1)) % 64
    return sequences[:, :-1], sequences[:, 1:]


def train(arguments, world):
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the stages have a thread each
    chunks = next(chunks for name, chunks, *_ in pipetrain.all_schedules() if name == arguments.schedule)
    # Small enough for all processes to make it. Of a large model, give a function that makes one piece.
    pieces = pipetrain.torch.cut_sequential(make_model(), 4 * chunks)
    with pipetrain.torch.Pipeline(
        pieces,
        loss=loss,
        schedule=arguments.schedule,
        microbatches=arguments.microbatches,
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=3e-3),
        clip_grad=1.0,
        world=world,
        largest=torch.empty(-(-30 // arguments.microbatches), 32, 64, device="meta"),  # of a microbatch, between processes
    ) as pipeline:
        for _ in range(arguments.steps):
            step = pipeline.step(*draw_batch())
            if world.process == 0:
                print(f"step {step.step}  loss {step.loss:.4f}  gradient norm {step.grad_norm:.3f}")
        if arguments.svg and world.process == 0:
            with open(arguments.svg, "w") as file:
                file.write(pipeline.timeline().svg())
        evaluation = pipeline.evaluate(*draw_batch())  # in all processes, as a step
        if world.process == 0:
            print(f"evaluation  loss {evaluation.loss:.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--schedule", default="zb-h1")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--svg", help="a picture of the last step")
    parser.add_argument("--processes", action="store_true", help="run the stages in the processes that a launcher has started")
    arguments = parser.parse_args()
    with pipetrain.World() if arguments.processes else pipetrain.World.alone() as world:
        if world.process == 0:
            print(pipetrain.simulate(stages=4, microbatches=arguments.microbatches, schedule=arguments.schedule))
        train(arguments, world)


if __name__ == "__main__":
    main()
