"""Whether counts have more zeros than overdispersion explains."""

from __future__ import annotations

import numpy as np
from scipy.special import chdtrc, expit, gammaln

CHANCE = 0.01  # of so large a likelihood ratio, were there no zeros of another kind
FEWEST_ZEROS = 10
LEAST_SHARE = 0.02  # zeros of another kind, of all rows


def excess_zeros(counts: np.ndarray, exposure: np.ndarray) -> float | None:
    """Return the share of zeros beyond those of a negative binomial law, None where they are not clear.

    Both laws have one rate for all rows and are fitted by maximum likelihood. The zeros are clear if the
    likelihood ratio has a chance below 1 % without them; as the share is 0 then, on the border of what is
    possible, its law is half a chi-square of one degree of freedom.
    """
    if (counts == 0).sum() < FEWEST_ZEROS or counts.max(initial=0.0) < 2:
        return None
    from scipy.optimize import minimize  # takes long to load

    zero, start = counts == 0, np.log(counts.sum() / exposure.sum())

    def loss(at: np.ndarray, share: float) -> float:
        mean, size = exposure * np.exp(at[0]), np.exp(at[1])
        log_p = gammaln(counts + size) - gammaln(size) - gammaln(counts + 1.0)
        log_p += counts * np.log(mean / (mean + size)) - size * np.log1p(mean / size)
        value = np.log1p(-share) + log_p
        value[zero] = np.log(share + np.exp(value[zero]))
        return -float(value.sum())

    limits = [(start - 5.0, start + 5.0), (-6.0, 8.0)]
    plain = minimize(lambda at: loss(at, 0.0), [start, 0.0], bounds=limits)
    first = [*plain.x, -1.0]
    mixed = minimize(lambda at: loss(at, float(expit(at[2]))), first, bounds=[*limits, (-8.0, 6.0)])
    share, ratio = float(expit(mixed.x[2])), 2.0 * (plain.fun - mixed.fun)
    clear = 0.5 * chdtrc(1.0, max(ratio, 0.0)) < CHANCE
    return share if clear and share > LEAST_SHARE else None
