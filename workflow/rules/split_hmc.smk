# Study split_hmc: split Hamiltonian Monte Carlo beside other samplers.
from gpmcflow.pipeline.study_config import split_hmc_methods

SPLIT_HMC = split_hmc_methods(STUDIES["split_hmc"])

REPORT["split_hmc"] = {
    "title": "Split Hamiltonian Monte Carlo (Shahbaba, Lan, Johnson & Neal 2014)",
    "tables": ["verdict", "runs"],
    "n_open": 1,
    "figures": [
        [f"results/split_hmc/figures/{name}.png", text]
        for name, text in {
            "cost": "What an independent draw costs in gradients; hollow: as printed.",
            **{
                f"{problem}/{name}": f"{problem}: {text}"
                for problem in SPLIT_HMC
                for name, text in {
                    "traces": "traces of each method.",
                    "autocorrelation": "autocorrelation of each method.",
                }.items()
            },
            "figure_1": "Hamiltonian Monte Carlo and random walk Metropolis on a "
            "bivariate normal.",
            "figure_2": "Two features, two classes and the fitted boundary.",
            "figure_3": "The potential energy and its slope, and those of its Gaussian "
            "part.",
            "figure_4": "The cases nearest to the boundary, and the slope of the "
            "potential energy that they make up.",
        }.items()
        if STUDIES["split_hmc"]["illustrations"] or not name.startswith("figure_")
    ],
}


localrules:
    split_hmc_summarise,
    split_hmc_figure_illustrations,
    split_hmc_figure_cost,
    split_hmc_figure_runs,


include: "split_hmc/fit.smk"
include: "split_hmc/sample.smk"
include: "split_hmc/summarise.smk"
include: "split_hmc/figures.smk"
