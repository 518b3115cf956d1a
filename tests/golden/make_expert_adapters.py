"""Trajectories in float64 of adapters of routed experts, each expert's matrices with their own, as PEFT's files name them.

Usage: python -P make_expert_adapters.py FOLDER [NAME...]   (FOLDER is tests/golden; needs torch, transformers and peft from PyPI)

Writes FOLDER/adapters/NAME as make_adapters.py does. transformers 5 keeps a layer's experts in one parameter, whose adapter in PEFT
has one first matrix for gate and up together, so that PEFT cannot train the separate ones: here they are added to the parameters,
through which transformers' own model runs. Before anything is written, PEFT loads the files, and its logits must agree to 1e-6;
but of SHARED, since PEFT with transformers 5 leaves out the adapters of dense MLPs and shared experts that have the experts' names.
aux_loss is the balancing loss of each sequence by itself, over the tokens of all routed layers, the mean over the step's sequences.
"""
import json
import pathlib
import sys
import tempfile

import peft
import safetensors.torch
import torch
import torch.nn.functional as F
import transformers

sys.path.append(str(pathlib.Path(__file__).parent))  # not for peft, which would take the folder bitsandbytes for a package
import make_experts  # noqa: E402

sys.path.pop()

STEPS = 4
ADAM = dict(lr=1e-2, betas=[0.9, 0.95], eps=1e-8, weight_decay=0.1, clip=1.0)
NAMES = ("gate_proj", "up_proj", "down_proj")
LATENT = ["q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"]
# Name: the model, its adapter's rank, alpha and modules, and the names of experts' modules and their block in files.
CASES = {
    "mixtral": ("mixtral_tiny", 2, 4, ["q_proj", "v_proj", "w1", "w2", "w3"], ("w1", "w3", "w2"), "block_sparse_moe"),
    "qwen2_moe": ("qwen2_moe_tiny", 2, 4, ["k_proj", "gate_proj", "up_proj", "down_proj"], NAMES, "mlp"),
    "deepseek_v2": ("deepseek_v2_tiny", 3, 6, ["q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "lm_head"], NAMES, "mlp"),
    "deepseek_v3": ("deepseek_v3_tiny", 2, 4, LATENT + ["o_proj", "lm_head"], NAMES, "mlp"),
    "deepseek_v3_experts": ("deepseek_v3_tiny", 2, 4, LATENT + ["gate_proj", "up_proj", "down_proj"], NAMES, "mlp"),
    "olmoe": ("olmoe_tiny", 3, 3, ["o_proj", "gate_proj", "up_proj", "down_proj"], ("gate_proj", "up_proj", "down_proj"), "mlp"),
}

SHARED = ("qwen2_moe", "deepseek_v3_experts")


def load(path):
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation="eager",
                                                              experts_implementation="eager")
    return model.double().train()


class Adapter:
    """The matrices by the names that files give their modules, and the model's parameters with them."""

    def __init__(self, model, case):
        _, self.rank, self.alpha, self.targets, self.experts, self.block = case
        self.base = {name: value.detach() for name, value in model.named_parameters()}
        self.matrices = {}
        for name, value in self.base.items():
            leaf = name.split(".")[-2]
            if leaf in self.targets and value.dim() == 2:
                self.add(name.removesuffix(".weight"), *value.shape)
            elif leaf == "experts":
                layer = ".".join(name.split(".")[:3])
                inner = self.experts[2:] if name.endswith("down_proj") else self.experts[:2]
                for expert in range(value.shape[0]):
                    for module in inner:
                        if module in self.targets:
                            self.add(f"{layer}.{self.block}.experts.{expert}.{module}", value.shape[1] // len(inner), value.shape[2])

    def add(self, module, outputs, inputs):
        a, b = torch.randn(self.rank, inputs) * inputs**-0.5, torch.randn(outputs, self.rank) * 0.05
        self.matrices[module] = [m.double().requires_grad_() for m in (a, b)]

    def product(self, module):
        if module not in self.matrices: return 0
        a, b = self.matrices[module]
        return self.alpha / self.rank * b @ a

    def parameters(self):
        adapted = dict(self.base)
        for name, value in self.base.items():
            layer, leaf = ".".join(name.split(".")[:3]), name.split(".")[-2]
            if leaf != "experts":
                adapted[name] = value + self.product(name.removesuffix(".weight"))
                continue
            inner = self.experts[2:] if name.endswith("down_proj") else self.experts[:2]
            adapted[name] = torch.stack([
                torch.cat([part + self.product(f"{layer}.{self.block}.experts.{expert}.{module}")
                           for part, module in zip(value[expert].chunk(len(inner)), inner)])
                for expert in range(value.shape[0])])
        return adapted

    def save(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        tensors = {}
        for module, (a, b) in self.matrices.items():
            for end, matrix in (("A", a), ("B", b)):
                tensors[f"base_model.model.{module}.lora_{end}.weight"] = matrix.detach().float().contiguous()
        safetensors.torch.save_file(tensors, folder / "adapter_model.safetensors", {"format": "pt"})
        config = dict(peft_type="LORA", task_type="CAUSAL_LM", base_model_name_or_path=None, r=self.rank, lora_alpha=self.alpha,
                      lora_dropout=0.0, target_modules=self.targets, bias="none", inference_mode=True)
        (folder / "adapter_config.json").write_text(json.dumps(config, indent=1) + "\n")


def router_loss(out, choices, config, sequences):
    """The balancing loss, whose coefficient is 0 in models of DeepSeek, which do not return their routers' logits."""
    if getattr(out, "router_logits", None) is None: return make_experts.balance(choices.found, config.model_type == "deepseek_v3")
    return balance(out.router_logits, config, sequences)


def balance(router_logits, config, sequences):
    experts = getattr(config, "num_experts", None) or config.num_local_experts
    total = 0
    for sequence in range(sequences):
        logits = torch.cat([layer.reshape(sequences, -1, experts)[sequence] for layer in router_logits])
        shares = torch.softmax(logits, -1)
        chosen = torch.zeros_like(shares).scatter_(1, shares.topk(config.num_experts_per_tok).indices, 1.0)
        total = total + experts * (chosen.mean(0) * shares.mean(0)).sum()
    return total / sequences


def check_with_peft(path, adapter, ids, expected):
    with tempfile.TemporaryDirectory() as folder:
        adapter.save(pathlib.Path(folder))
        theirs = peft.PeftModel.from_pretrained(load(path), folder).double()
        with torch.no_grad(): off = (theirs(input_ids=ids).logits - expected).abs().max().item()
    assert off <= 1e-6, off
    return off


def train(root, base, model, trained, forward):
    """The record of some steps that train the tensors `trained`; forward(ids, **more) returns the adapted model's outputs."""
    rows = [json.loads(line)["input_ids"] for line in open(root / base / "train.jsonl")]
    batch = json.loads((root / base / "trajectory.json").read_text())["global_batch"]
    coefficient, choices = getattr(model.config, "router_aux_loss_coef", 0.0), make_experts.Choices(model)
    more = dict(output_router_logits=True) if coefficient > 0 else {}
    optimizer = torch.optim.AdamW(trained, lr=ADAM["lr"], betas=ADAM["betas"], eps=ADAM["eps"], weight_decay=ADAM["weight_decay"])
    made = dict(model=base, source=f"peft {peft.__version__}, transformers {transformers.__version__}, torch {torch.__version__}, "
                "float64, eager attention", optimizer=ADAM, global_batch=batch, steps=[])
    for step in range(min(STEPS, len(rows) // batch)):
        ids = torch.tensor(rows[step * batch:(step + 1) * batch])
        choices.found.clear()
        out = forward(ids[:, :-1], **more)
        loss = F.cross_entropy(out.logits.reshape(-1, out.logits.shape[-1]), ids[:, 1:].reshape(-1))
        aux = router_loss(out, choices, model.config, batch)
        optimizer.zero_grad()
        (loss + coefficient * aux).backward()
        norm = torch.nn.utils.clip_grad_norm_(trained, ADAM["clip"])
        optimizer.step()
        made["steps"].append(dict(loss=loss.item(), grad_norm=norm.item(), aux_loss=aux.item()))
    return made


def write(root, name, made):
    (root / "adapters" / name / "trajectory.json").write_text(json.dumps(made, indent=1) + "\n")
    print(name, made["steps"][0], made["steps"][-1])


def make(root, name):
    base = CASES[name][0]
    model = load(root / base)
    torch.manual_seed(73)
    adapter = Adapter(model, CASES[name])
    for matrices in adapter.matrices.values():  # as the file has them
        for m in matrices: m.data = m.data.float().double()
    trained = [m for matrices in adapter.matrices.values() for m in matrices]
    adapter.save(root / "adapters" / name / "adapter")
    checked = name in SHARED

    def forward(ids, **more):
        nonlocal checked
        out = torch.func.functional_call(model, adapter.parameters(), kwargs=dict(input_ids=ids, **more))
        if not checked:
            print(name, "PEFT's logits differ by", check_with_peft(root / base, adapter, ids, out.logits.detach()))
        checked = True
        return out

    write(root, name, train(root, base, model, trained, forward))


if __name__ == "__main__":
    for case in sys.argv[2:] or CASES:
        make(pathlib.Path(sys.argv[1]), case)
