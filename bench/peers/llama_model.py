"""A Llama in PyTorch's own layers, in parts for pipeline stages.

Shapes: B sequences of a microbatch, S tokens of a sequence, D head size.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Llama:
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    intermediate: int
    vocabulary: int
    rope_theta: float
    tied: bool = False  # the head's matrix is the embedding's

    @property
    def head_dim(self):
        return self.hidden // self.heads

    def matrix_parameters(self):
        """Those of matrix products: all but the input embedding and the norms."""
        attention = self.hidden * self.head_dim * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.intermediate) + self.vocabulary * self.hidden

    def flops_per_token(self, sequence):
        """Model FLOPs of forward and backward, causal attention as half."""
        return 6 * self.matrix_parameters() + 6 * self.layers * self.hidden * sequence


MODELS = {
    "llama2-7b": Llama(4096, 32, 32, 32, 11008, 32000, 1e4),
    "llama2-13b": Llama(5120, 40, 40, 40, 13824, 32000, 1e4),
    "llama3-8b": Llama(4096, 32, 32, 8, 14336, 128256, 5e5),
    "llama3.2-1b": Llama(2048, 16, 32, 8, 8192, 128256, 5e5),
}


def rotate(x, angles):
    """x [B, S, heads, D], angles a pair of [1, S, 1, D/2]: cosines and sines."""
    cosine, sine = angles
    low, high = x.float().chunk(2, -1)
    return torch.cat((low * cosine - high * sine, high * cosine + low * sine), -1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.head_dim, self.grouped = model.head_dim, model.kv_heads != model.heads
        inner, kv_inner = model.heads * model.head_dim, model.kv_heads * model.head_dim
        self.query = nn.Linear(model.hidden, inner, bias=False)
        self.key = nn.Linear(model.hidden, kv_inner, bias=False)
        self.value = nn.Linear(model.hidden, kv_inner, bias=False)
        self.out = nn.Linear(inner, model.hidden, bias=False)

    def forward(self, x, cosine, sine):
        batch, sequence, _ = x.shape
        heads = lambda y: y.view(batch, sequence, -1, self.head_dim)  # of this rank
        query = rotate(heads(self.query(x)), (cosine, sine)).transpose(1, 2)
        key = rotate(heads(self.key(x)), (cosine, sine)).transpose(1, 2)
        value = heads(self.value(x)).transpose(1, 2)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=self.grouped)
        return self.out(mixed.transpose(1, 2).reshape(batch, sequence, -1))


class Mlp(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.gate = nn.Linear(model.hidden, model.intermediate, bias=False)
        self.up = nn.Linear(model.hidden, model.intermediate, bias=False)
        self.down = nn.Linear(model.intermediate, model.hidden, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(model.hidden, eps=1e-5), nn.RMSNorm(model.hidden, eps=1e-5)
        self.attention, self.mlp = Attention(model), Mlp(model)

    def forward(self, x, cosine, sine):
        x = x + self.attention(self.attention_norm(x), cosine, sine)
        return x + self.mlp(self.mlp_norm(x))


class Part(nn.Module):
    """The layers of one virtual stage, with the embedding on the first and the head on the last."""

    def __init__(self, model, layers, first, last):
        super().__init__()
        self.model = model
        self.embedding = nn.Embedding(model.vocabulary, model.hidden) if first else None
        self.layers = nn.ModuleDict({str(layer): Layer(model) for layer in layers})
        self.norm = nn.RMSNorm(model.hidden, eps=1e-5) if last else None
        self.is_last = last
        self.head = nn.Linear(model.hidden, model.vocabulary, bias=False) if last and not model.tied else None

    def initialise(self, sequence, device):
        half = torch.arange(0, self.model.head_dim, 2, device=device).float() / self.model.head_dim
        angles = torch.outer(torch.arange(sequence, device=device).float(), self.model.rope_theta**-half)
        self.cosine, self.sine = angles.cos()[None, :, None, :], angles.sin()[None, :, None, :]
        for parameter in self.parameters():
            if parameter.dim() == 1:
                nn.init.ones_(parameter)
            elif parameter.device.type == "cpu":  # the GPU draws faster
                local = parameter.to_local().detach()
                local.copy_(0.02 * torch.randn(local.shape, device=device))
            else:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, x):
        if self.embedding is not None:
            x = self.embedding(x)
        for layer in self.layers.values():
            x = layer(x, self.cosine, self.sine)
        if not self.is_last:
            return x
        return F.linear(self.norm(x), self.embedding.weight) if self.head is None else self.head(self.norm(x))
