"""supportmatch: classify subgroups that your labels never showed.

Data has a class y and a subgroup s; a pair (y, s) is a *source*. Suppose the labelled **training set** has no row at
all of some sources (purple fours; women with a high income). A classifier trained on it learns the subgroup instead of
the class. An unlabelled **deployment set** does contain every source. Support-matching learns from both::

    labelled, unlabelled -> audit -> cluster ids -> bags -> encoder -> classifier -> per-source table

    audit       which sources are missing, and what can be identified at all
    clustering  divide the deployment set, helped by labels, so that balanced *bags* can be drawn from it
    bags        training bags fill the slots of a missing source from the same class
    matching    an encoder x -> (z, s~) and a set-discriminator that tells training bags from deployment bags on z:
                when it cannot, z no longer shows the subgroup within classes that lack sources
    classifier  y from z
    metrics     success is *robust accuracy*, the minimum accuracy over subgroups

Importing this package loads neither torch nor scikit-learn; public names are fetched when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supportmatch.audit import SourceAudit, audit_sources
    from supportmatch.baselines.cluster_labels import ClusterLabelClassifier
    from supportmatch.baselines.complete_support import CompleteSupportClassifier
    from supportmatch.baselines.dro import DroClassifier
    from supportmatch.baselines.erm import ErmClassifier
    from supportmatch.baselines.george import GeorgeClassifier
    from supportmatch.baselines.group_dro import GroupDroClassifier
    from supportmatch.baselines.lff import LffClassifier
    from supportmatch.baselines.pseudo_label import PseudoLabelClassifier
    from supportmatch.checkpoint import load_model as load
    from supportmatch.clustering import Clusters, cluster_deployment
    from supportmatch.config import Config, preset
    from supportmatch.data.containers import Labeled, Unlabeled
    from supportmatch.data.images import open_images
    from supportmatch.data.problems import Problem, Setting, load_problem
    from supportmatch.data.synthetic import make_sources
    from supportmatch.errors import SupportMatchError, SupportMatchWarning
    from supportmatch.estimator import SupportMatchingClassifier
    from supportmatch.hardware import Hardware
    from supportmatch.metrics import Evaluation, evaluate
    from supportmatch.sources import SourceGrid, Support

__version__ = "0.1.0"

_HOMES = {
    "ClusterLabelClassifier": "baselines.cluster_labels",
    "Clusters": "clustering",
    "CompleteSupportClassifier": "baselines.complete_support",
    "Config": "config",
    "DroClassifier": "baselines.dro",
    "ErmClassifier": "baselines.erm",
    "Evaluation": "metrics",
    "GeorgeClassifier": "baselines.george",
    "GroupDroClassifier": "baselines.group_dro",
    "Hardware": "hardware",
    "Labeled": "data.containers",
    "LffClassifier": "baselines.lff",
    "Problem": "data.problems",
    "PseudoLabelClassifier": "baselines.pseudo_label",
    "Setting": "data.problems",
    "SourceAudit": "audit",
    "SourceGrid": "sources",
    "Support": "sources",
    "SupportMatchError": "errors",
    "SupportMatchWarning": "errors",
    "SupportMatchingClassifier": "estimator",
    "Unlabeled": "data.containers",
    "audit_sources": "audit",
    "cluster_deployment": "clustering",
    "evaluate": "metrics",
    "load": "checkpoint",
    "load_problem": "data.problems",
    "make_sources": "data.synthetic",
    "open_images": "data.images",
    "preset": "config",
}

__all__ = [
    "ClusterLabelClassifier",
    "Clusters",
    "CompleteSupportClassifier",
    "Config",
    "DroClassifier",
    "ErmClassifier",
    "Evaluation",
    "GeorgeClassifier",
    "GroupDroClassifier",
    "Hardware",
    "Labeled",
    "LffClassifier",
    "Problem",
    "PseudoLabelClassifier",
    "Setting",
    "SourceAudit",
    "SourceGrid",
    "Support",
    "SupportMatchError",
    "SupportMatchWarning",
    "SupportMatchingClassifier",
    "Unlabeled",
    "audit_sources",
    "cluster_deployment",
    "evaluate",
    "load",
    "load_problem",
    "make_sources",
    "open_images",
    "preset",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"{__name__}.{_HOMES[name]}")
    return getattr(module, "load_model" if name == "load" else name)
