"""Peak memory of annealing 4096 particles x 767 latents x 200 temperatures, streamed to disk.

    python benchmarks/memory.py [--share 1] [--store-latents] [--workers 1]

``--share 16`` runs a sixteenth of the particles. Prints the peak resident size of this process and
its workers and of the arrays it would have taken to hold everything.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from gpmcflow.covariances.leaves import SquaredExponential
from gpmcflow.evidence.annealing import anneal
from gpmcflow.evidence.schedule import Schedule, linear
from gpmcflow.execution import Execution, pin_blas
from gpmcflow.likelihoods import Probit
from gpmcflow.models.gaussian_sites import GaussianSites
from gpmcflow.models.gp_model import GPModel
from gpmcflow.models.tempered import TemperedPath
from gpmcflow.samplers import PreconditionedSplitHMC
from gpmcflow.storage import write_results

N, PARTICLES, TEMPERATURES = 767, 4096, 200


def run(share: int, store_latents: bool, workers: int, folder: Path) -> dict:
    """Anneal and write the file; facts of the run."""
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 8))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    model = GPModel(X, y, SquaredExponential(3.0, 2.0), Probit()).at()
    sampler = PreconditionedSplitHMC(step_size=0.5, n_steps=1)
    began = time.perf_counter()
    tree = anneal(
        TemperedPath(GaussianSites.prior(model)),
        sampler,
        Schedule.constant(linear(TEMPERATURES), sampler),
        n_particles=PARTICLES // share,
        store_latents=store_latents,
        execution=Execution(
            block_size=256,
            segment_length=25,
            workers=workers,
            state_dir=folder / "state",
            settings={"benchmark": 1},
        ),
    )
    write_results(tree, folder / "evidence.nc")
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return {
        "seconds": time.perf_counter() - began,
        "peak": own + workers * child if workers > 1 else own,
        "file": os.path.getsize(folder / "evidence.nc"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--store-latents", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--folder", default=None, help="where to put state and file; a temporary one"
    )
    options = parser.parse_args()
    pin_blas()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        facts = run(options.share, options.store_latents, options.workers, Path(folder))
    latents = "all latents" if options.store_latents else "no latents"
    print(
        f"{PARTICLES // options.share} particles x {N} x {TEMPERATURES}, {latents}, "
        f"{options.workers} worker(s): peak {facts['peak'] / 1e9:.2f} GB, file "
        f"{facts['file'] / 1e9:.2f} GB, {facts['seconds']:.0f} s"
    )


if __name__ == "__main__":
    main()
