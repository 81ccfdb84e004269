"""Every mistake a user can make, each with its own type and one sentence of advice.

All are `ValueError`s, so that code written for scikit-learn catches them. Each message says what is wrong, what was
seen, and what to do.
"""

from __future__ import annotations


class SupportMatchError(ValueError):
    """The parent of every error this package raises on purpose."""


class ShapeError(SupportMatchError):
    """Arrays whose shapes do not fit each other or the method."""


class NotFiniteError(SupportMatchError):
    """NaN or infinity where a number is needed."""


class UnknownNameError(SupportMatchError):
    """A subgroup or class that was not declared."""


class TooFewSubgroupsError(SupportMatchError):
    """A declared set of subgroups with fewer than two members."""


class TooFewClassesError(SupportMatchError):
    """A classification task with fewer than two classes."""


class MissingClassError(SupportMatchError):
    """A class without a single training row: missing subgroups can be recovered, missing classes cannot."""


class TooFewDeploymentRowsError(SupportMatchError):
    """A deployment set that is too small to draw bags from."""


class FeatureMismatchError(SupportMatchError):
    """Deployment (or prediction) features that differ from the training features."""


class ConfigError(SupportMatchError):
    """Settings that contradict each other or the data."""


class DivergedError(SupportMatchError):
    """A loss that is no longer finite."""


class StoppedError(SupportMatchError):
    """Work that was stopped on request, at a point from which it can go on."""


class ProcessLostError(SupportMatchError):
    """A training that several processes share and that one of them has left."""


class ModelFileError(SupportMatchError):
    """A model folder that is incomplete, altered, or written by another version."""


class DataFolderError(SupportMatchError):
    """A folder of data that is not given, not there, incomplete or damaged."""


class TableFileError(SupportMatchError):
    """A file that is no table, or lacks what it should hold."""


class ResultFileError(SupportMatchError):
    """A file among the results that is torn or was not written by the benchmark."""


class SupportMatchWarning(UserWarning):
    """Something the user should know that does not stop the work: a dying cluster, training without matching."""
