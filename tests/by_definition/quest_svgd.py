"""Eq. 16 as two loops over particles, in plain numbers."""

import math


def direction(particles, score, repulsion, h):
    n, found = len(particles), []
    for x_i in particles:
        phi = [0.0] * len(x_i)
        for x_j, s_j in zip(particles, score, strict=True):
            k = math.exp(-sum((a - b) ** 2 for a, b in zip(x_j, x_i, strict=True)) / h)
            for axis in range(len(x_i)):
                gradient = -2 / h * (x_j[axis] - x_i[axis]) * k  # of k(x_j, x_i), for x_j
                phi[axis] += (k * s_j[axis] + repulsion * gradient) / n
        found.append(phi)
    return found


def bandwidth(particles):
    squares = sorted(
        sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for i, x in enumerate(particles) for y in particles[:i]
    )
    middle = (squares[(len(squares) - 1) // 2] + squares[len(squares) // 2]) / 2
    return middle / math.log(len(particles) + 1)
