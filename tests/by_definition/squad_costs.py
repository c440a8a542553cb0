"""The costs of one sample: F_M and F_MT as the paper prints them, ours by walking and by simulation."""

import heapq


def paper(macs, sample):
    """F_M (Eq. 12) and F_MT (Eq. 13) with the pivot's rank at each exit, the order being that of costs."""
    f_m = f_mt = 0.0
    num_learners = len(macs[0])
    for e in range(sample.exit + 1):
        ordered = [macs[e][k] for k in sample.order[e]]
        m = sample.cost_ranks[e]
        f_m += ordered[m]
        f_mt += sum(ordered[: m + 1]) + (num_learners - 1 - m) * ordered[m]
    return f_m, f_mt


def stages_in_any_order(macs, sample):
    """The same where the order is not that of costs: a stage takes as long as the slowest that it waited for."""
    f_m = f_mt = 0.0
    for e in range(sample.exit + 1):
        waited = sample.order[e][: sample.cost_ranks[e] + 1]
        slowest = max(macs[e][k] for k in waited)
        f_m += slowest
        f_mt += sum(min(c, slowest) for c in macs[e])
    return f_m, f_mt


def lazy(macs, cast, chained=True):
    if not chained:
        return sum(macs[e][k] for e, k in cast)
    total = 0.0
    for k in range(len(macs[0])):
        depth = max((e for e, j in cast if j == k), default=-1)
        total += sum(macs[e][k] for e in range(depth + 1))
    return total


def eager(macs, deepest):
    return sum(sum(row) for row in macs[: deepest + 1])


def simulate(macs, waited, asks):
    """K devices as a discrete-event simulation: each runs its branches in a row, the answer comes with the last wait.

    Returns the time of the answer and the work all devices had done by then.
    """
    num_exits = len(macs)
    queue = [(float(macs[0][k]), k, 0) for k in asks]
    heapq.heapify(queue)
    missing, now = set(waited), 0.0
    done = dict.fromkeys(asks, 0.0)
    while missing:
        now, k, e = heapq.heappop(queue)
        done[k] = now
        missing.discard((e, k))
        if e + 1 < num_exits:
            heapq.heappush(queue, (now + macs[e + 1][k], k, e + 1))
    busy = {k for _, k, _ in queue}
    work = sum(now if k in busy else done[k] for k in asks)
    return now, work
