"""What a committee may be made of and asked for: each check says in a sentence what must hold.

This file does not know how anything runs.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from quorate.store.run import InputSpec

__all__ = ["SOURCES", "SourceName", "check_policy", "check_source", "one_each"]

SourceName: TypeAlias = Literal["lazy", "eager", "parallel", "auto"]
SOURCES: tuple[SourceName, ...] = get_args(SourceName)


def check_policy(policy: Any) -> None:
    """Refuse what cannot decide; a class that nobody has called is no policy yet.

    Example:
        >>> check_policy("squad")
        Traceback (most recent call last):
        TypeError: policy must be a policy such as Rule() or Static(), got 'squad'
    """
    if isinstance(policy, type) or not callable(getattr(policy, "tell", None)):
        raise TypeError(f"policy must be a policy such as Rule() or Static(), got {policy!r:.60}")


def check_source(source: Any) -> None:
    """Refuse the name of a source that there is not.

    Example:
        >>> check_source("greedy")
        Traceback (most recent call last):
        ValueError: source must be one of lazy, eager, parallel, auto, got 'greedy'
    """
    if source not in SOURCES:
        raise ValueError(f"source must be one of {', '.join(SOURCES)}, got {source!r}")


def one_each(inputs: InputSpec | Sequence[InputSpec | None] | None, num_learners: int) -> tuple[InputSpec | None, ...]:
    """How each learner sees images, where one was given for all, or one each.

    Example:
        >>> one_each(None, 2)
        (None, None)
    """
    if inputs is None or isinstance(inputs, InputSpec):
        return (inputs,) * num_learners
    if not isinstance(inputs, Sequence) or any(one is not None and not isinstance(one, InputSpec) for one in inputs):
        raise TypeError(f"inputs must be an InputSpec, or a list of one for each learner, got {inputs!r:.60}")
    if len(inputs) != num_learners:
        raise ValueError(f"inputs must be one for all or one for each of {num_learners} learners, got {len(inputs)}")
    return tuple(inputs)
