"""PyTorch modules as the stages of a pipeline.

    pipeline = pipetrain.torch.Pipeline(pieces, loss=torch.nn.functional.mse_loss, schedule="zb-h1", microbatches=8,
                                        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3))
    step = pipeline.step(inputs, targets)   # step.loss, step.grad_norm
    pipeline.evaluate(inputs, targets).loss
"""

from .cut import cut_sequential
from .evaluation import Evaluation
from .keywords import PerMicrobatch, Repeated
from .pipeline import Pipeline, Step
from .split_backward import SplitBackward
from .stage import TorchStage

__all__ = ["Evaluation", "PerMicrobatch", "Pipeline", "Repeated", "SplitBackward", "Step", "TorchStage", "cut_sequential"]
