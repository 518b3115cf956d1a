"""The trajectory in float64 of adapters on the small DeepSeek-V3 with multi-token prediction (make_mtp.py), whose further layer has
adapters too.

Usage: python -P make_mtp_adapters.py FOLDER   (FOLDER is tests/golden; needs torch and transformers from PyPI)

Writes FOLDER/adapters/deepseek_v3_mtp as make_adapters.py does. The files name the adapters of the further layer as published files name
its matrices. Everything else is frozen, that layer's norms and its matrix eh_proj too.
"""
import json
import pathlib
import sys

import safetensors.torch
import torch
import torch.nn.functional as F
import transformers

sys.path.append(str(pathlib.Path(__file__).parent))
import make_experts  # noqa: E402
import make_mtp  # noqa: E402

sys.path.pop()

STEPS, RANK, ALPHA = 4, 2, 4
ADAM = dict(lr=1e-2, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1, clip=1.0)
TARGETS = ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def load(root):
    """The model and its further layer, from the files that make_mtp.py wrote."""
    folder = root / make_mtp.NAME
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager",
                                                              experts_implementation="eager")
    further = make_mtp.Further(model.config).float()
    tensors, layer = safetensors.torch.load_file(folder / "model.safetensors"), model.config.num_hidden_layers
    state = {own: tensors[name] for own, name in further.names_in_files(layer).items() if ".mlp.experts." not in name}
    expert = lambda number, name: tensors[f"model.layers.{layer}.mlp.experts.{number}.{name}.weight"]  # noqa: E731
    numbers = range(model.config.n_routed_experts)
    state["layer.mlp.experts.gate_up_proj"] = torch.stack(
        [torch.cat([expert(number, "gate_proj"), expert(number, "up_proj")]) for number in numbers])
    state["layer.mlp.experts.down_proj"] = torch.stack([expert(number, "down_proj") for number in numbers])
    further.load_state_dict(state)
    return make_mtp.Both(model, further).double().train()


def name_in_files(name, layer):
    return name.removeprefix("model.").replace("further.layer.", f"model.layers.{layer}.") if name.startswith("further.") \
        else name.removeprefix("model.")


class Adapters:
    """The matrices A and B by the names of modules in files, and the parameters of Both with their products added."""

    def __init__(self, both):
        self.layer = both.model.config.num_hidden_layers
        self.base = {name: value.detach() for name, value in both.named_parameters()}
        self.matrices = {}
        for name, value in self.base.items():
            for module, part in self.modules(name, value):
                inputs, outputs = part.shape[1], part.shape[0]
                pair = torch.randn(RANK, inputs) * inputs**-0.5, torch.randn(outputs, RANK) * 0.05
                self.matrices[module] = [matrix.double().requires_grad_() for matrix in pair]

    def modules(self, name, value):
        """The adapted modules whose matrices a parameter holds, with their parts of it."""
        file_name = name_in_files(name, self.layer)
        if value.dim() == 3:
            prefix, names = file_name.rsplit(".", 1)[0], ("gate_proj", "up_proj") if name.endswith("gate_up_proj") else ("down_proj",)
            for expert in range(value.shape[0]):
                for module, part in zip(names, value[expert].chunk(len(names))):
                    yield f"{prefix}.{expert}.{module}", part
        elif name.split(".")[-2] in TARGETS and value.dim() == 2:
            yield file_name.removesuffix(".weight"), value

    def parameters(self):
        adapted = {}
        for name, value in self.base.items():
            products = [ALPHA / RANK * self.matrices[module][1] @ self.matrices[module][0] for module, _ in self.modules(name, value)]
            adapted[name] = value + torch.cat(products).reshape(value.shape) if products else value
        return adapted

    def save(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {f"base_model.model.{module}.lora_{end}.weight": matrix.detach().float().contiguous()
                   for module, pair in self.matrices.items() for end, matrix in zip("AB", pair)}
        safetensors.torch.save_file(tensors, folder / "adapter_model.safetensors", {"format": "pt"})
        config = dict(peft_type="LORA", task_type="CAUSAL_LM", base_model_name_or_path=None, r=RANK, lora_alpha=ALPHA,
                      lora_dropout=0.0, target_modules=TARGETS, bias="none", inference_mode=True)
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")


class Losses(torch.nn.Module):
    """Runs Both as a module, so that functional_call can replace its parameters."""

    def __init__(self, both):
        super().__init__()
        self.both = both

    def forward(self, tokens, targets):
        hidden = self.both.model.model(input_ids=tokens, use_cache=False).last_hidden_state
        logits = self.both.model.lm_head(hidden)
        further = self.both.further(self.both.model, hidden, targets)
        later = F.cross_entropy(further[:, :-1].flatten(0, 1), targets[:, 1:].flatten(), reduction="sum") / targets.numel()
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten()), later


def main():
    root = pathlib.Path(sys.argv[1])
    both = load(root)
    torch.manual_seed(91)
    adapters = Adapters(both)
    folder = root / "adapters" / "deepseek_v3_mtp"
    adapters.save(folder / "adapter")
    reference = json.loads((root / make_mtp.NAME / "trajectory.json").read_text())
    rows = [json.loads(line)["input_ids"] for line in open(root / make_mtp.NAME / "train.jsonl")]
    batch, weight, coefficient = reference["global_batch"], reference["mtp"]["weight"], reference["aux"]["coefficient"]
    trained = [matrix for pair in adapters.matrices.values() for matrix in pair]
    optimizer = torch.optim.AdamW(trained, lr=ADAM["lr"], betas=ADAM["betas"], eps=ADAM["eps"], weight_decay=ADAM["weight_decay"])
    choices, losses = make_experts.Choices(both), Losses(both)
    made = dict(model=make_mtp.NAME, source=f"transformers {transformers.__version__}, torch {torch.__version__}, float64, eager attention",
                optimizer=ADAM, global_batch=batch, mtp=dict(weight=weight), steps=[])
    for step in range(STEPS):
        choices.found.clear()
        ids = torch.tensor(rows[step * batch:(step + 1) * batch])
        parameters = {f"both.{name}": value for name, value in adapters.parameters().items()}
        logits, loss, later = torch.func.functional_call(losses, parameters, (ids[:, :-1], ids[:, 1:]))
        aux = make_experts.balance(choices.found, True)
        if step == 0:
            made["first_logits"] = dict(sequence=0, position=5, values=logits[0, 5, :16].tolist())
        optimizer.zero_grad()
        (loss + weight * later + coefficient * aux).backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, float("inf"))
        if norm > ADAM["clip"]:
            for matrix in trained:
                matrix.grad *= ADAM["clip"] / norm
        optimizer.step()
        made["steps"].append(dict(loss=loss.item(), grad_norm=norm.item(), aux_loss=aux.item(), mtp_loss=later.item()))
    (folder / "trajectory.json").write_text(json.dumps(made, indent=1) + "\n")
    print(made["steps"][0], made["steps"][-1])


if __name__ == "__main__":
    main()
