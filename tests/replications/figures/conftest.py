from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr

METHODS = {  # sampler, reference, bias and standard error at 10 temperatures, seconds per temperature
    "split_hmc_ep": ("preconditioned_split_hmc", "ep", -0.02, 0.05, 0.2),
    "hmc_ep": ("hmc", "ep", -0.03, 0.07, 0.16),
    "latent_hmc_ep": ("latent_hmc", "ep", -0.05, 0.16, 0.21),
    "hmc_prior": ("hmc", "prior", -60.0, 1.5, 0.2),
    "hmc_prior_mode": ("hmc", "prior", -14.0, 0.9, 0.3),
    "split_hmc_laplace": ("preconditioned_split_hmc", "laplace", -0.3, 0.11, 0.18),
    "is_ep": ("", "ep", -0.04, 0.06, 0.02),
}
TRUTH = -105.8385


def evidence_rows(problem="digits-hard", truth=TRUTH, methods=METHODS, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for method, (sampler, reference, bias, error, cost) in methods.items():
        sampled = bool(sampler)
        for n_temperatures in (10, 30, 100) if sampled else (1,):
            shrink = np.sqrt(10 / n_temperatures)
            hard = abs(bias) > 1.0
            for replicate in range(3):
                se = error * shrink
                value = truth + bias * shrink**2 + rng.normal(0, se)
                ess = 1.7 if hard else 90.0 + replicate
                alarm = f"effective size {ess:.1f} < 10; largest weight 0.81 > 0.5" if hard else ""
                rows.append(
                    {
                        **{"study": "rmhmc_ais", "problem": problem, "method": method},
                        **{"sampler": sampler, "reference": reference, "ladder": "adaptive"},
                        **{"coordinates": "reference", "direction": "forward"},
                        **{"n_temperatures": n_temperatures, "replicate": replicate},
                        **{"n_particles": 128, "log_evidence": value, "standard_error": se},
                        **{"effective_size": ess, "bootstrap_low": value - 2 * se},
                        **{"bootstrap_high": value + 2 * se, "mean_log_weight": value - se},
                        **{"sd_log_weight": 10 * se, "max_weight": 0.81 if hard else 0.03},
                        **{"acceptance_rate": 0.82 if sampled else np.nan, "diverging": 0.0},
                        "n_gradient": 128 * 12 * n_temperatures if sampled else 0,
                        "n_likelihood": 128 * 12 * n_temperatures if sampled else 10000,
                        "pilot_gradient": 20000 if sampled else 0,
                        "gigaflops": 0.5 * n_temperatures if sampled else 1.3,
                        "pilot_gigaflops": 6.5 if sampled else 0.0,
                        "seconds": cost * n_temperatures,
                        "pilot_seconds": 2.5 if sampled else np.nan,
                        "alarm": alarm,
                    }
                )
    return pd.DataFrame(rows)


@pytest.fixture
def evidence():
    easy = {name: settings for name, settings in METHODS.items() if "prior" not in name}
    return pd.concat(
        [evidence_rows(), evidence_rows("digits-easy", -60.2, easy, 1)], ignore_index=True
    )


@pytest.fixture
def approximations():
    common = {"study": "rmhmc_ais", "dataset": "digits-3v5", "n": 365, "likelihood": "probit"}
    hard = {
        **{"problem": "digits-hard", "log_length_scale": 4.85, "log_signal_sd": 5.1, "jitter": 0.0},
        **{"log_evidence_laplace": -111.0012, "log_evidence_ep": -106.0892, "correction": 0.2734},
        **{"log_evidence_corrected": -105.8158, "test_error_laplace": 28, "test_error_ep": 28},
        **{"test_error_posterior": np.nan, "test_log_score_ep": -0.123456},
        **{"test_log_score_posterior": np.nan, "seconds_laplace": 0.51, "seconds_ep": 1.234},
    }
    easy = hard | {
        **{"problem": "digits-easy", "log_length_scale": 1.5, "log_signal_sd": 0.0},
        **{"log_evidence_laplace": -60.23, "log_evidence_ep": -60.21, "correction": 0.012},
        "log_evidence_corrected": -60.198,
    }
    return pd.DataFrame([common | hard, common | easy])


@pytest.fixture
def verdict():
    common = {"study": "rmhmc_ais", "recomputed": np.nan, "unit": "nats", "why": ""}
    rows = [
        {"table": "USPS", "row": "A", "column": "log Z (EP)", "printed": -106.0892}
        | {"ours": -106.08917, "mcse": 0.0, "tolerance": 2e-4, "verdict": "agrees"},
        {"table": "USPS", "row": "B", "column": "log Z <AIS>", "printed": -149.375}
        | {"ours": -149.3721, "mcse": 9e-4, "tolerance": 1e-3, "verdict": "differs"}
        | {"why": "prints 4 digits & rounds"},
        {"table": "Figure 2", "row": "H2", "column": "time", "unit": "seconds", "printed": 90.0}
        | {"ours": 31.41592, "mcse": 0.3, "tolerance": np.nan, "verdict": "machine-dependent"},
    ]
    return pd.DataFrame([common | row for row in rows])


def annealing_group(n_temperatures, sd, *, smallest=0.01, direction="forward", seed=0, truth=TRUTH):
    rng = np.random.default_rng(seed + n_temperatures)
    shape = (2, 64, n_temperatures)
    beta = np.geomspace(smallest, 1.0, n_temperatures)
    sign = -1.0 if direction == "reverse" else 1.0
    noise = rng.normal(size=shape) * sd / np.sqrt(n_temperatures)
    increments = truth * np.diff(beta, prepend=0.0) + noise - sign * sd**2 / 2 / n_temperatures
    rate = np.clip(0.85 + 0.05 * rng.normal(size=shape), 0, 1)
    rate[..., -1] = np.nan
    dims = ("replicate", "chain", "temperature")
    order = np.arange(1, n_temperatures + 1)
    if direction == "reverse":
        beta, order = beta[::-1], order[::-1]
    group = xr.Dataset(
        {"log_weight_increment": (dims, increments), "acceptance_rate": (dims, rate)},
        {
            **{"replicate": [0, 1], "chain": np.arange(64), "temperature": order},
            **{"beta": ("temperature", beta)},
            "step_size": ("temperature", 0.3 - 0.1 * beta),
            "n_steps": ("temperature", np.full(n_temperatures, 8)),
        },
    )
    return group.assign_attrs(direction=direction)


@pytest.fixture
def evidence_tree():
    return xr.DataTree.from_dict(
        {
            "evidence": xr.Dataset({"log_evidence": ("n_temperatures", [TRUTH] * 3)}),
            **{f"annealing_t{n:04d}": annealing_group(n, 6 / np.sqrt(n)) for n in (100, 10, 30)},
            "annealing_t0030_reverse": annealing_group(30, 1.1, direction="reverse"),
        }
    )


@pytest.fixture
def prior_tree():
    groups = {f"annealing_t{n:04d}": annealing_group(n, 20.0, smallest=1e-7) for n in (10, 50)}
    return xr.DataTree.from_dict(groups)


@pytest.fixture
def map_tree():
    length, signal = np.linspace(1, 5, 9), np.linspace(0, 5, 8)
    x, y = np.meshgrid(length, signal, indexing="ij")
    dims = ("log_length_scale", "log_signal_sd")
    correction = 0.01 * np.exp(0.7 * y)
    correction[0, 0] = np.nan
    data = xr.Dataset(
        {
            "log_evidence_ep": (dims, -90 - 9 * (x - 2.6) ** 2 - 6 * (y - 4.1) ** 2),
            "correction": (dims, correction),
            "ratio_sd": (dims, np.exp(0.9 * y - 0.2 * x) + 0.5),
        },
        {"log_length_scale": length, "log_signal_sd": signal},
        {"marked": json.dumps({"A": [4.85, 5.0], "B": [4.85, 2.55]})},
    )
    return xr.DataTree.from_dict({"map": data})


@pytest.fixture
def posterior_tree():
    rng = np.random.default_rng(1)
    latent = rng.normal(size=(4, 200, 30))
    latent[0, :, 0] += 3.0  # one latent whose chains disagree
    coords = {"chain": np.arange(4), "draw": np.arange(200)}
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(
                {"latent": (("chain", "draw", "latent_dim"), latent)},
                coords | {"latent_dim": np.arange(30)},
            ),
            "sample_stats": xr.Dataset(
                {"sum_log_likelihood": (("chain", "draw"), rng.normal(-40, 4, size=(4, 200)))},
                coords,
            ),
        }
    )
