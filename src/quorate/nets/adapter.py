"""Exits on a network somebody else wrote, (paper, "Arch Adapter").

Shapes: ``B`` samples, ``C`` features; maps ``[B, C, H, W]``, sequences ``[B, T, C]``, vectors ``[B, C]``.

A network is cut at named submodules into branches that run separately, or given as stages. Its weights are shared,
never copied, and it stays usable as it was. What cannot be cut is refused; nothing is simulated by running everything.

This file does not know how a forward pass is recorded (:mod:`quorate.nets.tracing`) or cut
(:mod:`quorate.nets.cutting`).
"""

import difflib
import itertools
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy

from quorate.nets.comparing import batch_dimension, merged
from quorate.nets.cutting import cut
from quorate.nets.heads import make_head
from quorate.nets.learner import Inputs, Learner, check_count
from quorate.nets.own_head import last_head, layers_run
from quorate.nets.proving import prove, prove_logits
from quorate.nets.recording import Recording, tensor_at
from quorate.nets.restoring import kept_modes
from quorate.nets.tracing import BATCHES, record

__all__ = ["AdaptedBranch", "AdaptedLearner", "attach_exits"]


class AdaptedBranch(nn.Module):
    """A piece of a network, which gives the next state and features, and the head that reads them."""

    def __init__(self, body: nn.Module, head: nn.Module, *, last: bool, reads: Sequence[torch.Size] | None = None):
        super().__init__()
        self.body = body
        self.head = head
        self.last = last
        self.reads = None if reads is None else tuple(map(tuple, reads))
        self.copies = any(getattr(module, "inplace", False) for module in head.modules())

    def forward(self, *state: Tensor) -> tuple[Tensor, ...]:
        if self.reads is not None:
            self._check(state)
        *carried, features = self.body(*state)
        logits = self.head(features.clone() if self.copies else features)
        return (logits,) if self.last else (*carried, logits)

    def _check(self, state: Sequence[Tensor]) -> None:
        given = tuple(tuple(tensor.shape[1:]) for tensor in state)
        if given != self.reads:
            raise ValueError(
                f"a cut network reads what its sample was, but for the number of samples: tensors of shape "
                f"{self.reads} without the batch, got {given}; attach exits again with a sample of that shape"
            )


class Stage(nn.Module):
    """A stage of the user's own: what it gives is both the next state and, its first tensor, the features.

    Args:
        stage: the module.
        last: whether nothing is carried on.
        copies: whether it writes into what it reads, and so has to read a copy.
    """

    def __init__(self, stage: nn.Module, *, last: bool, copies: bool) -> None:
        super().__init__()
        self.stage, self.last, self.copies = stage, last, copies

    def forward(self, *state: Tensor) -> tuple[Tensor, ...]:
        out = self.stage(*(tensor.clone() for tensor in state)) if self.copies else self.stage(*state)
        carried = (out,) if isinstance(out, Tensor) else tuple(out)
        return carried[:1] if self.last else (*carried, carried[0])


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
    ``classes`` values. Otherwise the linear layer that gives the output is replaced by a new one (in the learner, not
    in the network); where the output is not a linear layer's, a new head reads it.

    Only the number of samples may differ from the sample's shape: a cut network refuses other sides or lengths, because
    its forward pass may have worked with the sample's. Stages may read whatever they can.

    Args:
        model: a network, or its stages in order, each reading what the one before it gives.
        exits: names of submodules (as in ``named_modules``) in the order in which they run; not with stages.
        classes: number of classes.
        sample: what the network reads: a tensor, or a tuple or dict of tensors, with samples first.
        token: what a head on a sequence reads, the ``mean`` of the tokens or the ``first`` one.
        freeze: whether only heads are trained: the network's other parameters need no gradient any more, and its
            batch norms stay in evaluation. The network's own head is then the last layer with a weight matrix that it
            runs.
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
    check_count("classes", classes, 2)
    if isinstance(model, torch.jit.ScriptModule):
        raise TypeError("a scripted network cannot be cut; pass the module it was made of, or its stages")
    if isinstance(model, nn.Module):
        with torch.inference_mode(False), torch.enable_grad():  # whatever the caller's mode: it would be recorded
            return _of_network(model, _checked_exits(model, exits), classes, sample, token, freeze, heads)
    if isinstance(model, str) or not isinstance(model, Sequence):
        raise TypeError(f"model must be a module or a sequence of stages, got {type(model).__name__}")
    if exits is not None:
        raise ValueError("exits are named in a network; stages have one after each, so leave exits out")
    with torch.inference_mode(False):
        return _of_stages(model, classes, sample, token, freeze, heads)


