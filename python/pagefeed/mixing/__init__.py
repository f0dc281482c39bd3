"""Mixtures that learn: weights of datasets from the losses of a training.

- :class:`Policy`: anything that computes weights from losses, such as :class:`ADO`,
  :class:`ExcessLoss`, :class:`FixedSchedule` or a class of your own.
- :class:`Replacing`: lets a resumed run use a different policy than before.
- :class:`Learner`: adds up the losses of a training's datasets over all ranks, asks the
  policy, and sets the loader's weights, the same on every rank.
- :func:`token_losses`: losses of single tokens from a model's logits.
"""

from pagefeed._names import name_as_imported
from pagefeed.mixing.ado import ADO
from pagefeed.mixing.excess_loss import ExcessLoss
from pagefeed.mixing.learner import Learner, token_losses
from pagefeed.mixing.policy import FixedSchedule, Policy, Replacing

__all__ = [
    "ADO",
    "ExcessLoss",
    "FixedSchedule",
    "Learner",
    "Policy",
    "Replacing",
    "token_losses",
]

name_as_imported(__name__)
