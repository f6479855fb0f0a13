"""Trains PyTorch modules with Heddle.

trainer = heddle.torch.Trainer(model, batch, torch.optim.AdamW(model.parameters()))
for batch in loader:
    print(trainer.step(batch).loss)
model.load_state_dict(trainer.state_dict())
"""

from heddle.torch.capture import Captured
from heddle.torch.emit import Module
from heddle.torch.errors import Problem, TorchError, UnsupportedError
from heddle.torch.exporter import Traced, export, export_program, report
from heddle.torch.trainer import Metrics, Trainer

__all__ = [
    "Captured",
    "Metrics",
    "Module",
    "Problem",
    "TorchError",
    "Traced",
    "Trainer",
    "UnsupportedError",
    "export",
    "export_program",
    "report",
]
