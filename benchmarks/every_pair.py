"""Every sampler on every likelihood it takes, by more draws than the suite: p-values and z-scores.

    python benchmarks/every_pair.py [--times 4] [--seeds 1] [--first 100]

Cases, test and sizes are those of ``tests/statistical/test_every_pair.py``; ``--times`` multiplies the sizes.
A p-value is corrected for the number of tests in its case (Bonferroni): of exact samplers at most a share
alpha of the cases is below alpha. Z-scores are of annealed importance sampling against quadrature, from a fit
and from the prior.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from statistical import test_every_pair as pairs


def seed(first: int, k: int, *case: str) -> int:
    return pairs.seed_of(str(first + k), *case)


def exactness(times: int, seeds: int, first: int) -> None:
    p_values = []
    for case in pairs.EXACT:
        n = times * pairs.size_of(*case)
        row = [pairs.p_value_of(case, n, seed(first, k, *case)) for k in range(seeds)]
        p_values += row
        print(
            f"{' '.join(case):<50} n = {n:6d}  p = {' '.join(f'{p:.1e}' for p in row)}", flush=True
        )
    found = np.array(p_values)
    shares = (f"{(found < level).mean():.4f} below {level:g}" for level in (0.05, 0.01, 1e-3, 1e-4))
    print(f"{len(found)} p-values: {', '.join(shares)}\n", flush=True)


def evidences(times: int, seeds: int, first: int) -> None:
    scores = []
    for name in pairs.LIKELIHOODS:
        for reference in ("fit", "prior"):
            found = [
                pairs.annealing_z(name, reference, seed(first, k, name, reference), 300 * times)
                for k in range(seeds)
            ]
            z = [score for score, _ in found]
            scores += z
            print(f"{name:<18} from the {reference:<6} z = {' '.join(f'{x:+.2f}' for x in z)}, "
                  f"standard error {np.mean([error for _, error in found]):.1e}", flush=True)  # fmt: skip
    scores = np.array(scores)
    print(
        f"{len(scores)} z-scores: mean square {np.mean(scores**2):.2f}, largest {np.abs(scores).max():.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=4, help="times the sizes of the suite")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first", type=int, default=100, help="number of the first seed")
    options = parser.parse_args()
    pairs.known_to_harness(dict.__setitem__)
    exactness(options.times, options.seeds, options.first)
    evidences(options.times, options.seeds, options.first)


if __name__ == "__main__":
    main()
