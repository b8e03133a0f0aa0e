"""How far the covariance of basis functions is from the one they stand for."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from gpmcflow.covariances.basis_blocks import BasisBlocks, EigenBlock
from gpmcflow.covariances.basis_design import BasisDesign
from gpmcflow.covariances.basis_functions import (
    BasisFunctions,
    axis_size,
    box_width,
    correlation,
    log_scales,
)

POINTS = (81, 13, 6)  # of each column, by their number


def covariance_error(block: EigenBlock, lengths: np.ndarray) -> float:
    """Largest difference over the amplitude's square, between pairs of a grid of the data's box.

    ``lengths`` (D,) are length scales in the units of the columns. The ends, where the error of the boundary
    is largest, are on the grid.
    """
    D = len(block.sizes)
    grid = [np.linspace(-half, half, POINTS[D - 1]) for half in block.data_half_widths]
    points = np.stack(np.meshgrid(*grid, indexing="ij"), -1).reshape(-1, D)
    at = np.empty((len(points), max(block.columns) + 1))
    at[:, block.columns] = points + block.centre
    functions = BasisDesign(BasisBlocks([block]), at).matrix()
    logs, _ = log_scales(block.nu, block.squares, np.log(lengths))
    functions *= np.exp(logs)
    exact = correlation(block.nu, cdist(points / lengths, points / lengths))
    return float(np.max(np.abs(functions @ functions.T - exact)))


def settings_for(
    block: EigenBlock, shortest: np.ndarray, longest: np.ndarray, settings: BasisFunctions
) -> tuple[list[int], list[float]]:
    """m and boundary of each column that would do for these length scales (D,)."""
    half, error = block.data_half_widths, settings.axis_error(len(block.sizes))
    boxes = [box_width(block.nu, at, error) for at in longest / half]
    sizes = [
        axis_size(block.nu, at, box, error) for at, box in zip(shortest / half, boxes, strict=True)
    ]
    return sizes, boxes
