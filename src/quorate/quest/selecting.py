"""Selectors: from a posterior to a committee of K genotypes, each in a few lines (paper, section 5; Eq. 16 for one).

METHOD: SVGD-RD. ``svgd`` is the paper's. The others are there so that its claim can be tested: draws from the
posterior, a greedy choice among them, the posterior's mode, and genotypes by chance, which every search must beat.

Shapes: ``E`` exits, ``K`` learners, ``N`` images, ``C`` classes; ``T x J x O`` logits.

This file does not know supernets, data or files: predictions come from a function.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from quorate.nets.genotype import Genotype, random_genotype
from quorate.quest import svgd
from quorate.quest.config import SearchConfig
from quorate.quest.decode import decode, decode_particle, distinct, sampler
from quorate.quest.density import distinct_starts, score
from quorate.quest.scoring import joint_log_likelihood, ppd_of
from quorate.train.state import seed_for

__all__ = [
    "Problem",
    "Select",
    "greedy",
    "mode",
    "monte_carlo",
    "particles_to_genotypes",
    "random",
    "selectors",
    "svgd_rd",
]

STREAM = 20_000
"""Where the seeds of selectors begin, away from those of learners."""


class Problem(NamedTuple):
    """All that a selector may know.

    Attributes:
        logits: of the posterior, on the CPU.
        learners: how many are wanted, ``K``.
        predict: ``[E, K, N, C]`` probabilities of genotypes by the supernet's weights.
        labels: ``[N]`` of the images they are predictions for.
        config: of the search.
        tell: told how far it is: done, of how many.
    """

    logits: Tensor
    learners: int
    predict: Callable[[Sequence[Genotype]], npt.NDArray[np.float32]]
    labels: npt.NDArray[np.int64]
    config: SearchConfig
    tell: Callable[[int, int], None] = lambda done, total: None

    def generator(self, *purpose: int) -> torch.Generator:
        """A stream of random numbers for one purpose."""
        return torch.Generator().manual_seed(seed_for(self.config.seed, STREAM, *purpose))


Select = Callable[[Problem], list[Genotype]]


def svgd_rd(problem: Problem) -> list[Genotype]:
    """The paper's: particles that seek the posterior and repel (Eq. 16), decoded; the best of several rounds.

    Note:
        **[ours]** The set with the lowest joint loss of the ensemble is kept, after the practice of NESBS. Duplicates
        within a set are drawn again from the posterior, then moved to the best change of one edge.
    """
    config, logits = problem.config, problem.logits.double()
    best: tuple[float, list[Genotype]] | None = None
    for number in range(config.rounds):
        genotypes = particles_to_genotypes(
            logits,
            problem.learners,
            problem.generator(0, number),
            sigma=config.sigma,
            repulsion=config.repulsion,
            steps=config.svgd_steps,
            rate=config.svgd_rate,
            momentum=config.svgd_momentum,
        )
        loss = -joint_log_likelihood(problem.predict(genotypes), problem.labels) if config.rounds > 1 else 0.0
        if best is None or loss < best[0]:
            best = loss, genotypes
        problem.tell(number + 1, config.rounds)
    assert best is not None
    return best[1]


def particles_to_genotypes(
    logits: Tensor,
    learners: int,
    generator: torch.Generator,
    *,
    sigma: float = 0.5,
    repulsion: float = 1.0,
    steps: int = 1000,
    rate: float = 0.1,
    momentum: float = 0.9,
) -> list[Genotype]:
    """One round of SVGD-RD: starts, steps, decoding, duplicates.

    Example:
        >>> logits = torch.zeros(2, 14, 8)
        >>> len(set(particles_to_genotypes(logits, 3, torch.Generator().manual_seed(0), steps=5)))
        3
    """
    starts = distinct_starts(logits, learners, sigma, generator)
    ended = svgd.run(
        starts, lambda x: score(x, logits, sigma), steps=steps, repulsion=repulsion, rate=rate, momentum=momentum
    )
    return distinct([decode_particle(x, logits) for x in ended], logits, sampler(logits, generator))


def monte_carlo(problem: Problem) -> list[Genotype]:
    """Distinct draws from the posterior."""
    draw = sampler(problem.logits, problem.generator(1))
    return distinct([draw() for _ in range(problem.learners)], problem.logits, draw)


def greedy(problem: Problem) -> list[Genotype]:
    """Forward selection among draws from the posterior, on what the supernet predicts.

    Each step adds the genotype that makes largest: joint log-likelihood of the ensemble, plus ``ppd_weight`` times the
    mean over exits of its pairwise disagreement.

    Note:
        **[ours]** The disagreement is taken at every exit, so that hierarchical diversity is what is sought.
    """
    draw, size = sampler(problem.logits, problem.generator(2)), max(problem.config.pool, problem.learners)
    pool = distinct([draw() for _ in range(size)], problem.logits, draw)
    for number, genotype in enumerate(pool):
        problem.predict([genotype])
        problem.tell(number + 1, size)
    probs_EPNC = problem.predict(pool)
    chosen: list[int] = []
    while len(chosen) < problem.learners:
        left = [one for one in range(size) if one not in chosen]

        def worth(one: int) -> float:
            probs = probs_EPNC[:, [*chosen, one]]
            disagreement = float(np.mean(ppd_of(probs)))
            return joint_log_likelihood(probs, problem.labels) + problem.config.ppd_weight * disagreement

        chosen.append(max(left, key=worth))
    return [pool[one] for one in chosen]


def mode(problem: Problem) -> list[Genotype]:
    """The posterior's strongest operations, and its best neighbours by ``log q``: what SNAS or DARTS would return."""
    return distinct([decode(problem.logits.softmax(-1))] * problem.learners, problem.logits)


def random(problem: Problem) -> list[Genotype]:
    """Genotypes by chance: the baseline that every search must beat."""
    generator = np.random.default_rng([problem.config.seed, STREAM, 4])
    found: list[Genotype] = []
    while len(found) < problem.learners:
        one = random_genotype(generator)
        found += [one] if one not in found else []
    return found


def selectors() -> Mapping[str, Select]:
    """Every selector by its name.

    Example:
        >>> sorted(selectors())
        ['greedy', 'mode', 'monte-carlo', 'random', 'svgd']
    """
    return {"svgd": svgd_rd, "monte-carlo": monte_carlo, "greedy": greedy, "mode": mode, "random": random}
