"""Makes trajectories.json: weights after some steps of the optimizers' references, in float64.

    python make_optimizers.py > trajectories.json

torch 2.15 (SGD, AdamW, Adafactor, Muon), timm 1.0.31 (LAMB), came-pytorch 0.1.3, galore-torch 1.0; and bitsandbytes 0.50.2 in
float32, which is all that it computes in. Weights and gradients follow from integers (drawn()), so that the test makes the same.
"""
import importlib.util
import json
import sys
import types

import torch

torch.set_default_dtype(torch.float64)
SHAPES = {"wide": (12, 20), "tall": (20, 12), "vector": (7,)}
STEPS = 7


def drawn(seed, shape):
    count = 1
    for dim in shape:
        count *= dim
    numbers = []
    for i in range(count):
        x = (i * 2654435761 + seed * 40503 + 12345) & 0xFFFFFFFF
        for multiplier in (2246822519, 3266489917):
            x = ((x ^ (x >> 15)) * multiplier) & 0xFFFFFFFF
        numbers.append(((x ^ (x >> 13)) >> 8) / 2**24 - 0.5)  # 24 bits: exact in float32
    return torch.tensor(numbers, dtype=torch.float64).reshape(shape)


def run(make, shape, tensor, dtype=torch.float64):
    weight = torch.nn.Parameter(drawn(tensor, shape).to(dtype))
    optimizer = make(weight)
    for step in range(STEPS):
        weight.grad = drawn(100 * (step + 1) + tensor, shape).to(dtype)
        optimizer.step()
    return weight.detach().double().flatten().tolist()


def in_double(optimizer):
    """Muon's iteration in float64 in place of bfloat16."""
    from torch.optim import _muon

    bfloat16 = torch.bfloat16
    source = _muon._zeropower_via_newtonschulz

    def wrapped(*arguments):
        torch.bfloat16 = torch.float64
        try:
            return source(*arguments)
        finally:
            torch.bfloat16 = bfloat16

    _muon._zeropower_via_newtonschulz = wrapped
    return optimizer


def with_fixed_signs():
    """GaLore's singular vectors, each with a positive largest component, in float64."""
    from galore_torch import galore_projector

    def vectors(self, weights, rank, type):
        u, _, v = torch.linalg.svd(weights, full_matrices=False)
        rows = v[:rank] if type == "right" else u[:, :rank].T
        largest = rows.gather(1, rows.abs().argmax(1, keepdim=True))
        rows = rows * largest.sign()
        return rows if type == "right" else rows.T

    galore_projector.GaLoreProjector.get_orthogonal_matrix = vectors


def with_nearest_codes():
    """bitsandbytes' codes as its GPU code chooses them; on a CPU its search for the nearest is approximate."""
    from bitsandbytes.backends.cpu import ops

    def quantise(values, code, magnitudes, codes, block):
        padded = torch.nn.functional.pad(values.flatten(), (0, -values.numel() % block)).reshape(-1, block)
        largest = padded.abs().amax(1)
        magnitudes.copy_(largest)
        scaled = (padded / largest[:, None]).flatten()[: values.numel()]
        codes.copy_((scaled[:, None] - code[None, :]).abs().argmin(1).reshape(codes.shape))

    ops._quant_blockwise_fp32_direct = quantise


def main():
    from came_pytorch import CAME
    from galore_torch import GaLoreAdamW
    # timm's optimizers alone: the package itself needs torchvision.
    folder = importlib.util.find_spec("timm").submodule_search_locations[0]
    for name, path in {"timm": folder, "timm.optim": f"{folder}/optim"}.items():
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [path]
    from timm.optim.lamb import Lamb

    with_fixed_signs()
    float_eps = 2.0**-23
    of_all = {
        "sgd": lambda w: torch.optim.SGD([w], lr=0.05, weight_decay=0.1),
        "sgd_momentum": lambda w: torch.optim.SGD([w], lr=0.05, momentum=0.9, weight_decay=0.1),
        "sgd_nesterov": lambda w: torch.optim.SGD([w], lr=0.05, momentum=0.9, weight_decay=0.1, nesterov=True),
        "adafactor": lambda w: torch.optim.Adafactor([w], lr=0.5, eps=(float_eps, 1e-3), weight_decay=0.1, d=1.05),
        "came": lambda w: CAME([w], lr=0.02, weight_decay=0.1, betas=(0.9, 0.99, 0.999), clip_threshold=0.9),
        "lamb": lambda w: Lamb([w], lr=0.02, weight_decay=0.1, max_grad_norm=None, always_adapt=True),
    }
    of_matrices = {
        "muon": lambda w: in_double(torch.optim.Muon([w], lr=0.02, adjust_lr_fn="original")),
        "muon_rms": lambda w: in_double(torch.optim.Muon([w], lr=0.02, nesterov=False, adjust_lr_fn="match_rms_adamw")),
        "galore": lambda w: GaLoreAdamW(
            [{"params": [w], "rank": 5, "update_proj_gap": 3, "scale": 0.25, "proj_type": "std"}],
            lr=0.05, weight_decay=0.1, no_deprecation_warning=True),
    }
    result = {"steps": STEPS}
    for name, make in {**of_all, **of_matrices}.items():
        tensors = {}
        for number, (tensor, shape) in enumerate(SHAPES.items()):
            if name in of_all or len(shape) == 2:
                tensors[tensor] = [round(x, 9) for x in run(make, shape, number)]
        result[name] = tensors
    torch.set_default_dtype(torch.float32)
    import bitsandbytes as bnb

    with_nearest_codes()

    def eight_bits(w):
        return bnb.optim.AdamW8bit([w], lr=0.02, betas=(0.9, 0.99), weight_decay=0.1)

    large = run(eight_bits, (66, 100), 5, torch.float32)
    result["adamw_8bit"] = {"large": [round(x, 8) for x in large[::11]]}
    from bitsandbytes.functional import create_dynamic_map

    result["maps"] = {"signed": create_dynamic_map(True).tolist(), "unsigned": create_dynamic_map(False).tolist()}
    json.dump(result, sys.stdout, separators=(",", ":"))


main()
