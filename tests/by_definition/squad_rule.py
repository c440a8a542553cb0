"""The SQUAD rule for one sample, read slowly: lists, loops, no arrays.

``probs[e][k]`` is a list of class probabilities; ``present[e][k]`` says whether that branch voted.
"""

from dataclasses import dataclass
from math import sqrt
from statistics import fmean

from scipy.stats import t as student


@dataclass
class Sample:
    exit: int
    label: int
    confidence: float
    probs: list[float]
    passed: bool
    pivots: list[int]
    reached: list[bool]
    cost_ranks: list[int]
    cast: set[tuple[int, int]]
    order: list[list[int]]


def order_of_arrival(arrival, order, num_exits, num_learners):
    """Each exit's branches in the order told; those that never arrive follow in voting order, and are absent."""
    orders, never = [], set()
    for e in range(num_exits):
        told = [b % num_learners for b in arrival if b >= 0 and b // num_learners == e]
        missing = [k for k in order[e] if k not in told]
        never |= {(e, k) for k in missing}
        orders.append(told + missing)
    return orders, never


def vote(p):
    return max(range(len(p)), key=lambda c: (p[c], -c))


def bound(confidences, criterion, significance):
    n, mean = len(confidences), fmean_in_order(confidences)
    if criterion == "mean":
        return mean
    squares = 0.0
    for c in confidences:
        squares += (c - mean) * (c - mean)
    return mean - student.ppf(1 - significance, n - 1) * sqrt(squares / (n - 1)) / sqrt(n)


def fmean_in_order(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def decide(probs, macs, criterion, threshold, significance=0.05, panel="pivot", order=None, present=None):
    num_exits, num_learners, num_classes = len(probs), len(probs[0]), len(probs[0][0])
    order = order or [sorted(range(num_learners), key=lambda k, e=e: (macs[e][k], k)) for e in range(num_exits)]
    need = num_learners // 2 + 1
    pivots, reacheds, ranks, cast = [], [], [], set()
    for e in range(num_exits):
        last = e == num_exits - 1
        ballots = []  # (class, confidence, distribution) or None, in voting order
        pivot = reached = None
        for m, k in enumerate(order[e]):
            here = present is None or present[e][k]
            ballots.append((vote(probs[e][k]), max(probs[e][k]), probs[e][k]) if here else None)
            if here:
                cast.add((e, k))
            tally = [sum(b is not None and b[0] == c for b in ballots) for c in range(num_classes)]
            lead = max(tally)
            if pivot is None and lead >= need:
                pivot, reached = m, True
            elif pivot is None and lead + num_learners - 1 - m < need:
                pivot, reached = m, False
            if pivot is None:
                continue
            if reached and panel == "all" and m < num_learners - 1:
                continue
            if last and not any(ballots) and m < num_learners - 1:
                continue
            break
        pivots.append(pivot)
        reacheds.append(reached)
        ranks.append(m)
        voters = [b for b in ballots if b is not None]
        if reached:
            consensus = vote(tally)
            on_panel = [b for b in voters if b[0] == consensus]
            passed = bound([b[1] for b in on_panel], criterion, significance) > threshold
        else:
            passed = False
        if not passed and not last:
            continue
        if not voters:
            answer, sure, mix = -1, 0.0, [0.0] * num_classes
        else:
            if reached:
                answer = consensus
            else:
                most = max(tally)
                tied = [c for c in range(num_classes) if tally[c] == most]
                answer = min(tied, key=lambda c: (-sum_in_order(b[2][c] for b in voters), c))
            mine = [b for b in voters if b[0] == answer]
            sure = fmean_in_order([b[1] for b in mine])
            mix = [fmean([b[2][c] for b in mine]) for c in range(num_classes)]
        return Sample(e, answer, sure, mix, passed, pivots, reacheds, ranks, cast, order)
    raise AssertionError("the last exit always answers")


def sum_in_order(values):
    total = 0.0
    for value in values:
        total += value
    return total
