"""Trajectories of adapters on the small models of this folder, trained by peft and transformers in float64 with eager attention.

Usage: python make_adapters.py FOLDER [NAME...]   (FOLDER is tests/golden; needs torch, transformers and peft from PyPI)

Writes FOLDER/adapters/NAME with adapter/ (weights before training, in peft's format) and trajectory.json, for each of CASES or
the named ones. The model, and the rows of a step, are those of FOLDER/MODEL. first_logits are those of the model with the
adapter, before training.
"""
import json
import pathlib
import sys

import peft
import torch
import torch.nn.functional as F
import transformers

STEPS = 4
ADAM = dict(lr=1e-2, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1, clip=1.0)
# Name: the model, and the settings of its adapter.
CASES = {
    "gpt2": ("gpt2_tiny", dict(r=3, lora_alpha=5, target_modules=["c_attn", "c_proj", "c_fc"], fan_in_fan_out=True)),
    "phi3": ("phi3_tiny", dict(r=4, lora_alpha=8, target_modules="all-linear", use_rslora=True)),
    "gemma3": ("gemma3_tiny", dict(r=4, lora_alpha=4, target_modules=["q_proj", "v_proj", "o_proj", "down_proj"])),
    "granite": ("granite_tiny", dict(r=2, lora_alpha=8, target_modules=["q_proj", "o_proj", "gate_proj", "down_proj"],
                                     rank_pattern={"o_proj": 5}, alpha_pattern={"gate_proj": 3}, layers_to_transform=[1, 3])),
    "llama3": ("llama3_tiny", dict(r=2, lora_alpha=4, target_modules="all-linear")),
    "llama3_dora": ("llama3_tiny", dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"],
                                        use_dora=True)),
    "gpt2_dora": ("gpt2_tiny", dict(r=3, lora_alpha=6, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, use_dora=True)),
    "granite_dora": ("granite_tiny", dict(r=2, lora_alpha=8, target_modules="all-linear", use_dora=True, use_rslora=True)),
    "olmo2": ("olmo2_tiny", dict(r=4, lora_alpha=8, target_modules=["k_proj", "up_proj", "down_proj"],
                                 modules_to_save=["lm_head", "embed_tokens"])),
}


def make(root, name):
    base, settings = CASES[name]
    model = transformers.AutoModelForCausalLM.from_pretrained(root / base, dtype=torch.float32, attn_implementation="eager")
    torch.manual_seed(71)
    model = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    for key, parameter in model.named_parameters():
        if "lora_B" in key:  # away from 0, so that A has gradients from the first step
            parameter.data += 0.02 * torch.randn_like(parameter)
        if "magnitude" in key:
            parameter.data *= 1 + 0.1 * torch.randn_like(parameter)
    folder = root / "adapters" / name
    model.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink(missing_ok=True)
    rows = [json.loads(line)["input_ids"] for line in open(root / base / "train.jsonl")]
    reference = json.loads((root / base / "trajectory.json").read_text())
    batch = reference["global_batch"]
    model = model.double().train()
    trained = [p for _, p in model.named_parameters() if p.requires_grad]
    steps = min(STEPS, len(rows) // batch)
    optimizer = torch.optim.AdamW(
        [dict(params=[p for p in trained if p.dim() > 1], weight_decay=ADAM["weight_decay"]),
         dict(params=[p for p in trained if p.dim() <= 1], weight_decay=0.0)], lr=ADAM["lr"], betas=ADAM["betas"], eps=ADAM["eps"])
    made = dict(model=base, source=f"peft {peft.__version__}, transformers {transformers.__version__}, torch {torch.__version__}, "
                "float64, eager attention", optimizer=ADAM, global_batch=batch, steps=[])
    for step in range(steps):
        ids = torch.tensor(rows[step * batch:(step + 1) * batch])
        logits = model(input_ids=ids[:, :-1]).logits
        if step == 0:
            made["first_logits"] = dict(sequence=0, position=5, values=logits[0, 5, :16].tolist())
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), ids[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, ADAM["clip"])
        optimizer.step()
        made["steps"].append(dict(loss=loss.item(), grad_norm=norm.item()))
    (folder / "trajectory.json").write_text(json.dumps(made, indent=1) + "\n")
    print(name, made["steps"][0], made["steps"][-1])


if __name__ == "__main__":
    for case in sys.argv[2:] or CASES:
        make(pathlib.Path(sys.argv[1]), case)
