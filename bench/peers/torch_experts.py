"""Training steps of transformers with routed experts in PyTorch: one grouped product for all experts' first matrices and one for their
last, compiled layers, cuDNN attention, fused AdamW. With --ep the ranks, each with samples of its own, divide the experts of each layer, and
send each other one row for each choice. The peer of the rows with experts.

    python torch_experts.py --model qwen3-30b-a3b --layers 4 --gas 8
    torchrun --nproc_per_node 2 torch_experts.py --model qwen3-30b-a3b --layers 8 --dp 2 --ep 2 --gas 8

No token is dropped, and no balancing loss is trained. Parameters, gradients and optimizer state are bf16, which is lighter than fp32
master weights. Gradients are not clipped, and neither their norm nor the loss is read. Tokens and weights are random, so that the
routing is uneven. Prints the line that torch_llama.py prints.
"""
import argparse
import json
import os
import statistics
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from llama_model import rotate
from peer_steps import cross_entropy, measure, peak_gib

grouped_mm = getattr(F, "grouped_mm", None) or torch._grouped_mm
ALIGNMENT = 8  # a grouped product sums over rows in multiples of this, so each expert's rows are padded with zeros


@dataclass
class Model:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    experts: int
    chosen: int
    inner: int
    vocabulary: int
    rope_theta: float
    normalised: bool  # the weights of a token's experts add up to 1
    norms: str  # of queries and keys: of each head, of the whole projection, or none
    head_dim: int = 128

    def flops_per_token(self, sequence):
        attention = self.hidden * self.head_dim * 2 * (self.heads + self.kv_heads)
        routed = self.hidden * (3 * self.inner * self.chosen + self.experts)
        products = self.layers * (attention + routed) + self.vocabulary * self.hidden
        return 6 * products + 6 * self.layers * self.heads * self.head_dim * sequence


MODELS = {
    "qwen3-30b-a3b": Model(2048, 48, 32, 4, 128, 8, 768, 151936, 1e6, True, "head"),
    "olmoe-1b-7b": Model(2048, 16, 16, 16, 64, 8, 1024, 50304, 1e4, False, "projection"),
    "mixtral-8x7b": Model(4096, 32, 32, 8, 8, 2, 14336, 32000, 1e6, True, "none"),
}


def parse_arguments():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="qwen3-30b-a3b")
    parser.add_argument("--layers", type=int, default=0, help="keep only the first layers; 0: all")
    for axis in ("pp", "tp"):
        parser.add_argument(f"--{axis}", type=int, default=1, choices=(1,))
    parser.add_argument("--dp", type=int, default=1, help="ranks; they divide the experts, so that --ep must be the same")
    parser.add_argument("--ep", type=int, default=1)
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--mbs", type=int, default=1, help="sequences of a microbatch")
    parser.add_argument("--gas", type=int, default=8, help="microbatches in a step")
    parser.add_argument("--compile", type=int, default=1)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    return parser.parse_args()


class Attention(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.widths = [model.heads * model.head_dim, model.kv_heads * model.head_dim, model.kv_heads * model.head_dim]
        self.inward = nn.Linear(model.hidden, sum(self.widths), bias=False)
        self.outward = nn.Linear(self.widths[0], model.hidden, bias=False)
        sizes = {"head": [model.head_dim] * 2, "projection": self.widths[:2], "none": []}[model.norms]
        self.norms = nn.ModuleList(nn.RMSNorm(size, eps=1e-6) for size in sizes)

    def forward(self, x, cosine, sine):
        whole = self.model.norms == "projection"
        parts = list(self.inward(x).split(self.widths, -1))
        if whole:
            parts[:2] = [norm(part) for norm, part in zip(self.norms, parts)]
        query, key, value = (part.unflatten(-1, (-1, self.model.head_dim)) for part in parts)
        if self.norms and not whole:
            query, key = self.norms[0](query), self.norms[1](key)
        query, key = rotate(query, (cosine, sine)), rotate(key, (cosine, sine))
        mixed = F.scaled_dot_product_attention(query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), is_causal=True,
                                               enable_gqa=self.model.kv_heads != self.model.heads)
        return self.outward(mixed.transpose(1, 2).flatten(2))


