"""Cutting a model into pieces."""

from __future__ import annotations

from torch import nn

from ..errors import InputError


def cut_sequential(model: nn.Sequential, pieces: int) -> list[nn.Sequential]:
    """Neighbouring layers in pieces of about the same number of parameters. The layers are those of the model, not copies."""
    layers = list(model)
    if not 1 <= pieces <= len(layers):
        raise InputError(f"pieces: {pieces}; the model has {len(layers)} layers to cut between")
    sizes = [1 + sum(parameter.numel() for parameter in layer.parameters()) for layer in layers]
    total, cuts, done = sum(sizes), [0], 0
    for index, size in enumerate(sizes):
        left = pieces - len(cuts)  # pieces to begin after this layer
        done += size
        enough = done >= total * len(cuts) / pieces
        if left and (enough or len(layers) - index - 1 == left) and len(layers) - index - 1 >= left:
            cuts.append(index + 1)
    return [nn.Sequential(*layers[begin:end]) for begin, end in zip(cuts, [*cuts[1:], len(layers)])]
