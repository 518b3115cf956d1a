"""Compares the trajectories of preferences.json of an adapter with those of trl's DPOTrainer and KTOTrainer on the same rows.

Usage: python -P compare_with_trl.py FOLDER [NAME...]   (FOLDER is tests/golden; needs torch, transformers, peft and trl from PyPI)

Each adapter is trained from its first weights. "base": a new adapter as trl makes it, whose reference is the base; its weights
are set to those of the file after trl has chosen the reference. "begun": an adapter that trl goes on with, whose reference is
its copy. Fails where a loss differs by more than 1e-5 of itself, or a gradient norm by more than 1e-4.
"""
import json
import pathlib
import sys
import uuid

import datasets
import peft
import safetensors.torch
import tokenizers
import torch
import transformers
import trl

BATCH, END = 8, 256
# Nothing is cached, so that a name of its own does for a function that dill cannot pickle.
datasets.fingerprint.Hasher.hash = classmethod(lambda cls, value: uuid.uuid4().hex)


def byte_tokenizer():
    vocabulary = {chr(code): code for code in range(256)} | {"<end>": END}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<end>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    inner.decoder = tokenizers.decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<end>", pad_token="<end>")


def trainer_of(folder, name, loss, kind, out):
    made = folder / "adapters" / name
    base = folder / json.loads((made / "trajectory.json").read_text())["model"]
    golden = json.loads((made / "trajectory.json").read_text())["optimizer"]
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float64, attn_implementation="eager")
    settings = dict(output_dir=out, per_device_train_batch_size=BATCH, num_train_epochs=1, logging_steps=1, report_to=[],
                    learning_rate=golden["lr"], adam_beta1=golden["betas"][0], adam_beta2=golden["betas"][1],
                    adam_epsilon=golden["eps"], weight_decay=golden["weight_decay"], max_grad_norm=golden["clip"],
                    lr_scheduler_type="constant", train_sampling_strategy="sequential", save_strategy="no", use_cpu=True, bf16=False,
                    gradient_checkpointing=False, beta=0.1, max_length=None, disable_tqdm=True)
    config_type, trainer_type, rows = {
        "dpo": (trl.DPOConfig, trl.DPOTrainer, "pairs"), "kto": (trl.KTOConfig, trl.KTOTrainer, "completions")}[loss]
    data = datasets.Dataset.from_list([json.loads(line) for line in open(base / f"{rows}.jsonl")])
    common = dict(args=config_type(**settings), train_dataset=data, processing_class=byte_tokenizer())
    if kind == "base":
        config = peft.LoraConfig.from_pretrained(made / "adapter")
        config.inference_mode = False
        trainer = trainer_type(model=model, peft_config=config, **common)
        weights = safetensors.torch.load_file(made / "adapter" / "adapter_model.safetensors")
        peft.set_peft_model_state_dict(trainer.model, weights)
    else:
        trainer = trainer_type(model=peft.PeftModel.from_pretrained(model, made / "adapter", is_trainable=True), **common)
    trainer.model.double()
    return trainer


def compare(folder, name):
    runs = json.loads((folder / "adapters" / name / "preferences.json").read_text())["runs"]
    for run, golden in runs.items():
        loss, kind = run.split()
        trainer = trainer_of(folder, name, loss, kind, "/tmp/trl_comparison")
        trainer.train()
        logged = [entry for entry in trainer.state.log_history if "loss" in entry]
        assert len(logged) == len(golden["steps"]), (run, len(logged))
        worst = {}
        for step, theirs in zip(golden["steps"], logged):
            for key, limit in (("loss", 1e-5), ("grad_norm", 1e-4)):
                off = abs(theirs[key] / step[key] - 1)
                worst[key] = max(worst.get(key, 0), off)
                assert off <= limit, (name, run, key, theirs[key], step[key])
        print(f"{name} {run}: trl's {len(logged)} steps differ by at most " + ", ".join(f"{off:.1e} of the {key}" for key, off in worst.items()))


if __name__ == "__main__":
    for case in sys.argv[2:] or ["llama3"]:
        compare(pathlib.Path(sys.argv[1]), case)
