"""Every sampler on every likelihood it takes, by more draws than the suite: p-values and z-scores.

    python benchmarks/every_pair.py [--times 4] [--seeds 1] [--first 100]

Cases, test and sizes are those of ``tests/statistical/test_every_pair.py``; ``--times`` multiplies the sizes.
A p-value is corrected for the number of tests in its case (Bonferroni): of exact samplers at most a share
alpha of the cases is below alpha. Z-scores are of annealed importance sampling against quadrature, from a fit
and from the prior. Rows of a run go to `every_pair.csv`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from statistical import test_every_pair as pairs

ROWS = Path(__file__).with_name("every_pair.csv")


def seed(first: int, k: int, *case: str) -> int:
    return pairs.seed_of(str(first + k), *case)


def exactness(times: int, seeds: int, first: int) -> list[dict]:
    """A row a case and seed, with its p-value."""
    rows = []
    for case in pairs.EXACT:
        n = times * pairs.size_of(*case)
        values = [pairs.p_value_of(case, n, seed(first, k, *case)) for k in range(seeds)]
        print(
            f"{' '.join(case):<50} n = {n:6d}  p = {' '.join(f'{p:.1e}' for p in values)}",
            flush=True,
        )
        rows += rows_of("p-value", case, first, n, values)
    p_values = np.array([row["value"] for row in rows])
    shares = (
        f"{(p_values < level).mean():.4f} below {level:g}" for level in (0.05, 0.01, 1e-3, 1e-4)
    )
    print(f"{len(p_values)} p-values: {', '.join(shares)}\n", flush=True)
    return rows


def evidences(times: int, seeds: int, first: int) -> list[dict]:
    """A row a likelihood, start and seed, with its z-score."""
    rows, n = [], 300 * times
    for name in pairs.LIKELIHOODS:
        for reference in ("fit", "prior"):
            runs = [
                pairs.annealing_z(name, reference, seed(first, k, name, reference), n)
                for k in range(seeds)
            ]
            z = [score for score, _ in runs]
            error = np.mean([error for _, error in runs])
            print(f"{name:<18} from the {reference:<6} z = {' '.join(f'{x:+.2f}' for x in z)}, "
                  f"standard error {error:.1e}", flush=True)  # fmt: skip
            rows += rows_of("z-score", ("annealing", name, reference), first, n, z)
    scores = np.array([row["value"] for row in rows])
    print(
        f"{len(scores)} z-scores: mean square {np.mean(scores**2):.2f}, largest {np.abs(scores).max():.2f}"
    )
    return rows


def rows_of(
    kind: str, case: tuple[str, ...], first: int, n: int, values: list[float]
) -> list[dict]:
    """Rows of one case."""
    named = {"kind": kind, "case": " ".join(case), "n": n}
    return [named | {"seed": first + k, "value": float(f"{v:.4g}")} for k, v in enumerate(values)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=4, help="times the sizes of the suite")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=100, help="number of the first seed")
    options = parser.parse_args()
    pairs.known_to_harness(dict.__setitem__)
    settings = options.times, options.seeds, options.first
    rows = exactness(*settings) + evidences(*settings)
    pd.DataFrame(rows).to_csv(ROWS, index=False)


if __name__ == "__main__":
    main()
