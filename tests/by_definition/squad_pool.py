"""The pool for one sample, read slowly: mixing, features and gate from the fitted numbers; and its losses."""

from math import exp, log


def mix(weights, deepest, floor, classes):
    """``softmax(sum of w_k * log max(p_k, floor))`` over those who voted; uniform where the state has no weights."""
    voters = sorted(deepest)
    w = [1 / len(voters)] * len(voters) if weights is None else [weights[k] for k in voters]
    z = [sum(wk * log(max(deepest[k][1][c], floor)) for wk, k in zip(w, voters, strict=True)) for c in range(classes)]
    top = max(z)
    e = [exp(x - top) for x in z]
    return [x / sum(e) for x in e]


def features(p, deepest):
    first = max(range(len(p)), key=lambda c: (p[c], -c))
    second = max((x for c, x in enumerate(p) if c != first), default=0.0)
    entropy = -sum(x * log(x) for x in p if x > 0)
    sure = min(max(p[first], 1e-6), 1 - 1e-6)
    own = [max(range(len(q)), key=lambda c, q=q: (q[c], -c)) for _, q in deepest.values()]
    return [p[first], p[first] - second, entropy, log(sure / (1 - sure)), own.count(first) / len(own)]


def chance(gate, feature):
    """``gate`` = means, scales, coefficients, intercept."""
    n = len(feature)
    z = gate[3 * n]
    for x, mean, scale, coefficient in zip(feature, gate[:n], gate[n : 2 * n], gate[2 * n : 3 * n], strict=True):
        z += coefficient * (x - mean) / scale
    return 1 / (1 + exp(-z))


def cross_entropy(weights, logs, labels, ridge):
    """``logs[v][i][c]``; what the weights of a state minimise."""
    total = 0.0
    for i, label in enumerate(labels):
        z = [sum(w * of_v[i][c] for w, of_v in zip(weights, logs, strict=True)) for c in range(len(logs[0][0]))]
        top = max(z)
        total += top + log(sum(exp(x - top) for x in z)) - z[label]
    return total / len(labels) + ridge * sum((w - 1 / len(weights)) ** 2 for w in weights)
