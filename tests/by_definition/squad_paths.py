"""Policies that follow a path, for one sample, read slowly.

``deepest`` maps a learner to ``(exit, distribution)``: the deepest vote that counted so far.
"""

from dataclasses import dataclass


@dataclass
class Walk:
    exit: int
    label: int
    confidence: float
    probs: list[float]
    passed: bool
    waited: list[tuple[int, int]]
    cast: set[tuple[int, int]]


def sequence(path, by_cost, arrival=None):
    """The order in which votes count: the path, or without one the order told and then the order of costs."""
    if path is not None:
        return path
    told = [] if arrival is None else [b for b in arrival if b >= 0]
    return told + [b for b in by_cost if b not in told]


def walk(probs, branches, mix, stops, present=None, arrival=None):
    """Follow ``branches``; ``mix(deepest)`` is the distribution, ``stops(branch, deepest)`` the test."""
    num_exits, num_learners, classes = len(probs), len(probs[0]), len(probs[0][0])
    deepest, waited, cast, exit_, passed = {}, [], set(), None, False
    for branch in branches:
        e, k = divmod(branch, num_learners)
        waited.append((e, k))
        lost = arrival is not None and branch not in arrival
        if lost or (present is not None and not present[e][k]):
            continue
        cast.add((e, k))
        exit_ = e
        if k not in deepest or deepest[k][0] < e:
            deepest[k] = (e, probs[e][k])
        if stops(branch, deepest):
            passed = True
            break
    if exit_ is None:
        return Walk(num_exits - 1, -1, 0.0, [0.0] * classes, False, waited, cast)
    p = mix(deepest)
    label = max(range(classes), key=lambda c: (p[c], -c))
    return Walk(exit_, label, p[label], p, passed, waited, cast)


def soft(deepest):
    votes = [p for _, p in deepest.values()]
    return [sum(p[c] for p in votes) / len(votes) for c in range(len(votes[0]))]
