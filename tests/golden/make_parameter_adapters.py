"""Trajectories in float64 of adapters of the parameters in which transformers 5 keeps all experts of a layer, as PEFT trains and
saves them (target_parameters): gate and up of an expert have one adapter together.

Usage: python -P make_parameter_adapters.py FOLDER [NAME...]   (FOLDER is tests/golden; needs torch, transformers and peft from PyPI)

Writes FOLDER/adapters/NAME as make_adapters.py does.
"""
import json
import pathlib
import sys

import peft
import torch

sys.path.append(str(pathlib.Path(__file__).parent))  # not for peft, which would take the folder bitsandbytes for a package
import make_expert_adapters as common  # noqa: E402

sys.path.pop()

# Name: the model, and PEFT's settings. The layer's number in the names of gpt_oss_parameters leaves the other layers without.
CASES = {
    "mixtral_parameters": ("mixtral_tiny", dict(r=2, lora_alpha=4, target_modules=["q_proj", "w1", "w2", "w3"])),
    "qwen3_moe_parameters": ("qwen3_moe_tiny", dict(r=3, lora_alpha=3, use_rslora=True, target_modules=["o_proj"],
                                                    target_parameters=["experts.gate_up_proj"])),
    "gpt_oss_parameters": ("gpt_oss_tiny", dict(r=2, lora_alpha=4, target_modules=["v_proj"],
                                                target_parameters=["1.mlp.experts.gate_up_proj", "1.mlp.experts.down_proj"],
                                                rank_pattern={"experts.down_proj": 3}, alpha_pattern={"gate_up_proj": 7})),
}


def make(root, name):
    base, settings = CASES[name]
    torch.manual_seed(74)
    model = common.load(root / base)
    adapted = peft.get_peft_model(model.float(), peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, **settings))
    for key, value in adapted.named_parameters():
        if "lora_B" in key: value.data += 0.05 * torch.randn_like(value)
    folder = root / "adapters" / name / "adapter"
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink()
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = None  # a path of the machine
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    adapted = adapted.double().train()
    trained = [value for value in adapted.parameters() if value.requires_grad]
    common.write(root, name, common.train(root, base, model, trained, lambda ids, **more: adapted(input_ids=ids, **more)))


if __name__ == "__main__":
    for case in sys.argv[2:] or CASES:
        make(pathlib.Path(sys.argv[1]), case)
