"""The trainer of Hugging Face's transformers, on the engine of pipetrain.

    from pipetrain.transformers import Trainer
    trainer = Trainer(model=model, args=args, train_dataset=rows, layout=dict(pp=2, tp=2, schedule="zb-h1"))
    trainer.train()
"""

from .layout import Layout
from .trainer import Trainer

__all__ = ["Layout", "Trainer"]
