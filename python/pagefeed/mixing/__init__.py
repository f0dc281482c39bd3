"""Mixtures that learn: weights of datasets from the losses of a training.

- :class:`Policy`: anything that computes weights from losses: a class of your own, or
  one of `examples/policies`.
- :class:`Replacing`: lets a resumed run use a different policy than before.
- :class:`Learner`: adds up the losses of a training's datasets over all ranks, asks the
  policy, and sets the loader's weights, the same on every rank.
- :func:`token_losses`: losses of single tokens from a model's logits.
"""

from pagefeed._removed import refuse_removed_of
from pagefeed.mixing.learner import Learner, token_losses
from pagefeed.mixing.policy import Policy, Replacing

__all__ = [
    "Learner",
    "Policy",
    "Replacing",
    "token_losses",
]
refuse_removed_of(__name__)
