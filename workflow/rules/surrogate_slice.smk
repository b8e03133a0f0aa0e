# Study surrogate_slice: hyperparameters of latent Gaussian models, six representations and a joint sampler.
from gpmcflow.studies.surrogate_slice.settings import (
    JOINT_CODE,
    SURROGATE_SLICE_CODE,
    code_of,
    has_counts,
    replicate_files,
    run_settings,
    shown_method,
    surrogate_slice_methods,
)

SURROGATE_SLICE = surrogate_slice_methods(STUDIES["surrogate_slice"])
SURROGATE_SLICE_RUNS = replicate_files(STUDIES["surrogate_slice"])
SURROGATE_SLICE_DIGESTS = {
    code: code_digest(*code) for code in (SURROGATE_SLICE_CODE, JOINT_CODE)
}
SURROGATE_SLICE_COX = [
    name for name in SURROGATE_SLICE if has_counts(config["problems"][name])
]

REPORT["surrogate_slice"] = {
    "title": "Slice sampling covariance hyperparameters (Murray & Adams 2010)",
    "tables": ["verdict", "which_sampler", "efficiency", "posterior"],
    "figures": [
        [f"results/surrogate_slice/figures/{name}.png", text]
        for name, text in {
            "figure_3": "Effective samples per likelihood evaluation, covariance construction and "
            "second, relative to surr-site, with standard errors over the chains; burn-in and pilots "
            "are not counted. A gradient of joint-split counts as one of each, and takes the time of "
            "several; bars above 8 are cut, their height written on them.",
            "figure_1": "Three functions from the same whitened draw, and what each of them leaves "
            "of the posterior of the length scale.",
            "figure_2": "Proposals of another length scale by prior whitening and by surrogate data.",
            **{
                f"{problem}/intensity": f"{problem}: posterior intensity over the events."
                for problem in SURROGATE_SLICE_COX
            },
        }.items()
        if STUDIES["surrogate_slice"]["illustrations"]
        or name not in ("figure_1", "figure_2")
    ],
}


localrules:
    surrogate_slice_summarise,
    surrogate_slice_figure_3,
    surrogate_slice_figure_illustrations,
    surrogate_slice_figure_intensity,


include: "surrogate_slice/sample.smk"
include: "surrogate_slice/summarise.smk"
include: "surrogate_slice/figures.smk"
