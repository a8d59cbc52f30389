"""Thread-group launches (THInfer Eqs 10, 19)."""

from __future__ import annotations

import numpy as np

from explorer.costs.arrays import ONE, Array


def pass_launch_seconds(create_seconds: Array, launch_seconds: Array) -> Array:
    """Return what starting one unified kernel for a stage pass costs [s] (Eq. 10)."""
    return create_seconds + launch_seconds


def operator_launch_seconds(
    operators: Array, create_seconds: Array, launch_seconds: Array
) -> Array:
    """Return what launching every operator as a thread group of its own costs [s] (Eq. 11)."""
    return operators * (create_seconds + launch_seconds)


def layer_launch_seconds(tp: Array, launch_seconds: Array) -> Array:
    """Return the launches within one layer [s]: two with TP, none without (Eqs 18, 19)."""
    return np.where(tp > 1, 2 * ONE, 0 * ONE) * launch_seconds
