"""How far Hugging Face's own fp32 training strays from the float64 trajectories in tests/golden/.

python3 hf_golden_fp32.py FOLDER...    (torch, transformers, safetensors; a folder: model, train.jsonl, trajectory.json, final.safetensors)
"""

import json
import pathlib
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import LlamaForCausalLM


def train(folder):
    trajectory = json.loads((folder / "trajectory.json").read_text())
    settings, shape = trajectory["optimizer"], (trajectory["num_steps"], trajectory["global_batch"], -1)
    rows = [json.loads(line)["input_ids"] for line in (folder / "train.jsonl").read_text().splitlines()]
    model = LlamaForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).train()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": settings["weight_decay"]}, {"params": vectors, "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=settings["lr"], betas=settings["betas"], eps=settings["eps"])
    loss_off = norm_off = 0.0
    for ids, expected in zip(torch.tensor(rows).reshape(shape), trajectory["steps"]):
        logits = model(input_ids=ids[:, :-1]).logits
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        adamw.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
        adamw.step()
        loss_off = max(loss_off, abs(loss.item() / expected["loss"] - 1))
        norm_off = max(norm_off, abs(norm.item() / expected["grad_norm"] - 1))
    return model, loss_off, norm_off


for folder in map(pathlib.Path, sys.argv[1:]):
    model, loss_off, norm_off = train(folder)
    final = load_file(folder / "final.safetensors")
    strayed = {}
    for name, weight in model.named_parameters():
        off = (weight.detach() - final[name]).abs().flatten()
        strayed.update({f"{name}[{i}]": round(off[i].item(), 6) for i in (off > 1e-4).nonzero().flatten().tolist()})
    print(json.dumps({"golden": folder.name, "torch": torch.__version__, "loss_off": loss_off, "grad_norm_off": norm_off,
                      "weights_over_1e-4": strayed}))
