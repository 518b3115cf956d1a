"""Trajectories of small models of several families, trained by Hugging Face transformers in float64 with eager attention.

Usage: python make_families.py FOLDER [NAME...]   (FOLDER is tests/golden; needs torch and transformers from PyPI)

Writes FOLDER/NAME with the files that README.md describes, without final.safetensors, for each of CASES or the named ones.
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
import transformers

STEPS, BATCH, LENGTH = 6, 8, 33
ADAM = dict(lr=2e-3, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1, clip=1.0)
SIZES = dict(
    vocab_size=80, hidden_size=32, intermediate_size=32, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
    max_position_embeddings=128, rms_norm_eps=1e-6, initializer_range=0.08, bos_token_id=1, eos_token_id=2, pad_token_id=None)


def rotation(theta, **more):
    return dict(rope_parameters=dict(rope_type="default", rope_theta=theta, **more))


# Name: seed, class names' beginning, settings beside SIZES. Each differs from Llama in all that its family can differ in.
CASES = {
    "smollm3_tiny": (51, "SmolLM3", dict(
        rotation(1e5), no_rope_layers=[1, 0, 1, 0], use_sliding_window=True, sliding_window=9,
        layer_types=["full_attention", "full_attention", "sliding_attention", "sliding_attention"], tie_word_embeddings=True)),
    "granite_tiny": (52, "Granite", dict(
        rotation(1e4), embedding_multiplier=6.0, residual_multiplier=0.3, attention_multiplier=0.2, logits_scaling=3.0,
        attention_bias=True, mlp_bias=True, tie_word_embeddings=True)),
    "olmo2_tiny": (53, "Olmo2", dict(rotation(5e5), attention_bias=True, tie_word_embeddings=False)),
    "phi3_tiny": (54, "Phi3", dict(rotation(1e4, partial_rotary_factor=0.75), sliding_window=9, tie_word_embeddings=False)),
    "phi3_longrope_tiny": (55, "Phi3", dict(
        rope_parameters=dict(
            rope_type="longrope", rope_theta=1e4, partial_rotary_factor=0.75, short_factor=[1.0, 1.1, 1.3],
            long_factor=[1.0, 2.5, 6.0]),
        original_max_position_embeddings=16, tie_word_embeddings=True)),
    "seed_oss_tiny": (56, "SeedOss", dict(
        rotation(1e5), head_dim=8, attention_bias=True, attention_out_bias=False, mlp_bias=True, attention_dropout=0.0,
        residual_dropout=0.0, tie_word_embeddings=False)),
}


def make_model(family, settings):
    config = getattr(transformers, family + "Config")(**dict(SIZES, **settings))
    config._attn_implementation = "eager"
    model = getattr(transformers, family + "ForCausalLM")(config).float()
    for parameter in model.parameters():  # norms away from 1, biases from 0
        if parameter.dim() == 1:
            parameter.data += 0.05 * torch.randn_like(parameter)
    return model


def make_rows(vocabulary):
    """Rows in which each id depends on the one before, so that there is something to learn."""
    ids = torch.randint(3, vocabulary, (STEPS, BATCH, LENGTH))
    for position in range(1, LENGTH):
        ids[..., position] = 3 + (3 * ids[..., position - 1] + torch.randint(0, 3, (STEPS, BATCH))) % (vocabulary - 3)
    return ids


def gradient_norms(model):
    return {name: parameter.grad.norm() for name, parameter in model.named_parameters()}


def describe_first(logits, norms):
    """The norms and some logits of the first step, as trajectory.json has them."""
    positions = [0, 7, LENGTH - 2]
    values = [logits[0, position, :16].tolist() for position in positions]
    return dict(
        first_grad_norms={name: value.item() for name, value in norms.items()},
        first_logits=dict(sequence=0, position=positions, values=values))


def clip(model, norm):
    if norm > ADAM["clip"]:
        for parameter in model.parameters():
            parameter.grad *= ADAM["clip"] / norm


def train(model, ids):
    wide, others = ([p for p in model.parameters() if (p.dim() > 1) == is_wide] for is_wide in (True, False))
    groups = [dict(params=wide, weight_decay=ADAM["weight_decay"]), dict(params=others, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=ADAM["lr"], betas=tuple(ADAM["betas"]), eps=ADAM["eps"])
    steps, first = [], {}
    for step in range(STEPS):
        logits = model(input_ids=ids[step][:, :-1]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), ids[step][:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        norms = gradient_norms(model)
        norm = torch.stack(list(norms.values())).norm()
        if step == 0:
            first = describe_first(logits, norms)
        clip(model, norm)
        optimizer.step()
        steps.append(dict(loss=loss.item(), grad_norm=norm.item()))
    return dict(first, steps=steps)


def save(folder, name, ids, result):
    """Writes the rows and the trajectory beside the model."""
    rows = [json.dumps(dict(input_ids=row.tolist())) + "\n" for row in ids.view(-1, LENGTH)]
    (folder / name / "train.jsonl").write_text("".join(rows))
    trajectory = dict(
        source=f"transformers {transformers.__version__}, torch {torch.__version__}, float64, eager attention",
        optimizer=dict(ADAM, name="AdamW, no weight decay of vectors"), global_batch=BATCH, num_steps=STEPS, seq_len=LENGTH - 1, **result)
    (folder / name / "trajectory.json").write_text(json.dumps(trajectory, indent=1) + "\n")
    print(name, result["steps"][0], result["steps"][-1])


def make(folder, name):
    seed, family, settings = CASES[name]
    torch.manual_seed(seed)
    model = make_model(family, settings)
    model.save_pretrained(folder / name)
    ids = make_rows(SIZES["vocab_size"])
    save(folder, name, ids, train(model.double().train(), ids))


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or CASES:
        make(folder, name)


if __name__ == "__main__":
    main()
