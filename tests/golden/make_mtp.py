"""The trajectory of a small DeepSeek-V3 with multi-token prediction, trained in float64.

Usage: python make_mtp.py FOLDER   (FOLDER is tests/golden; needs torch and transformers from PyPI)

Writes FOLDER/deepseek_v3_mtp_tiny as make_experts.py does. transformers ignores the layer that predicts the token after the next
one, so that Further computes it, by section 2.2 of DeepSeek-V3's report, around one of transformers' decoder layers: a norm of the
model's final hidden state, a norm of the next token's embedding, a matrix that projects the two side by side, the layer, a norm and
the model's own head. `loss` is the cross-entropy of the model's own prediction, `mtp_loss` that of the further one, whose sum is
divided by the tokens of the own one, as in the report. `mtp.weight` times it is trained too, and is in the gradient norms.
"""
import pathlib
import sys

import torch
import torch.nn.functional as F
from make_experts import CASES, Choices, balance, is_vector, make_model
from make_families import ADAM, STEPS, clip, describe_first, gradient_norms, make_rows, save
from safetensors.torch import load_file, save_file
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as deepseek

NAME, SEED, WEIGHT, COEFFICIENT = "deepseek_v3_mtp_tiny", 81, 0.3, 0.02


class Further(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        norm = lambda: deepseek.DeepseekV3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)  # noqa: E731
        self.enorm, self.hnorm, self.final = norm(), norm(), norm()
        self.eh_proj = torch.nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.layer = deepseek.DeepseekV3DecoderLayer(config, config.num_hidden_layers)

    def forward(self, model, hidden, next_ids):
        embedded = model.model.embed_tokens(next_ids)
        joined = self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(hidden)], dim=-1))
        length = joined.shape[1]
        mask = torch.full((length, length), float("-inf"), dtype=joined.dtype).triu(1)[None, None]
        positions = torch.arange(length)[None]
        angles = model.model.rotary_emb(joined, positions)
        out = self.layer(joined, attention_mask=mask, position_ids=positions, position_embeddings=angles, use_cache=False)
        return model.lm_head(self.final(out[0] if isinstance(out, tuple) else out))

    def names_in_files(self, layer):
        """The names of the parameters in published files, by their names here."""
        names = {f"{own}.weight": f"{own}.weight" for own in ("enorm", "hnorm", "eh_proj")}
        names["final.weight"] = "shared_head.norm.weight"
        for name in self.state_dict():
            if name.startswith("layer."):
                names[name] = name.removeprefix("layer.")
        return {own: f"model.layers.{layer}.{name}" for own, name in names.items()}


class Both(torch.nn.Module):
    def __init__(self, model, further):
        super().__init__()
        self.model, self.further = model, further


def make_further(config):
    further = Further(config).float()
    further.apply(lambda module: reset(module, config.initializer_range))
    with torch.no_grad():
        for name, parameter in further.named_parameters():
            if is_vector(name, parameter):
                parameter += 0.05 * torch.randn_like(parameter)
        for name, buffer in further.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer += 0.05 * torch.randn_like(buffer)
    return further


def reset(module, deviation):
    for name, parameter in module.named_parameters(recurse=False):
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=deviation)
        else:
            torch.nn.init.constant_(parameter, 1.0 if name == "weight" else 0.0)
    for _, buffer in module.named_buffers(recurse=False):
        torch.nn.init.zeros_(buffer)


def train(both, ids, coefficient):
    named = dict(both.named_parameters())
    groups = [
        dict(params=[p for n, p in named.items() if is_vector(n, p) == vectors], weight_decay=0.0 if vectors else ADAM["weight_decay"])
        for vectors in (False, True)]
    optimizer = torch.optim.AdamW(groups, lr=ADAM["lr"], betas=tuple(ADAM["betas"]), eps=ADAM["eps"])
    choices, steps, first = Choices(both), [], {}
    for step in range(STEPS):
        choices.found.clear()
        tokens, targets = ids[step][:, :-1], ids[step][:, 1:]
        hidden = both.model.model(input_ids=tokens, use_cache=False).last_hidden_state
        logits = both.model.lm_head(hidden)
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        further = both.further(both.model, hidden, targets)
        later = F.cross_entropy(further[:, :-1].flatten(0, 1), targets[:, 1:].flatten(), reduction="sum") / targets.numel()
        aux = balance(choices.found, True)
        optimizer.zero_grad()
        (loss + WEIGHT * later + coefficient * aux).backward()
        norms = gradient_norms(both)
        norm = torch.stack(list(norms.values())).norm()
        if step == 0:
            first = describe_first(logits, norms)
        clip(both, norm)
        optimizer.step()
        steps.append(dict(loss=loss.item(), grad_norm=norm.item(), aux_loss=aux.item(), mtp_loss=later.item()))
    return dict(first, aux=dict(coefficient=coefficient), mtp=dict(weight=WEIGHT), steps=steps)


def add_to_files(folder, model, further):
    """Adds the layer as published files have it, with its copies of the embeddings and the head."""
    layer, tensors = model.config.num_hidden_layers, load_file(folder / "model.safetensors")
    names, state = further.names_in_files(layer), further.state_dict()
    for own, name in names.items():
        if ".mlp.experts." not in name:
            tensors[name] = state[own].contiguous()
    experts = further.layer.mlp.experts
    for expert in range(model.config.n_routed_experts):
        prefix = f"model.layers.{layer}.mlp.experts.{expert}."
        gate, up = experts.gate_up_proj[expert].detach().chunk(2)
        for name, matrix in dict(gate_proj=gate, up_proj=up, down_proj=experts.down_proj[expert].detach()).items():
            tensors[f"{prefix}{name}.weight"] = matrix.contiguous()
    tensors[f"model.layers.{layer}.embed_tokens.weight"] = tensors["model.embed_tokens.weight"].clone()
    tensors[f"model.layers.{layer}.shared_head.head.weight"] = tensors["lm_head.weight"].clone()
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def main():
    folder = pathlib.Path(sys.argv[1])
    _, family, _, settings = CASES["deepseek_v3_tiny"]
    torch.manual_seed(SEED)
    settings = dict(settings, num_nextn_predict_layers=1, router_aux_loss_coef=COEFFICIENT)
    model = make_model(family, settings)
    further = make_further(model.config)
    model.save_pretrained(folder / NAME)
    add_to_files(folder / NAME, model, further)
    ids = make_rows(model.config.vocab_size)
    save(folder, NAME, ids, train(Both(model, further).double().train(), ids, COEFFICIENT))


if __name__ == "__main__":
    main()
