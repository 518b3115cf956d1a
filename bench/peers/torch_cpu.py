"""One training step of a Llama in PyTorch on the CPU, for ./dev bench cpu.

Takes the model's sizes as one JSON object in its argument, warms up, prints "ready VERSION", then for every line on stdin
trains one step (gradient accumulation over the microbatches, clipping, AdamW; fp32, or with "bf16" autocast over fp32 weights) and prints
the seconds it took and the processor seconds of all threads.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F


class Block(torch.nn.Module):
    def __init__(self, hidden, heads, intermediate):
        super().__init__()
        self.heads = heads
        self.attention_norm = torch.nn.Parameter(torch.ones(hidden))
        self.mlp_norm = torch.nn.Parameter(torch.ones(hidden))
        self.qkv = torch.nn.Linear(hidden, 3 * hidden, bias=False)
        self.out = torch.nn.Linear(hidden, hidden, bias=False)
        self.gate_up = torch.nn.Linear(hidden, 2 * intermediate, bias=False)
        self.down = torch.nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x, cos, sin):
        batch, sequence, hidden = x.shape
        qkv = self.qkv(F.rms_norm(x, (hidden,), self.attention_norm, 1e-5))
        q, k, v = qkv.view(batch, sequence, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, sequence, hidden))
        gate, up = self.gate_up(F.rms_norm(x, (hidden,), self.mlp_norm, 1e-5)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


def rotate(x, cos, sin):
    low, high = x.chunk(2, dim=-1)
    return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)


class Llama(torch.nn.Module):
    def __init__(self, sizes):
        super().__init__()
        hidden, heads = sizes["hidden"], sizes["heads"]
        self.embedding = torch.nn.Embedding(sizes["vocabulary"], hidden)
        self.blocks = torch.nn.ModuleList(Block(hidden, heads, sizes["intermediate"]) for _ in range(sizes["layers"]))
        self.norm = torch.nn.Parameter(torch.ones(hidden))
        self.head = torch.nn.Linear(hidden, sizes["vocabulary"], bias=False)
        half = hidden // heads // 2
        angles = torch.outer(torch.arange(sizes["sequence"]).float(), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())
        for parameter in self.parameters():
            if parameter.dim() > 1:
                torch.nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        x = F.rms_norm(x, x.shape[-1:], self.norm, 1e-5)
        return F.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())


def main():
    sizes = json.loads(sys.argv[1])
    torch.set_num_threads(sizes["threads"])
    torch.manual_seed(0)
    model = Llama(sizes)
    loss_of = torch.compile(model) if sizes.get("compile") else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens = torch.randint(256, (sizes["microbatches"], sizes["microbatch"], sizes["sequence"] + 1))

    def step():
        optimizer.zero_grad()
        for microbatch in tokens:
            with torch.autocast("cpu", torch.bfloat16, enabled=sizes.get("bf16", False)):
                loss = loss_of(microbatch[:, :-1], microbatch[:, 1:]) / sizes["microbatches"]
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step()
    print("ready", torch.__version__, flush=True)
    for _ in sys.stdin:
        wall, processor = time.perf_counter(), time.process_time()
        step()
        print(time.perf_counter() - wall, time.process_time() - processor, flush=True)


main()
