"""GPT-2 training steps in PyTorch on one GPU, as a tuned user runs them: compiled, cuDNN attention, fused AdamW, a vocabulary
rounded up to 50,304. Parameters, gradients and optimizer state in bf16, or with --autocast in fp32 with bf16 products.

    python torch_gpt2.py --layers 12 --hidden 768 --heads 12 --microbatch 64 --microbatches 1

Prints one JSON line: seconds of a step (median, least and most), tokens/s, peak GiB.
"""
import argparse
import json
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

VOCABULARY, USED, SEQUENCE, DEVICE = 50304, 50257, 1024, "cuda"


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.mlp_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        batch, tokens, hidden = x.shape
        packed = self.qkv(self.attention_norm(x)).view(batch, tokens, 3, self.heads, hidden // self.heads)
        query, key, value = packed.permute(2, 0, 3, 1, 4)
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            heads = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(heads.transpose(1, 2).reshape(batch, tokens, hidden))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self, layers, hidden, heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, hidden), nn.Embedding(SEQUENCE, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=DEVICE))
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.tokens.weight.t()
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def main():
    parser = argparse.ArgumentParser()
    for name, default in dict(layers=12, hidden=768, heads=12, microbatch=16, microbatches=4, steps=9, warmup=5).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--autocast", action="store_true")
    a = parser.parse_args()
    torch.manual_seed(0)
    model = Gpt2(a.layers, a.hidden, a.heads).to(DEVICE)
    if not a.autocast:
        model = model.to(torch.bfloat16)
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    ids, targets = torch.randint(0, USED, (2, a.microbatches, a.microbatch, SEQUENCE), device=DEVICE)
    seconds = []
    for step in range(a.warmup + a.steps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for i in range(a.microbatches):
            with torch.autocast(DEVICE, torch.bfloat16, enabled=a.autocast):
                loss = compiled(ids[i], targets[i]) / a.microbatches
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        if step >= a.warmup:
            seconds.append(time.perf_counter() - begin)
    seconds.sort()
    median = seconds[len(seconds) // 2]
    print(json.dumps(dict(seconds=median, least=seconds[0], most=seconds[-1],
                          tokens_per_second=a.microbatches * a.microbatch * SEQUENCE / median,
                          gib=torch.cuda.max_memory_allocated() / 2**30)))


main()
