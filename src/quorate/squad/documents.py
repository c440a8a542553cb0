"""Policies as plain documents: what JSON can say of them, and the way back.

This file does not know where documents are kept; see :mod:`quorate.store`.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from quorate.squad.policies import Agreement, Cascade, Confidence, Soft, Static
from quorate.squad.pool import Pool
from quorate.squad.priced import Priced
from quorate.squad.protocol import Policy
from quorate.squad.rule import Rule
from quorate.squad.temperature import Scaled

__all__ = ["policy_from_document", "policy_to_document"]

PLAIN: dict[str, Any] = {
    "squad": Rule,
    "static": Static,
    "confidence": Confidence,
    "cascade": Cascade,
    "soft": Soft,
    "agreement": Agreement,
}


def policy_to_document(policy: Policy) -> dict[str, Any]:
    """A policy of this library as numbers, texts and lists.

    Raises:
        TypeError: for a policy of the user's own, which no document can hold.

    Example:
        >>> policy_to_document(Confidence(1, 0.5))
        {'name': 'confidence', 'learner': 1, 'threshold': 0.5}
    """
    if isinstance(policy, Pool):
        return {"name": "pool", **policy.as_json()}
    if isinstance(policy, Scaled):
        rows = [list(row) for row in policy.temperatures]
        return {"name": "scaled", "policy": policy_to_document(policy.policy), "temperatures": rows}
    if isinstance(policy, Priced):
        table = [list(row) for row in policy.costs]
        return {"name": "priced", "policy": policy_to_document(policy.policy), "costs": table}
    names = {kind: name for name, kind in PLAIN.items()}
    if type(policy) in names:
        return {"name": names[type(policy)], **{name: _plain(getattr(policy, name)) for name in _fields(type(policy))}}
    raise TypeError(f"only the policies of quorate can be written, got {type(policy).__name__}")


def policy_from_document(document: Mapping[str, Any]) -> Policy:
    """The policy that :func:`policy_to_document` wrote.

    Raises:
        ValueError: an unknown name, missing or unknown fields, values that make no sense.

    Example:
        >>> policy_from_document({"name": "cascade", "threshold": 0.8})
        Cascade(threshold=0.8)
    """
    values = dict(document)
    name = values.pop("name", None)
    try:
        if name == "pool":
            return Pool.from_json(values)
        if name == "scaled":
            return Scaled(policy_from_document(values.pop("policy")), values.pop("temperatures"))
        if name == "priced":
            return Priced(policy_from_document(values.pop("policy")), values.pop("costs"))
        if name in PLAIN:
            known = _fields(PLAIN[name])
            if set(values) != set(known):
                raise ValueError(f"fields must be {known}, got {sorted(values)}")
            plain: Policy = PLAIN[name](**values)
            return plain
    except (KeyError, TypeError, IndexError, OverflowError) as error:
        raise ValueError(f"does not describe the policy {name!r} ({type(error).__name__}: {error})") from error
    raise ValueError(f"policy must be one of {', '.join([*PLAIN, 'pool', 'scaled', 'priced'])}, got {name!r}")


def _fields(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]


def _plain(value: Any) -> Any:
    """A numpy number as the number that JSON knows."""
    return value.item() if isinstance(value, np.generic) else value
