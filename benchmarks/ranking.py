"""Does the supernet rank architectures? Its accuracy against that after a short training of their own.

    python benchmarks/ranking.py --data digits --recipe digits --run runs/digits --genotypes 48 --epochs 3

Half of the genotypes are drawn from the posterior of a finished search, half by chance, so that there is something to
rank. All are trained equally, from scratch, at the supernet's size; the accuracy is that of the last exit on the test
part, the supernet's that on its validation images. Spearman's and Kendall's correlation, with bootstrap intervals.
"""

import argparse

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import kendalltau, spearmanr

from quorate.data import load
from quorate.nets import DartsLearner, Genotype, random_genotype
from quorate.quest.decode import distinct, sampler
from quorate.quest.material import ESTIMATION, SCORING, material_for
from quorate.quest.scoring import Scorer
from quorate.quest.search import build_supernet
from quorate.recipes import searches
from quorate.store.weights import read_weights
from quorate.train import Training, fit

Floats = npt.NDArray[np.float64]


def interval(a: Floats, b: Floats, kind: str) -> tuple[float, float, float]:
    """A correlation with its 95 % bootstrap interval."""

    def of(rows: npt.NDArray[np.int64]) -> float:
        found = spearmanr(a[rows], b[rows]) if kind == "Spearman" else kendalltau(a[rows], b[rows])
        return float(found.statistic)

    rng, every = np.random.default_rng(0), np.arange(len(a))
    draws = [of(rng.choice(every, len(every))) for _ in range(1000)]
    low, high = np.nanquantile(draws, [0.025, 0.975])
    return of(every), float(low), float(high)


def main() -> None:
    """Print each genotype's two accuracies, and the correlations."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", default="digits")
    parser.add_argument("--root", default=None)
    parser.add_argument("--recipe", default="digits")
    parser.add_argument("--run", required=True)
    parser.add_argument("--genotypes", type=int, default=48)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    given = parser.parse_args()
    torch.set_num_threads(1)
    data, config = load(given.data, root=given.root), getattr(searches, given.recipe)()
    material = material_for(data, config, torch.device("cpu"))
    supernet = build_supernet(data, config).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    weights, _ = read_weights(f"{given.run}/search/supernet.safetensors")
    supernet.load_state_dict({n: torch.from_numpy(a) for n, a in weights.items() if n != "logits"}, strict=False)
    logits = torch.from_numpy(read_weights(f"{given.run}/search/posterior.safetensors")[0]["logits"])
    estimation, _ = material.fixed(material.train, config.estimation_images, config.seed, ESTIMATION)
    scoring, labels = material.fixed(material.validation, config.scoring_images, config.seed, SCORING)
    scorer = Scorer(supernet.requires_grad_(False), estimation, scoring, labels, {})
    draw, rng = sampler(logits, torch.Generator().manual_seed(1)), np.random.default_rng(1)
    half = given.genotypes // 2
    genotypes: list[Genotype] = distinct([draw() for _ in range(half)], logits, draw)
    genotypes += [random_genotype(rng) for _ in range(given.genotypes - half)]
    by_supernet = (scorer(genotypes)[-1].argmax(-1) == labels).mean(axis=1)
    trained = []
    for k, genotype in enumerate(genotypes):
        torch.manual_seed(k)
        learner = DartsLearner(
            genotype, config.channels, config.cells, len(data.classes), exits=config.exits,
            image_channels=data.shape[2],
        )  # fmt: skip
        how = Training(epochs=given.epochs, batch=given.batch, drop_path=0, cutout=0, precision="float32", seed=k)
        trained.append(fit(learner, data, how, spec=material.spec).accuracy["test"][-1])
        print(f"  {'posterior' if k < half else 'random':9s} {by_supernet[k]:.4f} {trained[-1]:.4f}", flush=True)
    own = np.array(trained)
    for name, rows in (("all", slice(None)), ("posterior", slice(0, half)), ("random", slice(half, None))):
        print(f"{name}: mean accuracy {own[rows].mean():.4f} (supernet {by_supernet[rows].mean():.4f})")
        for kind in ("Spearman", "Kendall"):
            found, low, high = interval(by_supernet[rows], own[rows], kind)
            print(f"  {kind} {found:.2f} [{low:.2f}, {high:.2f}]")


if __name__ == "__main__":
    main()
