"""SGD as it is written in textbooks: clipped gradients, weight decay, momentum, a cosine; numbers one by one."""

import math


def rate_at(step, steps, rate, final):
    return final + 0.5 * (rate - final) * (1 + math.cos(math.pi * step / steps))


def clipped(gradients, limit):
    norm = math.sqrt(sum(g * g for g in gradients))
    return [g * limit / norm for g in gradients] if norm > limit else list(gradients)


def descend(weights, gradients_of, rates, momentum, decay, limit, factors):
    """Weights after ``len(rates)`` steps; ``gradients_of(weights)`` is asked anew at each."""
    velocity = [0.0] * len(weights)
    for rate in rates:
        gradients = clipped(gradients_of(weights), limit)
        for i, gradient in enumerate(gradients):
            velocity[i] = momentum * velocity[i] + gradient + decay * weights[i]
            weights[i] = weights[i] - rate * factors[i] * velocity[i]
    return weights


def average(values, decay):
    """The moving average after each value; the first value is where it begins."""
    out = values[0]
    for step, value in enumerate(values[1:]):
        d = min(decay, (1 + step) / (10 + step))
        out = d * out + (1 - d) * value
    return out
