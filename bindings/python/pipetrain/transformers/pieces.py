"""A model of transformers in pieces of neighbouring layers, which keep its own code."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from ..errors import InputError

_FINAL_NORMS = ("norm", "final_layernorm", "final_layer_norm", "ln_f", "final_norm")
_EMBEDDINGS = ("embed_tokens", "embed_in", "wte", "word_embeddings", "tok_embeddings")


def _sibling(module: nn.Module, **children: nn.Module | None) -> nn.Module:
    """Returns a module with the code, parameters and children of this one, but for the children that are named."""
    made = copy.copy(module)
    made._modules = {**module._modules, **children}
    return made


class Piece(nn.Module):
    """Called with the ids (the first piece) or the hidden states of the piece before; the last piece returns the model's loss. Keyword
    arguments are those of the model's batch."""

    def __init__(self, part: nn.Module, reads: str, is_last: bool):
        super().__init__()
        self.part, self._reads, self._is_last = part, reads, is_last

    def forward(self, x: Any, **inputs: Any) -> torch.Tensor:
        if not self._is_last:
            inputs.pop("labels", None)
        output = self.part(**{self._reads: x}, **inputs)
        return output["loss"] if self._is_last else output[0]


def cut_model(model: nn.Module, count: int) -> list[Piece]:
    """Cuts a decoder between its layers, in equal parts or nearly so. A piece runs the model's own forward over its part of the layers. One
    piece is the whole model, whatever it is. Raises InputError for a model without the usual parts, or with weights in two pieces."""
    first = getattr(model, "main_input_name", "input_ids")
    if count == 1:
        return [Piece(model, first, is_last=True)]
    prefix = getattr(model, "base_model_prefix", "")
    base = getattr(model, prefix, None)
    layers, norm = getattr(base, "layers", None), _named(base, _FINAL_NORMS)
    embedding = _named(base, _EMBEDDINGS)
    if not isinstance(layers, nn.ModuleList) or norm is None or embedding is None:
        raise InputError(f"layout: pp: {type(model).__name__} has no embedding, list of layers and final norm to be cut between; give pp=1")
    if len(layers) < count:
        raise InputError(f"layout: pp: {type(model).__name__} has {len(layers)} layers, too few for {count} pieces; give fewer")
    bounds = [len(layers) * piece // count for piece in range(count + 1)]
    pieces = []
    for piece, (begin, end) in enumerate(zip(bounds, bounds[1:])):
        changed: dict[str, nn.Module | None] = {"layers": nn.ModuleList(layers[begin:end])}
        if piece > 0:
            changed[embedding] = None
        if piece < count - 1:
            changed[norm] = nn.Identity()
        part = _sibling(base, **changed)
        part.config = _config_of(base.config, begin, end)
        if piece == count - 1:
            part = _sibling(model, **{prefix: part})
        pieces.append(Piece(part, first if piece == 0 else "inputs_embeds", is_last=piece == count - 1))
    return pieces


def _named(module: nn.Module | None, names: tuple[str, ...]) -> str | None:
    return next((name for name in names if isinstance(getattr(module, name, None), nn.Module)), None)


def _config_of(config: Any, begin: int, end: int) -> Any:
    """Returns the configuration of some of the layers: what a model looks up by the number of a layer in its list."""
    made = copy.copy(config)
    made.num_hidden_layers, made.use_cache = end - begin, False
    if getattr(made, "layer_types", None):
        made.layer_types = list(config.layer_types[begin:end])
    return made


def check_pieces(model: nn.Module, pieces: list[Piece], inputs: dict[str, Any]) -> None:
    """Compares the loss of the pieces, one after the other, with that of the whole model, without dropout. Raises InputError where they differ:
    a family whose forward does more between embedding and head than its layers cannot be cut in this way."""
    modes = {module: module.training for module in [model, *pieces] for module in module.modules()}
    try:
        with torch.no_grad():
            whole = model.eval()(**inputs)["loss"]
            rest = dict(inputs)
            x = rest.pop(getattr(model, "main_input_name", "input_ids"))
            for piece in pieces:
                x = piece.eval()(x, **rest)
    finally:
        for module, mode in modes.items():
            module.training = mode
    if not torch.allclose(whole, x, rtol=1e-4, atol=1e-5):
        raise InputError(f"layout: pp: the loss of {type(model).__name__} is {whole.item():.6g}, and that of its {len(pieces)} pieces one "
                         f"after the other {x.item():.6g}; give pp=1")  # fmt: skip
