"""Trajectories of small GPT-OSS and DeepSeek models, trained by Hugging Face transformers in float64 with eager attention.

Usage: python make_experts.py FOLDER [NAME...]   (FOLDER is tests/golden; needs torch and transformers from PyPI)

Writes FOLDER/NAME as make_families.py does, for each of CASES or the named ones. `loss` is the cross-entropy alone, `aux_loss` the
balancing loss of each sequence by itself over all routed layers; `coefficient` times it is trained too. Biases and other numbers
of a head or an expert do not decay, whatever their shape is in transformers.
"""
import pathlib
import sys

import torch
import torch.nn.functional as F
import transformers
from make_families import ADAM, BATCH, STEPS, clip, describe_first, gradient_norms, make_rows, save

SIZES = dict(
    vocab_size=80, hidden_size=32, num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=128, rms_norm_eps=1e-5,
    initializer_range=0.08, bos_token_id=1, eos_token_id=2, pad_token_id=None, tie_word_embeddings=False)
YARN = dict(rope_type="yarn", rope_theta=1e4, factor=4.0, beta_fast=8.0, beta_slow=1.0, original_max_position_embeddings=32)
LATENT = dict(
    num_key_value_heads=4, intermediate_size=48, moe_intermediate_size=16, n_routed_experts=8, num_experts_per_tok=3,
    n_shared_experts=2, first_k_dense_replace=1, kv_lora_rank=12, qk_nope_head_dim=10, qk_rope_head_dim=6, v_head_dim=8)

# Name: seed, class names' beginning, the balancing loss's coefficient, settings beside SIZES.
CASES = {
    "gpt_oss_tiny": (71, "GptOss", 0.02, dict(
        num_key_value_heads=2, head_dim=8, intermediate_size=32, num_local_experts=8, num_experts_per_tok=3, sliding_window=9,
        swiglu_limit=0.6, swiglu_alpha=1.5, router_aux_loss_coef=0.02, rope_parameters=dict(YARN, truncate=False),
        layer_types=["sliding_attention", "full_attention"] * 2)),
    "deepseek_v2_tiny": (72, "DeepseekV2", 0.0, dict(
        LATENT, q_lora_rank=None, topk_method="greedy", n_group=1, topk_group=1, routed_scaling_factor=1.0,
        rope_parameters=dict(YARN, mscale=0.707, mscale_all_dim=0.707))),
    "deepseek_v2_groups_tiny": (73, "DeepseekV2", 0.0, dict(
        LATENT, q_lora_rank=14, topk_method="group_limited_greedy", n_group=4, topk_group=2, routed_scaling_factor=2.5,
        rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=0.8))),
    "deepseek_v3_tiny": (74, "DeepseekV3", 0.0, dict(
        LATENT, q_lora_rank=14, n_group=4, topk_group=2, routed_scaling_factor=2.5, norm_topk_prob=True, rope_interleave=True,
        num_nextn_predict_layers=0, rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0))),
}


def is_vector(name, parameter):
    return parameter.dim() == 1 or name.endswith("_bias")


def make_model(family, settings):
    config = getattr(transformers, family + "Config")(**dict(SIZES, **settings))
    config._attn_implementation = config._experts_implementation = "eager"
    model = getattr(transformers, family + "ForCausalLM")(config).float()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # norms away from 1, biases from 0
            if is_vector(name, parameter):
                parameter += (0.5 if name.endswith("sinks") else 0.05) * torch.randn_like(parameter)
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer += 0.05 * torch.randn_like(buffer)
    return model


class Choices:
    """Records the logits and the choices of every router in a forward."""

    def __init__(self, model):
        self.found = []
        for name, module in model.named_modules():
            if type(module).__name__.endswith("TopKRouter") or type(module).__name__.endswith("TopkRouter"):
                module.register_forward_hook(lambda module, inputs, outputs: self.found.append((outputs[0], outputs[2])))


def balance(found, sigmoid):
    """The mean over sequences of experts x sum of (share of choices) x (mean score), over the tokens of all routed layers."""
    experts, total = found[0][0].shape[-1], 0
    for sequence in range(BATCH):
        scores, counts = [], []
        for logits, chosen in found:
            own = logits.reshape(BATCH, -1, experts)[sequence]
            score = own.sigmoid() if sigmoid else own.softmax(-1)
            scores.append(score / score.sum(-1, keepdim=True))
            counts.append(torch.zeros_like(own).scatter_(1, chosen.reshape(BATCH, -1, chosen.shape[-1])[sequence], 1.0))
        total = total + experts * (torch.cat(counts).mean(0) * torch.cat(scores).mean(0)).sum()
    return total / BATCH


def train(model, ids, coefficient, sigmoid):
    named = dict(model.named_parameters())
    groups = [
        dict(params=[p for n, p in named.items() if is_vector(n, p) == vectors], weight_decay=0.0 if vectors else ADAM["weight_decay"])
        for vectors in (False, True)]
    optimizer = torch.optim.AdamW(groups, lr=ADAM["lr"], betas=tuple(ADAM["betas"]), eps=ADAM["eps"])
    choices, steps, first = Choices(model), [], {}
    for step in range(STEPS):
        choices.found.clear()
        logits = model(input_ids=ids[step][:, :-1], use_cache=False).logits
        loss = F.cross_entropy(logits.flatten(0, 1), ids[step][:, 1:].flatten())
        aux = balance(choices.found, sigmoid)
        optimizer.zero_grad()
        (loss + coefficient * aux).backward()
        norms = gradient_norms(model)
        norm = torch.stack(list(norms.values())).norm()
        if step == 0:
            first = describe_first(logits, norms)
        clip(model, norm)
        optimizer.step()
        steps.append(dict(loss=loss.item(), grad_norm=norm.item(), aux_loss=aux.item()))
    return dict(first, aux=dict(coefficient=coefficient), steps=steps)


def make(folder, name):
    seed, family, coefficient, settings = CASES[name]
    torch.manual_seed(seed)
    model = make_model(family, settings)
    model.save_pretrained(folder / name)
    ids = make_rows(SIZES["vocab_size"])
    save(folder, name, ids, train(model.double().train(), ids, coefficient, family == "DeepseekV3"))


def main():
    folder = pathlib.Path(sys.argv[1])
    for name in sys.argv[2:] or CASES:
        make(folder, name)


if __name__ == "__main__":
    main()
