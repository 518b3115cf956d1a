"""A LoRA adapter of PEFT around a module of transformers: the folders by which base and adapter reach the engine, and its return."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file

from ..errors import InputError

_WEIGHTS = "adapter_model.safetensors"
_TRAINED = ".modules_to_save."  # in the name of a parameter: a whole module that PEFT trains beside the adapter


def is_peft(model: Any) -> bool:
    return type(model).__module__.partition(".")[0] == "peft" or hasattr(model, "peft_config")


def base_of(model: Any) -> Any:
    """Returns the model of transformers inside of a peft model, and any other model as it is."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def refuse_adapter(model: Any, args: transformers.TrainingArguments) -> None:
    """Refuses, by name, adapters that the engine does not train as PEFT does. Raises InputError."""
    if not hasattr(model, "get_base_model"):
        raise InputError("model: has an adapter of its own (add_adapter); give the peft model that peft.get_peft_model returns")
    names = list(model.peft_config)
    if len(names) != 1:
        raise InputError(f"model: has the adapters {', '.join(names)}; the engine trains one: give a peft model with one")
    config = model.peft_config[names[0]]
    kind = getattr(config.peft_type, "value", config.peft_type)
    if kind != "LORA":
        raise InputError(f"model: an adapter of the type {kind}; the engine trains LoRA, rsLoRA and DoRA")
    if getattr(config, "use_dora", False) and args.weight_decay:
        raise InputError(f"TrainingArguments(weight_decay={args.weight_decay!r}): would decay the magnitudes of DoRA too, which the engine "
                         "does not; use weight_decay=0")  # fmt: skip
    base = base_of(model)
    if getattr(base, "is_quantized", False) or getattr(base, "hf_quantizer", None) is not None:
        raise InputError("model: its base is quantised; load it without a quantization_config, and give layout=dict(base_precision='nf4')")
    for name, parameter in model.named_parameters():
        trained = ".lora_" in name or _TRAINED in name
        if parameter.requires_grad != trained:
            raise InputError(f"the parameter {name} is {'frozen' if trained else 'trained'}, and the engine would "
                             f"{'train' if trained else 'freeze'} it; set its requires_grad")  # fmt: skip


def _base_weights(model: Any) -> dict[str, torch.Tensor]:
    """Returns the weights of the base, by the names that they have without an adapter."""
    weights: dict[str, torch.Tensor] = {}
    for name, tensor in base_of(model).state_dict().items():
        if ".lora_" in name or _TRAINED in name:
            continue
        weights[name.replace(".base_layer.", ".").replace(".original_module.", ".")] = tensor
    return weights


def save_base_and_adapter(model: Any, base: Path, adapter: Path) -> None:
    """Writes two folders: the base as transformers saves it, the adapter as PEFT does."""
    base_of(model).save_pretrained(base, state_dict=_base_weights(model))
    (name,) = model.peft_config
    model.save_pretrained(adapter, selected_adapters=[name], save_embedding_layers=False)
    if name != "default":  # PEFT puts adapters with other names into folders of their own
        for file in (adapter / name).iterdir():
            file.rename(adapter / file.name)


def load_adapter(model: Any, folder: Path) -> None:
    """Copies the weights of an adapter's folder into the peft model, in place."""
    import peft

    (name,) = model.peft_config
    missing = peft.set_peft_model_state_dict(model, load_file(folder / _WEIGHTS), adapter_name=name)
    if missing.unexpected_keys:
        raise InputError(f"{folder}: has {missing.unexpected_keys[0]}, which the peft model has not")
