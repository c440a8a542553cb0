"""Exits on a network somebody else wrote, and cascades of whole models (paper, "Arch Adapter").

Shapes: ``B`` samples, ``C`` features; maps ``[B, C, H, W]``, sequences ``[B, T, C]``, vectors ``[B, C]``.

A network is cut at named submodules into branches that run separately, or given as stages. Its weights are shared,
never copied, and it stays usable as it was. What cannot be cut is refused; nothing is simulated by running everything.

This file does not know how a forward pass is recorded (:mod:`quorate.nets.tracing`) or cut
(:mod:`quorate.nets.cutting`).
"""

import copy
import difflib
import itertools
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from quorate.nets.comparing import batch_dimension, merged
from quorate.nets.cutting import cut
from quorate.nets.heads import make_head
from quorate.nets.learner import Inputs, Learner
from quorate.nets.tracing import BATCHES, Recording, first_tensor, record, tensor_at

__all__ = ["AdaptedLearner", "attach_exits", "cascade"]


class AdaptedBranch(nn.Module):
    """A piece of a network, which gives the next state and features, and the head that reads them."""

    def __init__(self, body: nn.Module, head: nn.Module, *, last: bool) -> None:
        super().__init__()
        self.body = body
        self.head = head
        self.last = last

    def forward(self, *state: Tensor) -> tuple[Tensor, ...]:
        *carried, features = self.body(*state)
        logits = self.head(features)
        return (logits,) if self.last else (*carried, logits)


class Stage(nn.Module):
    """A stage of the user's own: what it gives is both the next state and, its first tensor, the features."""

    def __init__(self, stage: nn.Module) -> None:
        super().__init__()
        self.stage = stage

    def forward(self, *state: Tensor) -> tuple[Tensor, ...]:
        out = self.stage(*state)
        carried = (out,) if isinstance(out, Tensor) else tuple(out)
        return (*carried, carried[0])


class AdaptedLearner(Learner):
    """A learner made of a network the user brought; see :func:`attach_exits`."""

    frozen: tuple[nn.Module, ...] = ()

    def train(self, mode: bool = True) -> "AdaptedLearner":
        super().train(mode)
        for module in self.frozen:
            module.eval()
        return self


def attach_exits(
    model: nn.Module | Sequence[nn.Module],
    exits: Sequence[str] | None = None,
    *,
    classes: int,
    sample: Inputs,
    token: Literal["mean", "first"] = "mean",
    freeze: bool = False,
    heads: Sequence[nn.Module] | None = None,
) -> Learner:
    """Make a learner of a network: cut it after named submodules, or take its stages as they are.

    With names, the exits are those and the network's own end. The last head is the network's own where it gives
    ``classes`` values, otherwise its last linear layer is replaced by a new one (in the learner, not in the network).

    Args:
        model: a network, or its stages in order, each reading what the one before it gives.
        exits: names of submodules (as in ``named_modules``) in the order in which they run; not with stages.
        classes: number of classes.
        sample: what the network reads: a tensor, or a tuple or dict of tensors, with samples first.
        token: what a head on a sequence reads, the ``mean`` of the tokens or the ``first`` one.
        freeze: whether only heads are trained: the network's other parameters need no gradient any more, and its
            batch norms stay in evaluation.
        heads: modules of your own, one per named exit (with stages: per stage), each from features to logits.

    Returns:
        A learner. Its parameters are the network's, and those of new heads.

    Raises:
        ValueError: if exits do not exist, are out of order or named twice, or the network cannot be cut; the message
            says where and what to do.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from quorate.nets import attach_exits
        >>> model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5))
        >>> x = torch.randn(2, 3, 8, 8)
        >>> learner = attach_exits(model, exits=["1"], classes=5, sample=x)
        >>> learner.num_exits, torch.equal(learner(x)[-1], model(x))
        (2, True)
    """
    inputs = _checked_sample(sample)
    names = tuple(map(str, sample)) if isinstance(sample, Mapping) else None
    if not isinstance(model, nn.Module):
        if isinstance(model, str) or not isinstance(model, Sequence):
            raise TypeError(f"model must be a module or a sequence of stages, got {type(model).__name__}")
        if exits is not None:
            raise ValueError("exits are named in a network; stages have one after each, so leave exits out")
        return _of_stages(list(model), classes, inputs, names, token, freeze, heads)
    named = _checked_exits(model, exits)
    plain, wide, other, train = (
        record(model, named, sample, batch=n, training=mode)
        for n, mode in ((BATCHES[0], False), (BATCHES[1], False), (BATCHES[2], False), (BATCHES[0], True))
    )
    _check_order(named, plain)
    recording = merged(plain, wide, other, train, BATCHES)
    last, replaced = _last_head(model, recording, classes, token)
    cuts = [*(recording.exits[name] for name in named), (recording.output, len(recording.calls))]
    segments = cut(model, recording, wide, cuts, len(inputs), BATCHES, replaced)
    shapes = [_shape(plain, wide, name, own=heads is not None) for name in named]
    new = [*_heads(shapes, classes, token, heads, inputs[0].device), last]
    branches = [AdaptedBranch(s, h, last=s is segments[-1]) for s, h in zip(segments, new, strict=True)]
    learner = AdaptedLearner(branches, classes, inputs=names)
    learner.train(model.training)
    _check_equal(model, learner, sample, replaced=bool(replaced) or not isinstance(last, nn.Identity))
    return _frozen(learner, replaced) if freeze else learner


