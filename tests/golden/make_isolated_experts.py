"""Trajectories of models with routed experts on samples of isolated documents, in float64: each document is a sequence of its own, in
attention and positions as in the balancing loss.

Usage: python -P make_isolated_experts.py FOLDER   (FOLDER is tests/golden; needs torch and transformers from PyPI)

Writes FOLDER/isolated/MODEL/trajectory.json for each of CASES. The rows of a step are those of FOLDER/MODEL, cut into the documents that
begin at `documents`; the last token of a document has no label. `loss` is the mean over the labels of the step, `aux_loss` the mean over
its documents of the balancing loss of all routed layers together. With "layer", each layer has a balancing loss of its own, and they are
added; `z_loss` is the mean over documents of the mean square of the log-sum-exp of a layer's logits, added over layers.
"""
import json
import pathlib
import sys

import torch
import transformers

STEPS = 4
CASES = {
    "mixtral_tiny": dict(aux=0.1, z=0.0, scope="model"),
    "qwen2_moe_tiny": dict(aux=0.1, z=0.02, scope="layer"),
}


def begins(row, length):
    """Where the documents of a row begin; some have one token."""
    found, at = [], 0
    while at < length:
        found.append(at)
        at += 1 + (5 * row + 7 * len(found)) % 13
    return found


def losses(config, router_logits, scope):
    """The balancing loss and the z-loss of one document."""
    experts, layers = config.num_local_experts if hasattr(config, "num_local_experts") else config.num_experts, list(router_logits)
    balance = 0
    for logits in [torch.cat(layers)] if scope == "model" else layers:
        shares = torch.softmax(logits, -1)
        chosen = torch.zeros_like(shares).scatter_(1, shares.topk(config.num_experts_per_tok).indices, 1.0)
        balance = balance + experts * (chosen.mean(0) * shares.mean(0)).sum()
    return balance, sum(torch.logsumexp(logits, -1).square().mean() for logits in layers)


def make(root, name, settings):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        root / name, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").double().train()
    reference = json.loads((root / name / "trajectory.json").read_text())
    rows = [json.loads(line)["input_ids"] for line in open(root / name / "train.jsonl")]
    batch, adam = reference["global_batch"], reference["optimizer"]
    trained = list(model.parameters())
    optimizer = torch.optim.AdamW(
        [dict(params=[p for p in trained if p.dim() > 1], weight_decay=adam["weight_decay"]),
         dict(params=[p for p in trained if p.dim() <= 1], weight_decay=0.0)], lr=adam["lr"], betas=adam["betas"], eps=adam["eps"])
    documents = [begins(row, len(rows[0]) - 1) for row in range(STEPS * batch)]
    made = dict(model=name, source=f"transformers {transformers.__version__}, torch {torch.__version__}, float64, eager attention",
                optimizer=adam, global_batch=batch, aux=settings, documents=documents, steps=[])
    for step in range(STEPS):
        cross, labels, balance, z, count = 0, 0, 0, 0, 0
        for row in range(step * batch, (step + 1) * batch):
            for begin, end in zip(documents[row], documents[row][1:] + [len(rows[row]) - 1]):
                ids = torch.tensor([rows[row][begin:end]])
                out = model(input_ids=ids, output_router_logits=True)
                if end - begin > 1:
                    cross = cross + torch.nn.functional.cross_entropy(out.logits[0, :-1], ids[0, 1:], reduction="sum")
                own = losses(model.config, out.router_logits, settings["scope"])
                labels, balance, z, count = labels + end - begin - 1, balance + own[0], z + own[1], count + 1
        loss, balance, z = cross / labels, balance / count, z / count
        optimizer.zero_grad()
        (loss + settings["aux"] * balance + settings["z"] * z).backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, float("inf")).item()
        if norm > adam["clip"]:
            for parameter in trained:
                parameter.grad *= adam["clip"] / norm
        optimizer.step()
        made["steps"].append(dict(loss=loss.item(), grad_norm=norm, aux_loss=balance.item(), z_loss=float(z)))
    folder = root / "isolated" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trajectory.json").write_text(json.dumps(made) + "\n")
    print(name, made["steps"][0], made["steps"][-1])


if __name__ == "__main__":
    for case, chosen in CASES.items():
        make(pathlib.Path(sys.argv[1]), case, chosen)
