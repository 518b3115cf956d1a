"""The shape of ColossalAI's Booster, on the engine of pipetrain.

    booster = Booster(plugin=HybridParallelPlugin(tp_size=2, pp_size=2, num_microbatches=4, precision="bf16"))
    model, optimizer, criterion, loader, scheduler = booster.boost(model, optimizer, criterion, loader, scheduler)
    loss = booster.execute_pipeline(batches, model, criterion, optimizer, return_loss=True)["loss"]
    optimizer.step()

The engine applies a step within execute_pipeline(), at the learning rate that the optimizer has then.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import nn

from .errors import InputError, MisuseError
from .transformers import engine
from .transformers.layout import Layout
from .transformers.samples import longest_row
from .transformers.stages import StagesRun

_STYLES = {"1f1b": "1f1b", "interleaved": "interleaved", "zbv": "zb-v"}

# Arguments that change nothing that is computed here, or that only fp16 reads.
_WITHOUT_EFFECT = {
    "enable_all_optimization", "enable_fused_normalization", "enable_flash_attention", "enable_jit_fused", "enable_sequence_parallelism",
    "enable_sequence_overlap", "sequence_parallelism_mode", "parallel_output", "overlap_communication", "overlap_allgather",
    "zero_bucket_size_in_m", "ddp_bucket_cap_mb", "broadcast_buffers", "find_unused_parameters", "check_reduction", "static_graph",
    "gradient_as_bucket_view", "communication_dtype", "enable_metadata_cache", "initial_scale", "min_scale", "growth_factor",
    "backoff_factor", "growth_interval", "hysteresis", "max_scale", "make_vocab_size_divisible_by",
}  # fmt: skip


class HybridParallelPlugin:
    """The sizes of a run. All of it is in this process: dp_size, which ColossalAI takes from the number of processes, is given, and a batch
    is that of all replicas. options: further options of `pipetrain train`, such as dict(recompute="full")."""

    def __init__(
        self,
        tp_size: int = 1,
        pp_size: int = 1,
        *,
        dp_size: int = 1,
        precision: str = "fp32",
        zero_stage: int = 0,
        num_microbatches: int | None = None,
        microbatch_size: int | None = None,
        pp_style: str = "1f1b",
        num_model_chunks: int = 1,
        max_norm: float = 0,
        options: Mapping[str, Any] | None = None,
        **others: Any,
    ):
        for name, value in others.items():
            if name not in _WITHOUT_EFFECT and value not in (None, False):
                raise InputError(f"HybridParallelPlugin({name}={value!r}): is not built here; leave it out")
        if precision not in ("fp32", "bf16"):
            raise InputError(f"HybridParallelPlugin(precision={precision!r}): is not built here; use 'bf16' or 'fp32'")
        if pp_style not in _STYLES:
            raise InputError(f"HybridParallelPlugin(pp_style={pp_style!r}): use one of {', '.join(_STYLES)}")
        sizes: dict[str, Any] = {"pp": pp_size, "tp": tp_size, "dp": dp_size, "schedule": _STYLES[pp_style], **(options or {})}
        if zero_stage:
            sizes["zero"] = zero_stage
        if pp_style == "interleaved":
            sizes["chunks"] = num_model_chunks
        if num_microbatches is not None:  # it wins over microbatch_size
            sizes["microbatches"] = num_microbatches
        elif microbatch_size is not None:
            sizes["microbatch"] = microbatch_size
        self.layout, self.precision, self.max_norm = Layout(sizes), precision, max_norm

    def prepare_dataloader(
        self, dataset: Any, batch_size: int, shuffle: bool = False, seed: int = 1024, drop_last: bool = False, **kwargs: Any
    ) -> torch.utils.data.DataLoader:
        """batch_size is that of each replica."""
        draw = torch.Generator().manual_seed(seed)
        size = batch_size * self.layout.dp
        return torch.utils.data.DataLoader(dataset, size, shuffle=shuffle, drop_last=drop_last, generator=draw, **kwargs)


class BoostedModel(nn.Module):
    """Calls the module with the trained weights."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module
        self.run: engine.EngineRun | StagesRun | None = None

    def unwrap(self) -> nn.Module:
        """Returns the module, with the trained weights."""
        if isinstance(self.run, engine.EngineRun):
            self.run.give_back()
        return self.module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.unwrap()(*args, **kwargs)

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return self.unwrap().state_dict(*args, **kwargs)


class BoostedOptimizer:
    """The learning rates are those of the given optimizer, which a scheduler may change."""

    def __init__(self, given: torch.optim.Optimizer, on_engine: bool, module: nn.Module, max_norm: float):
        self.optim, self._on_engine, self._module, self._max_norm = given, on_engine, module, max_norm
        self.pending = False  #: a step has run, and step() has not been called

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optim.param_groups

    def step(self) -> None:
        """On the engine: confirms the step that execute_pipeline() has applied."""
        if not self.pending:
            raise MisuseError("optimizer.step(): there is no step; call execute_pipeline() first")
        self.pending = False
        if self._on_engine:
            self.optim._opt_called = True  # what a scheduler of PyTorch looks at
            return
        if self._max_norm:
            nn.utils.clip_grad_norm_(self._module.parameters(), self._max_norm)
        self.optim.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        if not self._on_engine:
            self.optim.zero_grad(set_to_none)


