# Study rmhmc_ais: evidence by annealing, beside EP and its correction.
from gpmcflow.pipeline.study_config import marked_settings

RMHMC_AIS = STUDIES["rmhmc_ais"]
ANNEALING = [
    name for name, method in RMHMC_AIS["methods"].items() if method["kind"] == "ais"
]

WEIGHTED = [
    name
    for name, method in RMHMC_AIS["methods"].items()
    if method["kind"] in ("ais", "importance_sampling")
]

REPORT["rmhmc_ais"] = {
    "title": "Evidence by annealing (Paquet & Fraccaro 2018)",
    "tables": ["verdict", "which_method", "evidence", "approximations"],
    "n_open": len(RMHMC_AIS["problems"]),
    "figures": [
        *[
            [f"results/rmhmc_ais/figures/{problem}/{name}.png", f"{problem}: {text}"]
            for name, text in {
                "evidence_against_time": "log evidence against compute time and floating-point "
                "operations, with error bars; lines are EP, corrected EP and Laplace.",
                "effective_size": "effective size of the weights along the longest ladder.",
                "acceptance": "acceptance rate and tuned step size along the longest ladder.",
                "posterior": "convergence of the posterior draws.",
                **{
                    f"log_weights_{method}": f"log weights of {method}."
                    for method in WEIGHTED
                },
            }.items()
            for problem in RMHMC_AIS["problems"]
            if ANNEALING or name not in ("effective_size", "acceptance")
            if RMHMC_AIS["sampling"] or name != "posterior"
        ],
        *(
            [
                [
                    "results/rmhmc_ais/figures/map.png",
                    "EP evidence over the hyperparameters.",
                ]
            ]
            if RMHMC_AIS["map"]
            else []
        ),
        *(
            [
                [
                    "results/rmhmc_ais/figures/figure_1.png",
                    "HMC and Riemannian-manifold HMC from the same start on a mixture of three "
                    "Gaussians.",
                ]
            ]
            if RMHMC_AIS["illustrations"]
            else []
        ),
    ],
}


localrules:
    rmhmc_ais_summarise,
    rmhmc_ais_figure_evidence,
    rmhmc_ais_figure_log_weights,
    rmhmc_ais_figure_ladders,
    rmhmc_ais_figure_posterior,
    rmhmc_ais_figure_map,
    rmhmc_ais_figure_illustration,


include: "rmhmc_ais/approximate.smk"
include: "rmhmc_ais/sample.smk"
include: "rmhmc_ais/evidence.smk"
include: "rmhmc_ais/illustrate.smk"
include: "rmhmc_ais/summarise.smk"
include: "rmhmc_ais/figures.smk"
