"""Folders and numbers of bitsandbytes' 4-bit normal floats.

Usage: python make_nf4.py FOLDER   (FOLDER is tests/golden/bitsandbytes; needs torch, transformers, accelerate and bitsandbytes from PyPI)

Writes FOLDER/nf4 and FOLDER/nf4_single, with and without double quantisation, and FOLDER/numbers.json.
"""
import json
import pathlib
import sys

import bitsandbytes.functional as bnb
import numpy
import torch
import transformers

SIZES = dict(
    vocab_size=80, hidden_size=64, intermediate_size=272, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=64, rms_norm_eps=1e-6, initializer_range=0.08, bos_token_id=1, eos_token_id=2, pad_token_id=None,
    tie_word_embeddings=False)


def fnv(values):
    """FNV-1a, 64 bits, of the bytes in memory."""
    code = 0xCBF29CE484222325
    for byte in values.contiguous().view(torch.uint8).numpy().tobytes():
        code = ((code ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return f"{code:016x}"


def write_folder(folder, nested):
    torch.manual_seed(71)
    config = transformers.LlamaConfig(**SIZES)
    plain = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
    plain.save_pretrained(folder)
    settings = transformers.BitsAndBytesConfig(
        load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=nested, bnb_4bit_compute_dtype=torch.float32)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, quantization_config=settings, dtype=torch.bfloat16, device_map={"": "cpu"})
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink()
    # The values of the quantised matrices in fp32, and the loss of a model that has them.
    codes = {}
    for name, module in model.named_modules():
        if hasattr(module.weight if hasattr(module, "weight") else None, "quant_state"):
            state = module.weight.quant_state
            state.dtype, shape = torch.float32, state.shape
            # Its kernels for CPUs take the scales of other blocks where 64 does not divide the rows' length; those for GPUs
            # see one long row, as here.
            state.shape = torch.Size([1, shape.numel()])
            values = bnb.dequantize_4bit(module.weight.data, state, quant_type="nf4").reshape(shape)
            codes[name + ".weight"] = fnv(values)
            plain.get_submodule(name).weight.data = values.double()
    plain = plain.double()
    rows = torch.randint(3, config.vocab_size, (4, 17))
    with torch.no_grad():
        logits = plain(rows[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, config.vocab_size), rows[:, 1:].reshape(-1)).item()
    with open(folder / "dequantised.json", "w") as out:
        json.dump({"fnv": codes, "rows": rows.tolist(), "loss": loss}, out, indent=1)


def drawn(count, seed):
    """Numbers that C++ draws too: the top 24 bits of a linear congruential generator, centred, cubed for long tails."""
    state, values = seed, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        values.append((state >> 40) / 2.0**23 - 1)
    values = numpy.array(values, numpy.float32)
    return torch.tensor(values * values * values)


def numbers(rows, columns, seed):
    values = drawn(rows * columns, seed).reshape(rows, columns)
    codes, state = bnb.quantize_4bit(values, blocksize=64, compress_statistics=False, quant_type="nf4")
    mean = state.absmax.mean()
    if mean != state.absmax.double().mean().float():  # bitsandbytes adds the scales in fp32
        return numbers(rows, columns, seed + 10)
    # With fp64 values, bitsandbytes on a CPU searches for the nearest code itself, as its GPU kernels do.
    scale_map = bnb.create_dynamic_map()
    scale_codes, group_scales = torch.ops.bitsandbytes.quantize_blockwise((state.absmax - mean).double(), scale_map, 256)
    nested = bnb.QuantState(
        absmax=scale_codes, shape=torch.Size([1, rows * columns]), dtype=torch.float32, blocksize=64, code=state.code, quant_type="nf4",
        offset=mean, state2=bnb.QuantState(absmax=group_scales, code=scale_map, blocksize=256, dtype=torch.float32))
    state.shape = nested.shape  # see write_folder()
    return {
        "rows": rows, "columns": columns, "seed": seed,
        "codes": fnv(codes), "scales": fnv(state.absmax), "scale_codes": fnv(scale_codes), "group_scales": fnv(group_scales),
        "mean": mean.item(),
        "values": fnv(bnb.dequantize_4bit(codes, nested, quant_type="nf4")),
        "values_single": fnv(bnb.dequantize_4bit(codes, state, quant_type="nf4")),
        "values_bf16": fnv(bnb.dequantize_4bit(codes, with_type(nested, torch.bfloat16), quant_type="nf4")),
    }


def with_type(state, dtype):
    state.dtype = dtype
    return state


def main():
    folder = pathlib.Path(sys.argv[1])
    write_folder(folder / "nf4", True)
    write_folder(folder / "nf4_single", False)
    cases = [numbers(64, 64, 1), numbers(96, 200, 2), numbers(300, 128, 3), numbers(2, 64, 4)]
    with open(folder / "numbers.json", "w") as out:
        json.dump({"map": fnv(bnb.create_dynamic_map()), "cases": cases}, out, indent=1)


main()