def _of_network(
    model: nn.Module,
    named: list[str],
    classes: int,
    sample: Inputs,
    token: Literal["mean", "first"],
    freeze: bool,
    heads: Sequence[nn.Module] | None,
) -> Learner:
    inputs = _checked_sample(sample)
    plain, wide, other, train = (
        record(model, named, sample, batch=n, training=mode)
        for n, mode in ((BATCHES[0], False), (BATCHES[1], False), (BATCHES[2], False), (BATCHES[0], True))
    )
    _check_order(named, plain)
    recording = merged(plain, wide, other, train, BATCHES)
    own = last_head(model, recording, classes, token)
    cuts = [*(recording.exits[name] for name in named), (recording.output, len(recording.calls))]
    segments = cut(model, recording, wide, cuts, len(inputs), BATCHES, own.replaced)
    shown = [_shown(plain, wide, name, own=heads is not None) for name in named]
    new = [*_heads(shown, classes, token, heads), own.head]
    reads = [tensor.shape[1:] for tensor in inputs]
    branches = [
        AdaptedBranch(s, h, last=i == len(named), reads=None if i else reads)
        for i, (s, h) in enumerate(zip(segments, new, strict=True))
    ]
    learner = AdaptedLearner(branches, classes, inputs=tuple(map(str, sample)) if isinstance(sample, Mapping) else None)
    with kept_modes(model.modules()):
        learner.train(model.training)
    prove(learner, sample, model if isinstance(own.head, nn.Identity) and not own.replaced else None)
    return _frozen(learner, own.trained) if freeze else learner


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
    if any(is_lazy(parameter) for parameter in model.parameters()):
        raise ValueError("the network has layers without weights yet (LazyLinear and the like); run it once first")
    if exits is None or isinstance(exits, str) or not exits:
        raise ValueError(f"exits must name submodules, such as ['layer1', 'layer2'], got {exits!r}")
    named, known = list(exits), [name for name, _ in model.named_modules() if name]
    aliases = {name for name, _ in model.named_modules(remove_duplicate=False)}
    for name in named:
        if not isinstance(name, str):
            raise TypeError(f"exits must be names of submodules, as in named_modules(), got {name!r}")
        if name not in known and name in aliases and name:
            first = next(known_ for known_ in known if model.get_submodule(known_) is model.get_submodule(name))
            raise ValueError(f"the submodule {name!r} is the one also named {first!r}; use that name")
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


def _shown(plain: Recording, wide: Recording, name: str, *, own: bool) -> Tensor:
    """What an exit shows, without numbers, samples first; a head of one's own may read several rows per sample."""
    ref, _ = plain.exits[name]
    narrow = tensor_at(plain, ref)
    found = batch_dimension(narrow, tensor_at(wide, ref), BATCHES)
    if found is None or (found[1] > 1 and not own):
        raise ValueError(
            f"the exit {name!r} shows a tensor of shape {tuple(narrow.shape)} for {BATCHES[0]} samples, not one row "
            "for each; name another submodule, or pass heads= with modules of your own"
        )
    dim, each = found
    return narrow.reshape(-1, each, *narrow.shape[1:]) if each > 1 else narrow.movedim(dim, 0)


def _heads(
    shown: Sequence[Tensor], classes: int, token: Literal["mean", "first"], heads: Sequence[nn.Module] | None
) -> list[nn.Module]:
    """Heads on the device and in the precision of what they read."""
    if heads is None:
        return [make_head(x.shape, classes, token).to(x.device, x.dtype) for x in shown]
    if len(heads) != len(shown):
        raise ValueError(f"heads must be one per exit, {len(shown)}, got {len(heads)}")
    for head in heads:
        if not isinstance(head, nn.Module):
            raise TypeError(f"heads must be modules, got {type(head).__name__}")
    return list(heads)


def _of_stages(
    modules: Sequence[nn.Module],
    classes: int,
    sample: Inputs,
    token: Literal["mean", "first"],
    freeze: bool,
    heads: Sequence[nn.Module] | None,
) -> Learner:
    if not modules or not all(isinstance(stage, nn.Module) for stage in modules):
        raise ValueError("stages must be modules, at least one")
    if isinstance(sample, Mapping):
        raise TypeError("stages read tensors by position: pass the sample as a tuple")
    inputs = _checked_sample(sample)
    with kept_modes(itertools.chain(*(stage.modules() for stage in modules))), torch.no_grad():
        for stage in modules:
            stage.eval()
        bodies, shown, layer = _run_stages(modules, inputs)
    own = heads is None and shown[-1].dim() == 2 and shown[-1].shape[1] == classes
    new = _heads(shown[:-1] if own else shown, classes, token, heads) + ([nn.Identity()] if own else [])
    branches = [AdaptedBranch(b, h, last=b.last) for b, h in zip(bodies, new, strict=True)]
    learner = AdaptedLearner(branches, classes)
    prove_logits(learner, inputs)
    return _frozen(learner, layer if own else None) if freeze else learner


def _run_stages(
    modules: Sequence[nn.Module], inputs: tuple[Tensor, ...]
) -> tuple[list[Stage], list[Tensor], nn.Module | None]:
    """The stages as bodies of branches, what each shows, and the last layer with weights of the last one."""
    state, bodies, shown, layer = inputs, list[Stage](), list[Tensor](), None
    for index, stage in enumerate(modules):
        last = index == len(modules) - 1
        given = tuple(tensor.clone() for tensor in state)
        out, layer = layers_run(stage, given)
        if not isinstance(out, Tensor) and not (
            isinstance(out, tuple | list) and out and all(isinstance(tensor, Tensor) for tensor in out)
        ):
            raise TypeError(f"stage {index} must give a tensor or a tuple of tensors, got {type(out).__name__}")
        drops = any(isinstance(m, _DropoutNd) and m.inplace for m in stage.modules())
        bodies.append(Stage(stage, last=last, copies=drops or any(tensor._version for tensor in given)))
        state = (out,) if isinstance(out, Tensor) else tuple(out)
        shown.append(state[0])
    return bodies, shown, layer


def _frozen(learner: AdaptedLearner, trained: nn.Module | None) -> AdaptedLearner:
    """Freeze everything but heads; ``trained`` is the network's own."""
    bodies = [branch.body for branch in learner.branches if isinstance(branch, AdaptedBranch)]
    for body in bodies:
        body.requires_grad_(False)
    if trained is not None:
        trained.requires_grad_(True)
    elif isinstance(learner.branches[-1].head, nn.Identity):
        raise ValueError(
            "with freeze=True a head must be left to train, but no module with a weight matrix runs at the network's "
            "end; make its head a module, or freeze parameters yourself"
        )
    learner.frozen = tuple(bodies)
    return learner.train(learner.training)
