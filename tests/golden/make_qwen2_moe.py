"""Writes qwen2_moe_tiny: a small Qwen2-MoE with random weights, and what training it in float64 by Hugging Face transformers gives.
Usage: python make_qwen2_moe.py FOLDER"""
import json
import pathlib
import sys

import torch
import transformers

folder = pathlib.Path(sys.argv[1])
steps, sequences, tokens, vocabulary = 6, 8, 33, 160
torch.manual_seed(31)
config = transformers.Qwen2MoeConfig(
    vocab_size=vocabulary, hidden_size=32, intermediate_size=40, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=128, rms_norm_eps=1e-6, initializer_range=0.08, bos_token_id=1,
    eos_token_id=2, pad_token_id=None, rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    num_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, shared_expert_intermediate_size=24,
    norm_topk_prob=False, decoder_sparse_step=1, mlp_only_layers=[2], router_aux_loss_coef=0.02, tie_word_embeddings=False)
config._attn_implementation = "eager"
config._experts_implementation = "eager"
model = transformers.Qwen2MoeForCausalLM(config).float()
with torch.no_grad():
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter += 0.05 * torch.randn_like(parameter)
model.save_pretrained(folder)
model = model.double().train()

ids = torch.randint(3, vocabulary, (steps, sequences, tokens))
for place in range(1, tokens):  # what a small model can learn
    ids[..., place] = (3 * ids[..., place - 1] + torch.randint(0, 3, (steps, sequences))) % (vocabulary - 3) + 3

settings = {"lr": 2e-3, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1, "clip": 1.0}
named = dict(model.named_parameters())
optimizer = torch.optim.AdamW(
    [{"params": [p for p in named.values() if p.dim() > 1], "weight_decay": settings["weight_decay"]},
     {"params": [p for p in named.values() if p.dim() == 1], "weight_decay": 0.0}],
    lr=settings["lr"], betas=tuple(settings["betas"]), eps=settings["eps"])




def expert_norms(name, grad):
    prefix = name.rsplit(".", 1)[0]
    for expert, one in enumerate(grad):
        if name.endswith("gate_up_proj"):
            gate, up = one.chunk(2)
            yield f"{prefix}.{expert}.gate_proj.weight", gate.norm().item()
            yield f"{prefix}.{expert}.up_proj.weight", up.norm().item()
        else:
            yield f"{prefix}.{expert}.down_proj.weight", one.norm().item()


def balance(router_logits):
    """Hugging Face's balancing loss of each sequence by itself, over the tokens of all routed layers; the mean."""
    experts, total = config.num_experts, 0
    for sequence in range(sequences):
        logits = torch.cat([layer.reshape(sequences, tokens - 1, experts)[sequence] for layer in router_logits])
        shares = torch.softmax(logits, -1)
        chosen = torch.zeros_like(shares).scatter_(1, shares.topk(config.num_experts_per_tok).indices, 1.0)
        total = total + experts * (chosen.mean(0) * shares.mean(0)).sum()
    return total / sequences


trajectory = {
    "source": f"transformers {transformers.__version__}, torch {torch.__version__}, float64, eager attention",
    "optimizer": {**settings, "name": "AdamW, decoupled weight decay on tensors of two or more dimensions only, bias-corrected"},
    "aux": {"coefficient": config.router_aux_loss_coef}, "steps": []}
for step in range(steps):
    out = model(input_ids=ids[step, :, :-1], output_router_logits=True)
    loss = torch.nn.functional.cross_entropy(out.logits.reshape(-1, vocabulary), ids[step, :, 1:].reshape(-1))
    aux = balance(out.router_logits)
    optimizer.zero_grad()
    (loss + config.router_aux_loss_coef * aux).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item()
    if step == 0:
        norms = trajectory["first_grad_norms"] = {}
        for name, parameter in named.items():
            if ".experts." in name:
                norms.update(expert_norms(name, parameter.grad))
            else:
                norms[name] = parameter.grad.norm().item()
    if norm > settings["clip"]:
        for parameter in named.values():
            parameter.grad *= settings["clip"] / norm
    optimizer.step()
    trajectory["steps"].append({"loss": loss.item(), "grad_norm": norm, "aux_loss": aux.item()})
with open(folder / "train.jsonl", "w") as rows:
    for row in ids.reshape(-1, tokens):
        rows.write(json.dumps({"input_ids": row.tolist()}) + "\n")
trajectory.update(global_batch=sequences, num_steps=steps, seq_len=tokens - 1)
(folder / "trajectory.json").write_text(json.dumps(trajectory, indent=1))
print(trajectory["steps"])
