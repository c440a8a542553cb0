"""The joint loss (Eq. 2), its smoothing and its distillation, in plain numbers; no torch."""

import math


def softmax(scores, temperature=1.0):
    weights = [math.exp((s - max(scores)) / temperature) for s in scores]
    return [w / sum(weights) for w in weights]


def cross_entropy(scores, label, smoothing=0.0):
    p, classes = softmax(scores), len(scores)
    target = [smoothing / classes + (1 - smoothing) * (c == label) for c in range(classes)]
    return -sum(t * math.log(q) for t, q in zip(target, p, strict=True))


def divergence(teacher, student):
    return sum(t * math.log(t / s) for t, s in zip(teacher, student, strict=True))


def joint_loss(exits, labels, weights, smoothing=0.0, distillation=0.0, temperature=1.0):
    """``exits[e][n][c]``: logits. Each exit's loss is a mean over samples; the exits' losses are added, weighted."""
    total = 0.0
    for e, logits in enumerate(exits):
        losses = []
        for n, scores in enumerate(logits):
            loss = cross_entropy(scores, labels[n], smoothing)
            if e < len(exits) - 1:
                teacher, student = softmax(exits[-1][n], temperature), softmax(scores, temperature)
                soft = temperature**2 * divergence(teacher, student)
                loss = (1 - distillation) * loss + distillation * soft
            losses.append(loss)
        total += weights[e] * sum(losses) / len(losses)
    return total
