"""Refuses, by name, arguments of transformers that would change what is computed and that the engine does not follow."""

from __future__ import annotations

from typing import Any

import transformers

from ..errors import InputError
from .adapter import is_peft, refuse_adapter

OPTIMIZERS = {"adamw_torch": "adamw", "adamw_torch_fused": "adamw"}

# Arguments of TrainingArguments, and what to do without them.
_UNBUILT = {
    "fp16": "use bf16=True, or neither for fp32",
    "deepspeed": "give the sizes as layout=dict(pp=..., tp=..., dp=..., zero=...)",
    "fsdp": "give layout=dict(dp=..., zero=3)",
    "parallelism_config": "give the sizes as layout=dict(pp=..., tp=..., cp=..., dp=...)",
    "label_smoothing_factor": "leave it out",
    "neftune_noise_alpha": "leave it out",
    "auto_find_batch_size": "give layout=dict(microbatch=...) with a size that fits",
    "torch_compile": "leave it out",
    "use_liger_kernel": "leave it out",
}


def refuse_arguments(args: transformers.TrainingArguments) -> None:
    """Refuses what neither the engine nor torch stages follow. Raises InputError."""
    for name, advice in _UNBUILT.items():
        if getattr(args, name, None):
            raise InputError(f"TrainingArguments({name}={getattr(args, name)!r}): is not built here; {advice}")
    if args.world_size > 1:
        raise InputError(f"the launcher started {args.world_size} processes; start one, and give the sizes as layout=dict(pp=..., dp=...)")


def refuse_trainer(trainer: type, given: dict[str, Any]) -> None:
    """given: the arguments of Trainer() by name."""
    if given.get("compute_loss_func") is not None:
        raise InputError("compute_loss_func: the engine computes the model's own loss; leave it out")
    if trainer.compute_loss is not transformers.Trainer.compute_loss:
        raise InputError(f"{trainer.__name__}.compute_loss: the engine computes the model's own loss; leave the method out")


def refuse_for_engine(model: Any, args: transformers.TrainingArguments, given: dict[str, Any]) -> None:
    """Refuses what only torch stages follow."""
    optimizers = given.get("optimizers") or (None, None)
    if any(one is not None for one in optimizers) or given.get("optimizer_cls_and_kwargs") is not None:
        raise InputError(f"optimizers: the engine has its own; choose one by TrainingArguments(optim=...): {', '.join(OPTIMIZERS)}")
    name = getattr(args.optim, "value", args.optim)
    if name not in OPTIMIZERS:
        raise InputError(f"TrainingArguments(optim={name!r}): is not built here; use one of {', '.join(OPTIMIZERS)}")
    if args.optim_args:
        raise InputError(f"TrainingArguments(optim_args={args.optim_args!r}): is not built here; leave it out")
    if is_peft(model):
        refuse_adapter(model, args)
        return
    frozen = next((name for name, parameter in model.named_parameters() if not parameter.requires_grad), None)
    if frozen is not None:
        raise InputError(f"the parameter {frozen} is frozen, and the engine would train it; set its requires_grad")
