"""The layout of a run, and the batch that it divides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError

# Options of the program that the arguments of transformers decide, and the argument that does.
_DECIDED = {
    "model": "model",
    "init": "model",
    "adapter": "model: give a peft model",
    "lora_rank": "model: give a peft model",
    "data": "train_dataset",
    "eval_data": "eval_dataset",
    "split": "eval_dataset",
    "eval_interval": "eval_steps",
    "shuffle": "the sampler of train_dataset",
    "seed": "seed",
    "steps": "max_steps",
    "epochs": "num_train_epochs",
    "global_batch": "per_device_train_batch_size and gradient_accumulation_steps",
    "lr": "learning_rate",
    "min_lr": "lr_scheduler_kwargs",
    "lr_schedule": "lr_scheduler_type",
    "warmup_steps": "warmup_steps",
    "warmup_ratio": "warmup_ratio",
    "warmup_init_lr": "lr_scheduler_kwargs",
    "optimizer": "optim",
    "weight_decay": "weight_decay",
    "beta1": "adam_beta1",
    "beta2": "adam_beta2",
    "adam_eps": "adam_epsilon",
    "clip_grad": "max_grad_norm",
    "precision": "bf16",
    "save": "output_dir",
    "save_interval": "save_steps",
    "load": "train(resume_from_checkpoint=...)",
    "resume": "train(resume_from_checkpoint=...)",
    "log_interval": "logging_steps",
    "tensorboard": "report_to",
}


@dataclass(frozen=True)
class Batch:
    """A global batch of dp x microbatches x microbatch samples."""

    dp: int
    microbatches: int
    microbatch: int

    @property
    def size(self) -> int:
        return self.dp * self.microbatches * self.microbatch


class Layout:
    """Sizes and schedule of a run: `pp`, `tp`, `cp`, `dp`, `schedule`, `chunks`, `microbatches` or `microbatch`, `seq_len`; further keys
    are options of `pipetrain train` with underscores, such as `zero=1` and `recompute="selective"`. Raises InputError for a key that an
    argument of transformers decides."""

    def __init__(self, given: Mapping[str, Any] | None):
        self._given = dict(given or {})
        for key in self._given:
            if key in _DECIDED:
                raise InputError(f"layout: {key!r} is decided by {_DECIDED[key]}; leave it out of the layout")
        self.pp, self.dp = self._count("pp"), self._count("dp")
        self.sequence_length: int | None = self._count("seq_len") if "seq_len" in self._given else None
        self.schedule: str = self._given.get("schedule", "1f1b")

    def _count(self, key: str) -> int:
        value = self._given.get(key, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise InputError(f"layout: {key} is {value!r}; give a whole number of at least 1")
        return value

    def get(self, key: str, default: Any = None) -> Any:
        return self._given.get(key, default)

    def keys(self) -> list[str]:
        return list(self._given)

    def options(self) -> dict[str, Any]:
        """All but what batch() and the caller decide."""
        return {key: value for key, value in self._given.items() if key not in ("seq_len", "microbatch", "microbatches", "dp")}

    def batch(self, device_batch: int, accumulation: int) -> Batch:
        """Divides device_batch x accumulation samples of each replica into microbatches. Where the layout names no sizes, these are the
        batches of the device, divided further until there are two microbatches for each of several stages."""
        samples = device_batch * accumulation
        if "microbatches" in self._given:
            count = self._count("microbatches")
        elif "microbatch" in self._given:
            size = self._count("microbatch")
            if samples % size:
                raise InputError(f"layout: microbatch {size} does not divide the {samples} samples of a replica's step; {_parts(samples)}")
            count = samples // size
        else:
            wanted = 1 if self.pp == 1 else 2 * self.pp
            parts = [part for part in range(1, device_batch + 1) if device_batch % part == 0]
            count = accumulation * next((part for part in parts if accumulation * part >= wanted), device_batch)
        if samples % count:
            raise InputError(f"layout: microbatches {count} do not divide the {samples} samples of a replica's step; {_parts(samples)}")
        if "microbatch" in self._given and self._given["microbatch"] * count != samples:
            raise InputError(f"layout: microbatches {count} x microbatch {self._given['microbatch']} are not the {samples} samples of a "
                             "replica's step (per_device_train_batch_size x gradient_accumulation_steps); leave one of them out")  # fmt: skip
        return Batch(self.dp, count, samples // count)


def _parts(samples: int) -> str:
    return "use one of " + ", ".join(str(part) for part in range(1, samples + 1) if samples % part == 0)
