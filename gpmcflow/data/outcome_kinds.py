"""Kinds of outcomes: one entry answers what each place of an own-data analysis asks about a kind."""

from __future__ import annotations

from dataclasses import dataclass

# A few words for yes that the alphabet does not put behind their no.
YES_WORDS = {"yes", "y", "true", "t", "positive", "pos", "ja", "j", "case", "abnormal"}


@dataclass(frozen=True)
class OutcomeKind:
    """What is known of the outcomes of one kind.

    `likelihoods` by name, the first unless another is stated; `link` is the scale on which averages are
    compared: "identity", "log" (changes are factors) or "logit" (changes are points); `unit` is the setting
    that names the column beside the outcome, and `has_unit` says so; `scaling` is how y is made of the
    outcome, "mean" (standardised), "geometric" (divided by the geometric mean) or none; `typical` is what
    is predicted of a row, and `overall` what stands for all rows. `measured` outcomes are numbers with a
    density, `classified` ones have a most probable value, `level` is what a level is called where the
    outcome is one of them, `by_latents` averages of the response are made of latents. The rest are words:
    `words` and `choice` of a config, `done` of the column, `came` and `seen` of what was observed; `done`
    may hold {positive}, {unit} and {levels}.
    """

    name: str
    likelihoods: tuple[str, ...]
    link: str
    words: str
    choice: str
    done: str
    came: str
    seen: str = ""
    unit: str | None = None
    has_unit: str = ""
    scaling: str | None = None
    typical: str = "average"
    overall: str = "average"
    measured: bool = False
    classified: bool = False
    level: str = ""
    by_latents: bool = False

    @property
    def leveled(self) -> bool:
        """Whether the outcome is one of the target's levels."""
        return bool(self.level)

    @property
    def ratios(self) -> bool:
        """Whether changes of the response are factors."""
        return self.link == "log"

    @property
    def shares(self) -> bool:
        """Whether responses lie between 0 and 1, so that the page reports them in percent."""
        return self.link == "logit"


KINDS = {
    kind.name: kind
    for kind in (
        OutcomeKind(
            "binary",
            likelihoods=("probit", "logistic"),
            link="logit",
            words="two values",
            choice="yes or no; logistic is the other choice",
            done="the outcome; {positive} counts as 1",
            came="what happened",
            classified=True,
        ),
        OutcomeKind(
            "grades",
            likelihoods=("ordinal",),
            link="logit",
            words="ordered grades; or real, with likelihood: gaussian, where steps are equal",
            choice="ordered grades; {ordinal: {link: probit}} is the other choice",
            done="the outcome, ordered grades: {levels}",
            came="the grade seen",
            seen="the grade seen",
            classified=True,
            level="grade",
        ),
        OutcomeKind(
            "classes",
            likelihoods=("softmax",),
            link="logit",
            words="classes without an order; or grades, with levels in their order, or binary",
            choice="a probability for each class",
            done="the outcome, one of several classes: {levels}",
            came="the class seen",
            seen="the class seen",
            classified=True,
            level="class",
        ),
        OutcomeKind(
            "counts",
            likelihoods=("poisson", "negative_binomial", "zero_inflated", "hurdle"),
            link="log",
            words="whole numbers 0, 1, 2, ...; or real",
            choice="negative_binomial where counts vary more than Poisson's, else poisson",
            done="the outcome, as a count",
            came="what was counted",
            seen="the number counted",
            unit="exposure",
            has_unit="counts have an exposure",
        ),
        OutcomeKind(
            "binomial",
            likelihoods=("binomial", "beta_binomial"),
            link="logit",
            words="successes out of a number of trials",
            choice="successes out of trials; beta_binomial where they vary more than chance alone",
            done="the outcome, successes out of {unit}",
            came="what was counted",
            seen="the number counted",
            unit="trials",
            has_unit="a binomial one has trials",
        ),
        OutcomeKind(
            "share",
            likelihoods=("beta",),
            link="logit",
            words="shares above 0 and below 1, or percent; or real, with likelihood: gaussian",
            choice="shares, whose spread is smaller near 0 and 1",
            done="the outcome, as a share of 1",
            came="what was measured",
            measured=True,
        ),
        OutcomeKind(
            "positive",
            likelihoods=("log_normal", "gamma"),
            link="log",
            words="an amount above 0, on the log scale; or real, with likelihood: gaussian",
            choice="normal noise of the logarithm; the model gamma has the other choice",
            done="the outcome, on the log scale",
            came="what was measured",
            scaling="geometric",
            typical="median",
            measured=True,
        ),
        OutcomeKind(
            "survival",
            likelihoods=("survival",),
            link="log",
            words="a time above 0, some of which had not ended yet",
            choice="Weibull times; {survival: {law: loglogistic}} or lognormal are the other choices",
            done="the outcome: time to the end, or how long it was followed without one",
            came="what was seen",
            unit="event",
            has_unit="times to an end have an event",
            scaling="geometric",
            typical="median",
            overall="median",
            measured=True,
            by_latents=True,
        ),
        OutcomeKind(
            "real",
            likelihoods=("gaussian", "student_t", "heteroscedastic_gaussian"),
            link="identity",
            words="any number",
            choice="a number with noise; student_t if there are outliers",
            done="the outcome",
            came="what was measured",
            scaling="mean",
            measured=True,
            by_latents=True,
        ),
    )
}