class Exchange(torch.autograd.Function):
    """Sends each rank its part of the rows. sent, got: the number of rows for, and from, each rank."""

    @staticmethod
    def forward(context, rows, sent, got):
        context.numbers = got, sent
        received = rows.new_empty(sum(got), rows.shape[1])
        dist.all_to_all_single(received, rows.contiguous(), got, sent)
        return received

    @staticmethod
    def backward(context, gradient):
        return Exchange.apply(gradient, *context.numbers), None, None


def count(choices, experts):
    return torch.zeros(experts, dtype=torch.int64, device=choices.device).scatter_add_(0, choices, torch.ones_like(choices))


class Experts(nn.Module):
    def __init__(self, model, ranks):
        super().__init__()
        self.model, self.ranks, self.own = model, ranks, model.experts // ranks
        self.router = nn.Linear(model.hidden, model.experts, bias=False)
        self.inward = nn.Parameter(torch.empty(self.own, model.hidden, 2 * model.inner))
        self.outward = nn.Parameter(torch.empty(self.own, model.inner, model.hidden))

    def compile_parts(self):
        """The exchange between the parts has sizes that the host must read."""
        self.route, self.combine = torch.compile(self.route), torch.compile(self.combine)
        self.compute = torch.compile(self.compute, dynamic=True)

    def rows_by_expert(self, chosen):
        """The row of each choice in the order of experts, the token of each row (one past the last for padding), and where groups end."""
        choices = chosen.flatten()
        order = choices.argsort(stable=True)
        counts = count(choices, self.own)
        ends = ((counts + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT).cumsum(0)
        shift = ends - (ends.diff(prepend=ends.new_zeros(1))) - (counts.cumsum(0) - counts)
        sorted_rows = torch.arange(choices.numel(), device=choices.device) + shift[choices[order]]
        row = torch.empty_like(order).scatter_(0, order, sorted_rows)
        padded = choices.numel() + self.own * ALIGNMENT
        token = torch.full((padded,), chosen.shape[0], device=choices.device).scatter_(0, sorted_rows, order // chosen.shape[1])
        return row, token, ends.to(torch.int32)

    def route(self, tokens):
        weights, chosen = self.router(tokens).float().softmax(-1).topk(self.model.chosen, -1)
        if self.model.normalised:
            weights = weights / weights.sum(-1, keepdim=True)
        return weights.to(tokens.dtype), chosen

    def compute(self, tokens, chosen):
        """The outputs of each token's choices, one row for each. chosen: [tokens, choices of each]."""
        row, token, ends = self.rows_by_expert(chosen)
        rows = F.pad(tokens, (0, 0, 0, 1)).index_select(0, token)
        gate, up = grouped_mm(rows, self.inward, offs=ends).chunk(2, -1)
        outputs = grouped_mm(F.silu(gate) * up, self.outward, offs=ends)
        return outputs.index_select(0, row)

    def compute_over_ranks(self, tokens, chosen):
        choices = chosen.flatten()
        order = choices.argsort(stable=True)
        counts = count(choices, self.model.experts)
        theirs = torch.empty_like(counts)
        dist.all_to_all_single(theirs, counts)
        sent, got = (numbers.view(self.ranks, self.own).sum(1).tolist() for numbers in (counts, theirs))
        rows = Exchange.apply(tokens.index_select(0, order // self.model.chosen), sent, got)
        experts = torch.arange(self.own, device=choices.device).repeat(self.ranks).repeat_interleave(theirs, output_size=sum(got))
        outputs = Exchange.apply(self.compute(rows, experts.unsqueeze(1)), got, sent)
        return outputs.index_select(0, order.argsort())

    def combine(self, outputs, weights):
        return (outputs.unflatten(0, (-1, self.model.chosen)) * weights.unsqueeze(-1)).sum(1)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weights, chosen = self.route(tokens)
        outputs = self.compute(tokens, chosen) if self.ranks == 1 else self.compute_over_ranks(tokens, chosen)
        return self.combine(outputs, weights).view_as(x)


class Layer(nn.Module):
    def __init__(self, model, ranks):
        super().__init__()
        self.ranks = ranks
        self.attention_norm, self.experts_norm = nn.RMSNorm(model.hidden, eps=1e-6), nn.RMSNorm(model.hidden, eps=1e-6)
        self.attention, self.experts = Attention(model), Experts(model, ranks)

    def compile_parts(self):
        if self.ranks == 1:
            return self.compile()
        self.attention.compile()
        self.experts.compile_parts()

    def forward(self, x, cosine, sine):
        x = x + self.attention(self.attention_norm(x), cosine, sine)
        return x + self.experts(self.experts_norm(x))


class Run:
    def __init__(self, arguments, model, device):
        self.arguments = arguments
        with torch.device("meta"):
            self.part = nn.ModuleDict(dict(embedding=nn.Embedding(model.vocabulary, model.hidden),
                                           layers=nn.ModuleList(Layer(model, arguments.ep) for _ in range(model.layers)),
                                           norm=nn.RMSNorm(model.hidden, eps=1e-6),
                                           head=nn.Linear(model.hidden, model.vocabulary, bias=False)))
        self.part = self.part.to(torch.bfloat16).to_empty(device=device)
        self.shared = [parameter for name, parameter in self.part.named_parameters() if not name.endswith(("inward", "outward"))]
        torch.manual_seed(0)  # on every rank: those that divide the experts have the same weights beside them
        for parameter in self.part.parameters():
            nn.init.ones_(parameter) if parameter.dim() == 1 else nn.init.normal_(parameter, std=0.02)
        self.loss = self.head_loss
        if arguments.compile:
            for layer in self.part["layers"]:
                layer.compile_parts()
            self.loss = torch.compile(self.head_loss)
        self.optimizer = torch.optim.AdamW(self.part.parameters(), lr=1e-5, fused=True)
        angles = torch.outer(torch.arange(arguments.seq, device=device).float(),
                             model.rope_theta ** -(torch.arange(0, model.head_dim, 2, device=device).float() / model.head_dim))
        self.angles = angles.cos()[None, :, None, :], angles.sin()[None, :, None, :]
        torch.manual_seed(device.index)
        size = (arguments.mbs * arguments.gas, arguments.seq)
        self.tokens, self.targets = (torch.randint(0, model.vocabulary, size, device=device) for _ in range(2))

    def head_loss(self, x, targets):
        return cross_entropy(self.part["head"](self.part["norm"](x)), targets)

    def step(self):
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            for tokens, targets in zip(self.tokens.split(self.arguments.mbs), self.targets.split(self.arguments.mbs)):
                x = self.part["embedding"](tokens)
                for layer in self.part["layers"]:
                    x = layer(x, *self.angles)
                self.loss(x, targets).backward()
        if self.arguments.ep > 1:
            for parameter in self.shared:
                dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def main():
    arguments = parse_arguments()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    if arguments.dp != arguments.ep or arguments.ep != int(os.environ.get("WORLD_SIZE", 1)):
        raise SystemExit("--dp and --ep must be the number of ranks")
    if arguments.ep > 1:
        dist.init_process_group("nccl", device_id=device)
    model = MODELS[arguments.model]
    model.layers = arguments.layers or model.layers
    seconds = measure(Run(arguments, model, device), arguments.warmup, arguments.steps)
    median = statistics.median(seconds)
    tokens = arguments.mbs * arguments.gas * arguments.seq / median
    figures = dict(vars(arguments), layers=model.layers, sec_step=round(median, 4), spread=[round(min(seconds), 4), round(max(seconds), 4)],
                   tok_s_gpu=round(tokens, 1), tflops_gpu=round(tokens * model.flops_per_token(arguments.seq) / 1e12, 1),
                   mem_gib=peak_gib(device, arguments.ep), torch=torch.__version__)
    if device.index == 0:
        print("RESULT " + json.dumps(figures), flush=True)
    if arguments.ep > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
