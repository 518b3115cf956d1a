"""PyTorch modules as the stages of a pipeline.

    pipeline = pipetrain.torch.Pipeline(pieces, loss=torch.nn.functional.mse_loss, schedule="zb-h1", microbatches=8,
                                        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3))
    step = pipeline.step(inputs, targets)   # step.loss, step.grad_norm
"""

from .cut import cut_sequential
from .pipeline import Pipeline, Step
from .split_backward import SplitBackward
from .stage import TorchStage

__all__ = ["Pipeline", "SplitBackward", "Step", "TorchStage", "cut_sequential"]