def _optimizer_options(given: torch.optim.Optimizer, model: nn.Module) -> dict[str, Any]:
    """Returns the options of the engine's AdamW that mean this optimizer. Raises InputError."""
    if type(given).__name__ not in ("AdamW", "HybridAdam", "FusedAdam"):
        raise InputError(f"optimizer: a {type(given).__name__}; the engine has AdamW: give torch.optim.AdamW")
    for key in ("lr", "betas", "eps"):
        if any(group[key] != given.param_groups[0][key] for group in given.param_groups):
            raise InputError(f"optimizer: its groups differ in {key}, and the engine has one for all; give the same")
    decays = {id(parameter): group["weight_decay"] for group in given.param_groups for parameter in group["params"]}
    decayed = set(transformers.Trainer.get_decay_parameter_names(None, model))
    rates = {decays.get(id(parameter), 0.0) for name, parameter in model.named_parameters() if name in decayed}
    for name, parameter in model.named_parameters():
        if id(parameter) not in decays:
            raise InputError(f"optimizer: it has no {name}, and the engine trains all; give it every parameter")
        if len(rates) > 1 or (name not in decayed and decays[id(parameter)] != 0):
            raise InputError(f"optimizer: {name} has weight decay {decays[id(parameter)]}; the engine decays matrices alike, and neither "
                             "norms nor biases: give those a group with weight_decay=0")  # fmt: skip
    betas = given.param_groups[0]["betas"]
    return {"optimizer": "adamw", "weight_decay": rates.pop(), "beta1": betas[0], "beta2": betas[1], "adam_eps": given.param_groups[0]["eps"]}


class Booster:
    """Raises InputError for what the engine does not follow. Families that it does not compute run as PyTorch stages."""

    def __init__(self, *, plugin: HybridParallelPlugin):
        if not isinstance(plugin, HybridParallelPlugin):
            raise InputError(f"plugin: a {type(plugin).__name__}; give HybridParallelPlugin(...)")
        self.plugin = plugin
        self._scratch = tempfile.TemporaryDirectory(prefix="pipetrain-")
        self._longest: int | None = None
        self._options: dict[str, Any] = {}

    def boost(self, model: nn.Module, optimizer: torch.optim.Optimizer, criterion: Callable | None = None, dataloader: Any = None,
              lr_scheduler: Any = None) -> tuple[BoostedModel, BoostedOptimizer, Callable | None, Any, Any]:  # fmt: skip
        on_engine = engine.refusal(model) is None
        if on_engine:
            self._options = _optimizer_options(optimizer, model)
        self._longest = longest_row(dataloader.dataset) if dataloader is not None else None
        boosted = BoostedModel(model)
        return boosted, BoostedOptimizer(optimizer, on_engine, model, self.plugin.max_norm), criterion, dataloader, lr_scheduler

    def execute_pipeline(
        self,
        data_iter: Iterator[Mapping[str, Any]],
        model: BoostedModel,
        criterion: Callable | None,
        optimizer: BoostedOptimizer,
        return_loss: bool = True,
        return_outputs: bool = False,
    ) -> dict[str, Any]:
        """Takes the next batch, and runs it as a step of microbatches. The loss is the mean over all labels that count."""
        if return_outputs:
            raise InputError("return_outputs: the stages keep no outputs of a step; call model(...) between steps")
        if optimizer.pending:
            raise MisuseError("execute_pipeline(): call optimizer.step() after each step; a larger batch takes the place of accumulation")
        inputs = next(data_iter)
        if model.run is None:
            self._check_criterion(model.module, criterion, inputs)
            model.run = self._begin(model.module, inputs)
        optimizer.pending = True
        if isinstance(model.run, StagesRun):
            with torch.autocast("cpu", torch.bfloat16, enabled=self.plugin.precision == "bf16"):
                loss = model.run.step([inputs])
        else:
            loss = model.run.step([inputs], optimizer.param_groups[0]["lr"]).loss
        return {"loss": torch.tensor(loss) if return_loss else None, "outputs": None}

    def _check_criterion(self, module: nn.Module, criterion: Callable | None, inputs: Mapping[str, Any]) -> None:
        """Throws where the criterion gives another loss than the model's own, which the engine computes."""
        if criterion is None:
            return
        one = {name: value[:1] for name, value in inputs.items()}
        with torch.no_grad():
            outputs = module.eval()(**one)
            wanted = criterion(outputs, one)
        module.train()
        if not torch.allclose(wanted.float(), outputs["loss"].float(), rtol=1e-4):
            raise InputError(f"criterion: gives {wanted.item():.6g} for a row whose loss by the model is {outputs['loss'].item():.6g}; the "
                             "stages compute the model's own: give lambda outputs, inputs: outputs.loss")  # fmt: skip

    def _begin(self, module: nn.Module, inputs: Mapping[str, Any]) -> engine.EngineRun | StagesRun:
        rows, width = inputs["input_ids"].shape
        layout = self.plugin.layout
        if rows % layout.dp:
            raise InputError(f"the batch has {rows} rows, which {layout.dp} replicas cannot share; give a multiple")
        batch = layout.batch(rows // layout.dp, 1)
        if not self._options:
            return StagesRun(module, layout, batch, inputs)
        options = {**engine.batch_options(batch), **self._options, "clip_grad": self.plugin.max_norm, "precision": self.plugin.precision}
        if not torch.cuda.is_available():
            options["device"] = "cpu"
        longest = max(self._longest or 0, width) - (engine.head_of(module) == "CausalLM")
        options = {**options, "steps": 1 << 30, **layout.options()}
        return engine.EngineRun(module, options, layout.sequence_length or longest, None, self._scratch.name)

    def save_model(self, model: BoostedModel, checkpoint: str | Path, shard: bool = False, **kwargs: Any) -> None:
        """Writes a folder of transformers."""
        model.unwrap().save_pretrained(checkpoint, **kwargs)
