"""Cascades: whole models as the branches of one learner.

This file does not know what is inside a model, nor who decides which one runs.
"""

from collections.abc import Sequence

from torch import Tensor, nn

from quorate.nets.learner import Learner
from quorate.nets.recording import first_tensor

__all__ = ["WholeModel", "cascade"]


def cascade(models: Sequence[nn.Module], *, classes: int | None = None, inputs: Sequence[str] | None = None) -> Learner:
    """Whole models as the branches of one learner: the state is the input, and nothing else is carried on.

    With one model per exit and learner, a committee of cascades is an agreement cascade. One model is a learner
    with one exit.

    Args:
        models: classifiers of the same classes, the cheapest first. A learner stands for its last exit.
        classes: number of classes; where it is left out, the width of the models' last linear layer. Running a model
            that gives another number is an error.
        inputs: names of the tensors, for models that read them by name.

    Raises:
        ValueError: if there is no model, or the number of classes is unknown or not the same.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from quorate.nets import cascade
        >>> learner = cascade([nn.Linear(4, 3), nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3))])
        >>> learner.num_exits, learner.classes, learner.chained
        (2, 3, False)
    """
    if isinstance(models, nn.Module):
        raise TypeError(f"models must be a sequence of models, got one {type(models).__name__}; write [model]")
    models = list(models)
    if not models:
        raise ValueError("a cascade must have at least one model, got none")
    for model in models:
        if not isinstance(model, nn.Module):
            raise TypeError(f"the models of a cascade must be modules, got {type(model).__name__}")
    found = {_classes_of(model) for model in models} - {None} if classes is None else {classes}
    if len(found) != 1:
        raise ValueError(
            f"the models of a cascade must have the same number of classes, found {found or 'none'}; pass classes="
        )
    classes = int(next(iter(found)) or 0)
    branches = [WholeModel(model, inputs, classes, last=i == len(models) - 1) for i, model in enumerate(models)]
    return Learner(branches, classes, chained=False, inputs=inputs)


class WholeModel(nn.Module):
    """A model as a branch: it passes its input on, with its logits."""

    def __init__(self, model: nn.Module, inputs: Sequence[str] | None, classes: int, *, last: bool) -> None:
        super().__init__()
        self.model = model
        self.inputs = None if inputs is None else tuple(inputs)
        self.classes = classes
        self.last = last

    def forward(self, *state: Tensor) -> tuple[Tensor, ...]:
        named = self.inputs is not None and not isinstance(self.model, Learner)
        out = self.model(**dict(zip(self.inputs or (), state, strict=True))) if named else self.model(*state)
        logits = out[-1] if isinstance(self.model, Learner) else first_tensor(out)
        if logits is None or logits.dim() != 2 or logits.shape[1] != self.classes:
            given = "no tensor" if logits is None else f"shape {tuple(logits.shape)}"
            raise ValueError(
                f"a model of this cascade must give logits of shape [B, {self.classes}], got {given}; "
                "pass classes= to cascade if it has another number"
            )
        return (logits,) if self.last else (*state, logits)


def _classes_of(model: nn.Module) -> int | None:
    if isinstance(model, Learner):
        return model.classes
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return linear[-1].out_features if linear else None
