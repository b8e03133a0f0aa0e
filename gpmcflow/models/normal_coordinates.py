"""Normal coordinates of a `JointModel`."""

from __future__ import annotations

from gpmcflow.models.joint_model import JointModel
from gpmcflow.parameters.normal_coordinates import NormalCoordinates


def normal_coordinates(model: JointModel) -> NormalCoordinates:
    """Theta of standard normals; `InputError` for hyperpriors that have no transform."""
    return NormalCoordinates(model.names, model.free_priors)
