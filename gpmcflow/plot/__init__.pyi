from gpmcflow.plot.figures import calibration as calibration
from gpmcflow.plot.figures import effects as effects
from gpmcflow.plot.figures import evidence as evidence
from gpmcflow.plot.figures import map as map
from gpmcflow.plot.figures import predictive_check as predictive_check
from gpmcflow.plot.figures import prior_posterior as prior_posterior
from gpmcflow.plot.figures import residuals as residuals
