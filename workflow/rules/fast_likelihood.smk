# Study fast_likelihood: exact samplers of GP regression through fast stand-ins for its likelihood.
from gpmcflow.studies.fast_likelihood.types import (
    FAST_LIKELIHOOD_CODE,
    fast_likelihood_types,
)

FAST_LIKELIHOOD = fast_likelihood_types(STUDIES["fast_likelihood"])
FAST_LIKELIHOOD_RUNS = {
    name: [
        f"results/fast_likelihood/{name}/replicate_{k}.nc"
        for k in range(settings["replicates"])
    ]
    for name, settings in FAST_LIKELIHOOD.items()
}
# The paper's figure 2 is of its second type.
FAST_LIKELIHOOD_SHOWN = next(
    (name for name, settings in FAST_LIKELIHOOD.items() if settings["data"] == 2),
    next(iter(FAST_LIKELIHOOD)),
)

REPORT["fast_likelihood"] = {
    "title": "Fast likelihood approximations (Wang & Neal 2013)",
    "tables": ["verdict", "runs"],
    "figures": [
        [f"results/fast_likelihood/figures/{name}.png", text]
        for name, text in {
            "figure_2": f"{FAST_LIKELIHOOD_SHOWN}: autocorrelation of the log likelihood "
            "for the discretizing chain, and for tempered transitions where they were run; a thin "
            "line a data set.",
            "cost": "What an iteration costs against the autocorrelation time, a panel "
            "a type; on a dashed line an effective draw costs the same, on the solid one "
            "as much as by standard slice sampling.",
        }.items()
    ],
}


localrules:
    fast_likelihood_summarise,
    fast_likelihood_figure_2,
    fast_likelihood_figure_cost,


include: "fast_likelihood/sample.smk"
include: "fast_likelihood/summarise.smk"
