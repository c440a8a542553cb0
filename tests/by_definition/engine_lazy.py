"""A lazy device, read slowly: one sample at a time, one branch at a time, a set of what was run.

``said[e][k]`` is what branch ``(e, k)`` says of the sample, or None where it fails.
"""


def run(policy, lattice, said, like):
    """Ask for one vote after the other; return the verdict, the branches run for a vote, and those run for nothing."""
    num_exits, num_learners = len(said), len(said[0])
    state = policy.start(1, lattice)
    ran, useful = set(), set()
    for _ in range(2 * num_exits * num_learners + 1):
        (branch,) = policy.wanted(state).tolist()
        if branch < 0:
            break
        e, k = divmod(branch, num_learners)
        way = {(d, k) for d in range(e + 1)} if lattice.chained else {(e, k)}
        ran |= way
        probs = said[e][k]
        if probs is not None:
            useful |= way
        state = policy.tell(
            state, like.zeros(1, dtype=int), branch, like.array([probs or [like.nan] * lattice.classes])
        )
    return policy.verdict(state), useful, ran - useful