def cascade(models: Sequence[nn.Module], *, classes: int | None = None, inputs: Sequence[str] | None = None) -> Learner:
    """Whole models as the branches of one learner: the state is the input, and nothing else is carried on.

    With one model per exit and learner, a committee of cascades is an agreement cascade. One model is a learner
    with one exit.

    Args:
        models: classifiers of the same classes, the cheapest first. A learner stands for its last exit.
        classes: number of classes; found from the last linear layer of the models where it is left out.
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
    found = {_classes_of(model) for model in models} - {None} if classes is None else {classes}
    if len(found) != 1:
        raise ValueError(
            f"the models of a cascade must have the same number of classes, found {found or 'none'}; pass classes="
        )
    branches = [WholeModel(model, inputs, last=i == len(models) - 1) for i, model in enumerate(models)]
    return Learner(branches, int(next(iter(found)) or 0), chained=False, inputs=inputs)


class WholeModel(nn.Module):
    """A model as a branch: it passes its input on, with its logits."""

    def __init__(self, model: nn.Module, inputs: Sequence[str] | None, *, last: bool) -> None:
        super().__init__()
        self.model = model
        self.inputs = None if inputs is None else tuple(inputs)
        self.last = last

    def forward(self, *state: Tensor) -> tuple[Tensor, ...]:
        named = self.inputs is not None and not isinstance(self.model, Learner)
        out = self.model(**dict(zip(self.inputs or (), state, strict=True))) if named else self.model(*state)
        logits = out[-1] if isinstance(self.model, Learner) else first_tensor(out)
        return (logits,) if self.last else (*state, logits)


def _checked_sample(sample: Inputs) -> tuple[Tensor, ...]:
    tensors = (
        (sample,) if isinstance(sample, Tensor) else tuple(sample.values() if isinstance(sample, Mapping) else sample)
    )
    if not tensors or not all(isinstance(t, Tensor) and t.dim() > 0 for t in tensors):
        raise TypeError("sample must be a tensor, or a tuple or dict of tensors, each with its samples first")
    rows = {t.shape[0] for t in tensors}
    if len(rows) > 1 or 0 in rows:
        raise ValueError(f"the tensors of a sample must have the same number of rows, at least one, got {sorted(rows)}")
    return tensors


def _checked_exits(model: nn.Module, exits: Sequence[str] | None) -> list[str]:
    if exits is None or isinstance(exits, str) or not exits:
        raise ValueError(f"exits must name submodules, such as ['layer1', 'layer2'], got {exits!r}")
    named, known = list(exits), [name for name, _ in model.named_modules() if name]
    for name in named:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3) or [name for name, _ in model.named_children()][:8]
            raise ValueError(f"the network has no submodule {name!r}; nearest: {', '.join(near)}")
    if len(set(named)) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise ValueError(f"each exit must be named once, got {twice!r} twice")
    return named


def _check_order(named: list[str], recording: Recording) -> None:
    order = sorted(named, key=lambda name: recording.exits[name][1])
    if order != named:
        raise ValueError(f"exits must be in the order in which they run, got {named}; use {order}")
    for one, name in itertools.pairwise(named):
        if recording.exits[one][1] == recording.exits[name][1]:
            raise ValueError(f"nothing runs between the exits {one!r} and {name!r}; name one of the two")
    if recording.exits[named[-1]][1] == len(recording.calls):
        raise ValueError(
            f"nothing runs after the exit {named[-1]!r}; the network's end is an exit already, leave it out"
        )


def _shape(plain: Recording, wide: Recording, name: str, *, own: bool) -> Sequence[int]:
    """The shape of what an exit shows, samples first; a head of one's own may read several rows per sample."""
    ref, _ = plain.exits[name]
    narrow = tensor_at(plain, ref)
    found = batch_dimension(narrow, tensor_at(wide, ref), BATCHES)
    if found is None or (found[1] > 1 and not own):
        raise ValueError(
            f"the exit {name!r} shows a tensor of shape {tuple(narrow.shape)} for {BATCHES[0]} samples, not one row "
            "for each; name another submodule, or pass heads= with modules of your own"
        )
    dim, each = found
    rest = [*narrow.shape[:dim], *narrow.shape[dim + 1 :]]
    return [BATCHES[0], *([each] if each > 1 else []), *rest]


def _heads(
    shapes: Sequence[Sequence[int]],
    classes: int,
    token: Literal["mean", "first"],
    heads: Sequence[nn.Module] | None,
    device: torch.device,
) -> list[nn.Module]:
    if heads is not None and len(heads) != len(shapes):
        raise ValueError(f"heads must be one per exit, {len(shapes)}, got {len(heads)}")
    return list(heads) if heads is not None else [make_head(s, classes, token).to(device) for s in shapes]


