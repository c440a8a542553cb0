"""How far each estimator's mean is from the gradient of the expected loss, on a supernet that can be enumerated.

    python benchmarks/estimators.py --samples 400

Two edges are open, with three operations each; all others are settled. The exact gradient is the sum over the nine
architectures. Printed: the cosine of an estimator's mean with it, the length of the mean over its length, and the
standard error of the mean over its length.
"""

import argparse
from itertools import product

import torch
from torch import Tensor

from quorate.quest import fitting
from quorate.quest.concrete import log_probability
from quorate.quest.config import SearchConfig
from quorate.quest.supernet import TABLE, Supernet
from quorate.train.loss import joint_loss

SETTLED = -40.0
OPEN = ((1, 0, (0, 3, 4)), (1, 2, (1, 3, 5)))
"""Table, edge, operations. With two cells both are reduction cells, so table 1 is all there is."""


def problem(seed: int) -> tuple[Supernet, Tensor, Tensor, Tensor, Tensor]:
    """A net, images, labels, logits, and the exact gradient."""
    torch.manual_seed(seed)
    net, x, labels = Supernet(4, 2, 3), torch.randn(16, 3, 8, 8), torch.arange(16) % 3
    logits = torch.full(TABLE, SETTLED)
    logits[:, :, 4] = 0
    for t, j, operations in OPEN:
        logits[t, j] = SETTLED
        logits[t, j, list(operations)] = torch.randn(3)
    parameter = logits.clone().requires_grad_()
    expected = torch.zeros(())
    for chosen in product(*(operations for _, _, operations in OPEN)):
        choice = logits.argmax(-1)
        for (t, j, _), k in zip(OPEN, chosen, strict=True):
            choice[t, j] = k
        with torch.no_grad():
            loss = joint_loss(net.chosen(x, choice.tolist()), labels)
        expected = expected + log_probability(parameter, choice[None]).exp().sum() * loss
    (gradient,) = torch.autograd.grad(expected, parameter)
    return net, x, labels, logits, gradient


def main() -> None:
    """Print one line for each estimator, means over problems."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--problems", type=int, default=4)
    parser.add_argument("--only", default="", help="estimators whose name holds this")
    given = parser.parse_args()
    torch.set_num_threads(1)
    cases = [
        ("score function", "single", "score", 1.0),
        ("straight-through, single path, T = 1", "single", "straight-through", 1.0),
        ("straight-through, single path, T = 0.3", "single", "straight-through", 0.3),
        ("straight-through, all operations, T = 1", "soft", "straight-through", 1.0),
        ("Concrete sample, T = 1", "soft", "auto", 1.0),
        ("Concrete sample, T = 0.3", "soft", "auto", 0.3),
        ("Concrete sample, T = 0.1", "soft", "auto", 0.1),
    ]
    print(f"{given.samples} samples, {given.problems} supernets, torch {torch.__version__}")
    for name, relaxation, estimator, temperature in [case for case in cases if given.only in case[0]]:
        config = SearchConfig.model_validate(
            {"relaxation": relaxation, "estimator": estimator, "architectures": 1, "precision": "float32"}
        )
        told = []
        for seed in range(given.problems):
            net, x, labels, logits, wanted = problem(seed)
            state, found = fitting.init(logits, torch.Generator().manual_seed(seed)), []
            for _ in range(given.samples):
                g, _, state = fitting.loss_gradient(state, net, x, labels, config, temperature, weights=False)
                found.append(g)
            each = torch.stack(found)
            mean = each.mean(0)
            error = float(each.var(0).sum().sqrt()) / given.samples**0.5
            cosine = float((mean * wanted).sum() / (mean.norm() * wanted.norm()))
            told.append((cosine, float(mean.norm() / wanted.norm()), error / float(wanted.norm())))
        cosine, length, error = (sum(column) / len(told) for column in zip(*told, strict=True))
        print(f"  {name:42s} cosine {cosine:5.2f}   length {length:5.2f}   standard error {error:5.2f}")


if __name__ == "__main__":
    main()
