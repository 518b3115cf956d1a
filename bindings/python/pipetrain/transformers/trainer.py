"""transformers.Trainer, whose steps run on the engine. Its loop, logs, callbacks, evaluation and folders are those of transformers."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.utils import logging

from ..errors import InputError
from . import engine, stages
from .layout import Layout
from .optimizer import EngineOptimizer
from .refusals import refuse_arguments, refuse_for_engine, refuse_trainer
from .samples import longest_row

logger = logging.get_logger(__name__)


class _EndOfTraining(transformers.TrainerCallback):
    """Runs before the callbacks of the user, so that these find the trained weights in the module."""

    def __init__(self, trainer: Trainer):
        self._trainer = trainer

    def on_train_end(self, args, state, control, **kwargs) -> None:
        self._trainer._end_run()


class Trainer(transformers.Trainer):
    """Takes the arguments of transformers.Trainer, and the sizes of the run as `layout` (see Layout).

    A replica's global batch is per_device_train_batch_size x gradient_accumulation_steps samples, in the order of the sampler of
    transformers. A last batch that is smaller is filled up with samples that count in no loss. The loss of a step is the mean over all
    its labels that count. The learning rate of each step is that of the scheduler of transformers.

    Where the engine does not compute the model's family, its layers run as PyTorch stages (pipetrain.torch) with the optimizer of transformers;
    a warning says so and why, and `torch_stages` is that reason.

    The module's weights are those of the engine after train(), and whenever the trainer evaluates, predicts or saves; in between,
    callbacks find older ones. Evaluation runs the module itself. checkpoint-N has the engine's weights and optimizer states in
    pipetrain/step-N in place of optimizer.pt.

    Raises InputError, before anything is trained, for arguments that the engine does not follow.
    """

    def __init__(self, *args: Any, layout: Mapping[str, Any] | None = None, **kwargs: Any):
        self._layout = Layout(layout)
        given = inspect.signature(transformers.Trainer.__init__).bind(self, *args, **kwargs).arguments
        self._run: engine.EngineRun | stages.StagesRun | None = None
        self._checkpoint: Path | None = None
        self._batches: list[Mapping[str, Any]] = []
        self._grad_norm = 0.0
        refuse_trainer(type(self), given)
        if given.get("args") is not None:
            refuse_arguments(given["args"])
            given["args"]._n_gpu = min(given["args"].n_gpu, 1)  # as transformers sets it for models that place themselves
        super().__init__(*args, **kwargs)
        self.torch_stages: str | None = engine.refusal(self.model)
        if self.torch_stages is None:
            refuse_for_engine(self.model, self.args, given)
        else:
            stages.refuse_for_stages(self._layout, self.args)
            super()._move_model_to_device(self.model, self.args.device)
            logger.warning(f"pipetrain: the model runs as {self._layout.pp} PyTorch stages, not on the engine: {self.torch_stages}")
        self._layout.batch(self.args.per_device_train_batch_size, self.args.gradient_accumulation_steps)
        self.callback_handler.callbacks.insert(0, _EndOfTraining(self))

    # The batch of the loader is that of all replicas. transformers assigns that of one device, or, before version 5, what it read here.

    @property
    def _train_batch_size(self) -> int:
        return self.args.per_device_train_batch_size * self._layout.dp

    @_train_batch_size.setter
    def _train_batch_size(self, size: int) -> None:
        pass

    # A module that the engine trains stays where it is.

    def _move_model_to_device(self, model: Any, device: torch.device) -> None:
        pass

    def _wrap_model(self, model: Any, training: bool = True, dataloader: Any = None) -> Any:
        return model

    def create_accelerator_and_postprocess(self) -> None:
        super().create_accelerator_and_postprocess()
        clip = self.accelerator.clip_grad_norm_

        def norm(*args: Any, **kwargs: Any) -> torch.Tensor:
            return torch.tensor(self._grad_norm) if self.torch_stages is None else clip(*args, **kwargs)  # the engine has clipped

        self.accelerator.clip_grad_norm_ = norm

    # The optimizer.

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        if self.torch_stages is not None:
            return super().create_optimizer(*args, **kwargs)
        if self.optimizer is None:
            decays = set(self.get_decay_parameter_names(self.model))
            named = list(self.model.named_parameters())
            groups = [
                {"params": [one for name, one in named if name in decays], "weight_decay": self.args.weight_decay},
                {"params": [one for name, one in named if name not in decays], "weight_decay": 0.0},
            ]
            self.optimizer = EngineOptimizer([group for group in groups if group["params"]], self.args.learning_rate)
        return self.optimizer

    # Steps.

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As transformers.Trainer.train(). A second call begins with the module's weights and new states of the optimizer."""
        self._checkpoint = None
        if self.torch_stages is None:
            self.optimizer = None
        self._batches.clear()
        try:
            return super().train(*args, **kwargs)
        finally:
            self._close_run()

    def training_step(self, model: Any, inputs: Mapping[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """Keeps a batch until the step is whole, then runs it. Returns the loss of the step with its last batch, and 0 before."""
        self._batches.append(self._prepare_inputs(inputs))
        if not self.accelerator.sync_gradients:
            return torch.zeros((), device=self.args.device)
        if self._run is None:
            self._run = self._begin_run()
        batches, self._batches = self._batches, []
        if isinstance(self._run, stages.StagesRun):
            with self.compute_loss_context_manager():
                return torch.tensor(self._run.step(batches), device=self.args.device)
        done = self._run.step(batches, self.optimizer.param_groups[0]["lr"])
        self._grad_norm = done.grad_norm
        return torch.tensor(done.loss, device=self.args.device)

    def _begin_run(self) -> engine.EngineRun | stages.StagesRun:
        batch = self._layout.batch(self.args.per_device_train_batch_size, self.args.gradient_accumulation_steps)
        if self.torch_stages is not None:
            return stages.StagesRun(self.model, self._layout, batch, self._batches[0])
        self.model.to("cpu")  # accelerate may have moved it, and the engine has the weights where it computes
        options = engine.engine_options(self.args, self._layout, batch, self.state.max_steps)
        Path(self.args.output_dir).mkdir(parents=True, exist_ok=True)
        run = engine.EngineRun(self.model, options, self._sequence_length(), self._checkpoint, self.args.output_dir)
        for note in run.notes:
            logger.warning(f"pipetrain: {note}")
        return run

    def _sequence_length(self) -> int:
        """The most tokens that a sample reads: the labels of a causal language model are the next tokens."""
        if self._layout.sequence_length is not None:
            return self._layout.sequence_length
        longest = longest_row(self.train_dataset)
        here = max((inputs["input_ids"].shape[1] for inputs in self._batches), default=0)
        if longest is None:
            raise InputError("train_dataset: its rows do not say how long the longest of them is; give layout=dict(seq_len=...)")
        return max(longest, here) - (engine.head_of(self.model) == "CausalLM")

    # Weights and states come back.

    def _end_run(self) -> None:
        """Gives the weights back and ends the run, if there is one."""
        self._give_back()
        self._close_run()

    def _close_run(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def _give_back(self) -> None:
        if isinstance(self._run, engine.EngineRun):
            self._run.give_back()

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> Any:
        self._give_back()
        places = {parameter.device for parameter in self.model.parameters()}
        if places == {self.args.device}:
            return super().evaluation_loop(*args, **kwargs)
        self.model.to(self.args.device)
        try:
            return super().evaluation_loop(*args, **kwargs)
        finally:
            self.model.to("cpu")

    def save_model(self, *args: Any, **kwargs: Any) -> None:
        self._give_back()
        super().save_model(*args, **kwargs)

    def _load_best_model(self) -> None:
        self._end_run()
        super()._load_best_model()

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self.torch_stages is not None:
            super()._save_optimizer_and_scheduler(output_dir)
            return
        self._run.save_checkpoint(Path(output_dir))
        torch.save(self.lr_scheduler.state_dict(), Path(output_dir) / "scheduler.pt")

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        if checkpoint is None or self.torch_stages is not None:
            super()._load_optimizer_and_scheduler(checkpoint)
            return
        self._checkpoint = engine.newest_checkpoint(checkpoint)
        folder = Path(checkpoint)
        if self._checkpoint is None and (folder / "optimizer.pt").exists():
            raise InputError(f"{checkpoint}: its optimizer states are PyTorch's, which the engine does not read; begin a run from its weights")
        if self._checkpoint is not None and (folder / "scheduler.pt").exists():
            self.lr_scheduler.load_state_dict(torch.load(folder / "scheduler.pt", weights_only=True))
            for group, rate in zip(self.optimizer.param_groups, self.lr_scheduler.get_last_lr(), strict=True):
                group["lr"] = rate  # which an optimizer of PyTorch would have kept in its own state