def _last_head(
    model: nn.Module, recording: Recording, classes: int, token: Literal["mean", "first"]
) -> tuple[nn.Module, dict[str, nn.Module]]:
    """What reads the network's output, and which of its modules are replaced before."""
    shape = recording.output_shape
    if len(shape) == 2 and shape[1] == classes:
        return nn.Identity(), {}
    for call in reversed(recording.calls):
        if len(shape) == 2 and isinstance(call.target, str):
            module = model.get_submodule(call.target)
            linear = [
                name for name, m in module.named_modules() if isinstance(m, nn.Linear) and m.out_features == shape[1]
            ]
            if linear:
                return nn.Identity(), {call.target: _with_new_linear(module, linear[-1], classes)}
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    return make_head(shape, classes, token).to(device), {}


def _with_new_linear(module: nn.Module, name: str, classes: int) -> nn.Module:
    """The module with one linear layer replaced; everything else in it is shared, nothing is written to it."""
    first, _, rest = name.partition(".")
    if not first:
        assert isinstance(module, nn.Linear)
        return nn.Linear(
            module.in_features, classes, module.bias is not None, module.weight.device, module.weight.dtype
        )
    clone = copy.copy(module)
    clone._modules = dict(module._modules)
    child = module._modules[first]
    assert child is not None
    clone._modules[first] = _with_new_linear(child, rest, classes)
    return clone


def _of_stages(
    stages: list[nn.Module],
    classes: int,
    inputs: tuple[Tensor, ...],
    names: tuple[str, ...] | None,
    token: Literal["mean", "first"],
    freeze: bool,
    heads: Sequence[nn.Module] | None,
) -> Learner:
    if not stages or not all(isinstance(stage, nn.Module) for stage in stages):
        raise ValueError("stages must be modules, at least one")
    if names is not None:
        raise TypeError("stages read tensors by position: pass the sample as a tuple")
    shapes: list[Sequence[int]] = []
    with torch.no_grad():
        state: tuple[Tensor, ...] = inputs
        for stage in stages:
            mode = stage.training
            state = Stage(stage).eval()(*state)[:-1]
            stage.train(mode)
            shapes.append(state[0].shape)
    own = heads is None and len(shapes[-1]) == 2 and shapes[-1][1] == classes
    new = _heads(shapes[:-1] if own else shapes, classes, token, heads, inputs[0].device)
    new += [nn.Identity()] if own else []
    bodies = [_LastStage(s) if s is stages[-1] else Stage(s) for s in stages]
    branches = [AdaptedBranch(b, h, last=b is bodies[-1]) for b, h in zip(bodies, new, strict=True)]
    learner = AdaptedLearner(branches, classes)
    return _frozen(learner, {}) if freeze else learner


class _LastStage(Stage):
    def forward(self, *state: Tensor) -> tuple[Tensor, ...]:
        return super().forward(*state)[-1:]


def _frozen(learner: AdaptedLearner, replaced: Mapping[str, nn.Module]) -> AdaptedLearner:
    """Freeze everything but heads; a network's own head is its last linear layer."""
    bodies = [branch.body for branch in learner.branches if isinstance(branch, AdaptedBranch)]
    for body in bodies:
        body.requires_grad_(False)
    if isinstance(learner.branches[-1].head, nn.Identity):
        linear = [m for m in bodies[-1].modules() if isinstance(m, nn.Linear) and m.out_features == learner.classes]
        for module in linear[-1:]:
            module.requires_grad_(True)
    learner.frozen = tuple(bodies)
    return learner.train(learner.training)


def _check_equal(model: nn.Module, learner: Learner, sample: Inputs, *, replaced: bool) -> None:
    """Run both once, in evaluation: the cut network must give what the network gives, and row by row."""
    if any(t.is_meta for t in (*model.parameters(), *learner.first_state(sample))):
        return
    modes = {module: module.training for module in (*model.modules(), *learner.modules())}
    try:
        model.eval(), learner.eval()
        with torch.no_grad():
            whole = learner(sample)
            if not replaced:
                kwargs = dict(sample) if isinstance(sample, Mapping) else {}
                args = () if kwargs else learner.first_state(sample)
                _check_close(first_tensor(model(*args, **kwargs)), whole[-1])
            state: Sequence[Tensor] = learner.first_state(sample)
            for branch, logits in zip(learner.branches, whole, strict=True):
                *state, vote = branch(*state)
                _check_close(logits[-vote.shape[0] :], vote)
                state = [tensor[-1:] for tensor in state]
    finally:
        for module, mode in modes.items():
            module.training = mode


def _check_close(wanted: Tensor, got: Tensor) -> None:
    if wanted.shape != got.shape or not torch.allclose(wanted, got, rtol=1e-3, atol=1e-4, equal_nan=True):
        raise ValueError(
            "the cut network does not give what the network gives: its forward pass does something that calls do not "
            "show, or mixes samples; pass its stages yourself: attach_exits([stage, ...], ...)"
        )


def _classes_of(model: nn.Module) -> int | None:
    if isinstance(model, Learner):
        return model.classes
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return linear[-1].out_features if linear else None
