"""Models that classify, trained by Hugging Face transformers in float64. Usage: python make_classifiers.py FOLDER [NAME...]   (FOLDER is
tests/golden; needs torch and transformers from PyPI)

Writes FOLDER/NAME with the files that README.md describes, for each of CASES or the named ones. Rows have 5 to 24 ids and one of three
labels; in a step they are padded on the right, and the class is read at the last id that is not padding.
"""
import json
import pathlib
import sys

import torch
import torch.nn.functional as F
import transformers
from safetensors.torch import save_file

STEPS, BATCH, LONGEST, LABELS = 6, 8, 24, 3
ADAM = dict(lr=2e-3, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.01, clip=1.0)


SIZES = dict(hidden_size=32, num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=64, initializer_range=0.08,
             bos_token_id=1, eos_token_id=2, pad_token_id=0, num_labels=LABELS, attn_implementation="eager")
SMALL = dict(vocab_size=80, intermediate_size=32, num_hidden_layers=4, rms_norm_eps=1e-6)
# Name: seed, class names' beginning, settings beside SIZES.
CASES = {
    "llama_classify_tiny": (15, "Llama", dict(vocab_size=320, intermediate_size=88, num_hidden_layers=8, rms_norm_eps=1e-5, rope_theta=5e5)),
    "qwen3_classify_tiny": (61, "Qwen3", dict(SMALL, head_dim=4)),
    "olmo2_classify_tiny": (62, "Olmo2", dict(SMALL, initializer_range=0.3)),
    "phi3_classify_tiny": (63, "Phi3", SMALL),
}


def make_model(family, settings):
    config = getattr(transformers, family + "Config")(**dict(SIZES, **settings))
    model = getattr(transformers, family + "ForSequenceClassification")(config).float()
    for parameter in model.parameters():  # norms away from 1
        if parameter.dim() == 1:
            parameter.data += 0.05 * torch.randn_like(parameter)
    return model


def make_rows(vocabulary):
    ids = torch.zeros(STEPS, BATCH, LONGEST, dtype=torch.long)
    for row in ids.view(-1, LONGEST):
        length = int(torch.randint(5, LONGEST + 1, (1,)))
        row[:length] = torch.randint(3, vocabulary, (length,))
    return ids, torch.randint(0, LABELS, (STEPS, BATCH))


def train(model, ids, labels):
    decays, others = ([p for p in model.parameters() if (p.dim() > 1) == wide] for wide in (True, False))
    groups = [dict(params=decays, weight_decay=ADAM["weight_decay"]), dict(params=others, weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups, lr=ADAM["lr"], betas=tuple(ADAM["betas"]), eps=ADAM["eps"])
    for step in range(STEPS):
        logits = model(input_ids=ids[step], attention_mask=(ids[step] != 0).long()).logits
        loss = F.cross_entropy(logits, labels[step])
        optimizer.zero_grad()
        loss.backward()
        norm = torch.sqrt(sum((p.grad ** 2).sum() for p in model.parameters()))
        if norm > ADAM["clip"]:
            for parameter in model.parameters():
                parameter.grad *= ADAM["clip"] / norm
        optimizer.step()
        yield dict(loss=loss.item(), grad_norm=norm.item())


def make(folder, name):
    seed, family, settings = CASES[name]
    torch.manual_seed(seed)
    model = make_model(family, settings)
    model.save_pretrained(folder)
    ids, labels = make_rows(settings["vocab_size"])
    model = model.double().train()
    steps = list(train(model, ids, labels))
    rows = [dict(input_ids=[i for i in row.tolist() if i != 0], label=int(label)) for row, label in zip(ids.view(-1, LONGEST), labels.view(-1))]
    (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = f"transformers {transformers.__version__}, torch {torch.__version__}, float64, eager attention"
    trajectory = dict(source=source, optimizer=dict(ADAM, name="AdamW"), steps=steps, global_batch=BATCH, num_steps=STEPS)
    (folder / "trajectory.json").write_text(json.dumps(trajectory, indent=1) + "\n")
    if name == "llama_classify_tiny":
        save_file({name: p.detach().float().contiguous() for name, p in model.named_parameters()}, folder / "final.safetensors")
    print(name, steps[0], steps[-1])


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or CASES:
        make(folder / name, name)


if __name__ == "__main__":
    main()
