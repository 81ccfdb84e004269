"""MODEL_CARD.md, and the sentences that the card and the page share.

A sentence is made from what was measured; where nothing was, it says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from supportmatch.metrics import OVERALL, RATES
from supportmatch.report.content import MEASURED, TEST, ReportContent, Values

_LISTED = 8
"""Names in a sentence; of more, the rest is counted."""
_MOST_ROWS = 200
"""Rows of a table."""

METRIC_NAMES = {
    "accuracy": "Accuracy",
    "robust_accuracy": "Robust accuracy",
    "positive_rate_ratio": "Positive-rate ratio",
    "tpr_ratio": "TPR ratio",
    "tnr_ratio": "TNR ratio",
    "positive_rate_difference": "Positive-rate difference",
    "tpr_difference": "TPR difference",
    "tnr_difference": "TNR difference",
    "hgr": "HGR",
}
METRIC_MEANINGS = {
    "accuracy": "Share of rows whose class is predicted.",
    "robust_accuracy": "Lowest accuracy in a subgroup.",
    "positive_rate_ratio": "Smaller over larger rate of predicting the positive class; lowest over pairs of subgroups.",
    "tpr_ratio": "The same for rows of the positive class: how often they are recognised.",
    "tnr_ratio": "The same for rows of other classes: how often they are recognised as such.",
    "positive_rate_difference": "Largest difference of the rate of predicting the positive class between subgroups.",
    "tpr_difference": "The same for rows of the positive class.",
    "tnr_difference": "The same for rows of other classes.",
    "hgr": "Dependence of the predicted class on the subgroup: 0 none, 1 full.",
}
RATE_NAMES = {
    "accuracy": "Accuracy",
    "positive_rate": "Positive rate",
    "tpr": "True-positive rate",
    "tnr": "True-negative rate",
}

_CLUSTERINGS = {
    "mixture": "a Gaussian mixture on the codes of an autoencoder, with seen sources tied to their labelled rows",
    "factorised": "the product of two classifiers, of the class and of the subgroup, learned from training rows",
    "rank-statistics": "ranking statistics on the codes of an autoencoder, as in the paper",
    "kmeans": "k-means on the codes of an autoencoder, started from labelled rows",
}
_ATTENTION = {
    "gated": "weighs the rows of a bag by gated attention and judges the bag as a whole",
    "dot-product": "weighs the rows of a bag by dot-product attention and judges the bag as a whole",
    "instance": "judges rows one by one (the ablation)",
}
_CLASSIFIER_SAMPLING = {
    "pi": "with classes drawn equally often, and subgroups equally often within them",
    "sources": "with every seen source drawn equally often",
    "plain": "with rows drawn as they are",
}


@dataclass(frozen=True)
class Passage:
    """A heading and what it says; `applies` if the data at hand are an instance of it."""

    heading: str
    text: str
    applies: bool = False


@dataclass(frozen=True)
class Measured:
    """One of the numbers over all rows."""

    name: str
    meaning: str
    value: float | None
    interval: tuple[float, float] | None
    n: int


def render_card(content: ReportContent) -> str:
    """Return the model card in Markdown."""
    parts = [
        f"# {_md(content.title)}",
        *map(_md, verdict(content)),
        _bullets([*all_warnings(content)], "## Warnings"),
        "## Intended use",
        *map(_md, intended_use(content)),
        "## Data",
        _md(data_sentence(content)),
        _markdown_table(*_source_table(content), n_numeric=len(content.audit["subgroups"])),
        _bullets(content.audit["reasons"], "What follows for identification:"),
        _bullets(content.findings, "Worth a look:"),
        "## Method",
        *(f"**{_md(passage.heading)}.** {_md(passage.text)}" for passage in method(content)),
        "## Results",
        *_results(content),
        "## Limits and harms",
        "\n".join(
            f"- **{_md(p.heading)}**{' (this applies here)' if p.applies else ''}: {_md(p.text)}"
            for p in limits(content)
        ),
        "## How to repeat it",
        *_repeat(content),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _results(content: ReportContent) -> Iterable[str]:
    result = content.evaluation
    if result is None:
        yield _md(how_to_measure(content))
        return
    yield _md(
        f"Measured on {number(result['n'])} labelled rows; positive class: {result['positive_class']}. Intervals are "
        "95 %."
    )
    yield _markdown_table(
        ("metric", "value", "95 % interval", "n"),
        [(m.name, proportion(m.value), interval_text(m.interval), number(m.n)) for m in overall_metrics(result)],
        n_numeric=3,
    )
    missing = set(content.audit["missing"])
    yield _markdown_table(
        ("source", "accuracy", "95 % interval", "n"),
        [
            (
                f"{name} (missing in training)" if name in missing else name,
                proportion(cell["accuracy"]),
                interval_text(cell["interval"]),
                number(cell["n"]),
            )
            for name, cell in result["by_source"].items()
        ],
        n_numeric=3,
    )
    yield _markdown_table(
        ("subgroup", *(f"{RATE_NAMES[rate].lower()} [95 %], n" for rate in RATE_NAMES)),
        [(name, *(rate_text(rates, rate) for rate in RATE_NAMES)) for name, rates in result["by_subgroup"].items()],
        n_numeric=len(RATE_NAMES),
    )
    if result.get("calibration"):
        yield _md(calibration_sentence(result))
    yield _bullets(undefined_numbers(result), "Undefined, with reasons:")
    yield _md(alternatives_sentence(content))
    if content.alternatives:
        yield _markdown_table(
            ("method", "what it is", "robust accuracy", "accuracy"),
            [
                (
                    f"{other['name']} (chosen)" if other.get("chosen") else other["name"],
                    other.get("what", ""),
                    proportion(other.get("robust_accuracy")),
                    proportion(other.get("accuracy")),
                )
                for other in content.alternatives
            ],
            n_numeric=2,
        )


def _repeat(content: ReportContent) -> Iterable[str]:
    origin = content.provenance
    if command := origin.get("command"):
        yield _fenced(str(command), "sh")
    known = [f"Seed: {origin['seed']}."] if origin.get("seed") is not None else []
    known += [f"Date: {origin['date']}."] if origin.get("date") else []
    if versions := origin.get("versions"):
        known.append("Versions: " + ", ".join(f"{name} {version}" for name, version in versions.items()) + ".")
    yield _md(" ".join(known))
    if files := origin.get("files"):
        yield _markdown_table(
            ("file", "name", "rows", "SHA-256"),
            [
                (file.get("role", ""), file.get("name", ""), number(file.get("rows")), file.get("sha256") or "unknown")
                for file in files
            ],
        )
    if content.config:
        yield "Every setting, as it was used:"
        yield _fenced(config_text(content.config), "toml")


# Sentences that the page shows as well.


def verdict(content: ReportContent) -> list[str]:
    """Say what was found, in the order in which a reader needs it."""
    audit = content.audit
    missing = audit["missing"]
    n_sources = len(audit["classes"]) * len(audit["subgroups"])
    if not missing:
        said = [
            "Training shows every class with every subgroup: no source is missing, and labels alone tell class and "
            "subgroup apart."
        ]
    else:
        said = [f"Training lacks {len(missing)} of {n_sources} sources: {listed(missing)}. {_identification(audit)}"]
    return [*said, *_measured(content)]


def _identification(audit: Values) -> str:
    if audit["identifiability"] == "identified":
        return (
            "Labels and deployment rows together determine the classes in there, provided that the missing sources "
            "occur in the deployment set and look different from the seen ones."
        )
    if audit["identifiability"] == "identified if separable":
        return (
            "Labels and deployment rows determine the classes in there only if class and subgroup act separately on "
            "the features."
        )
    return (
        "Nothing in the data determines the classes in there: other readings fit the labels equally well. Do not rely "
        "on predictions for these sources without measuring them."
    )


def _measured(content: ReportContent) -> list[str]:
    result = content.evaluation
    if result is None:
        return [how_to_measure(content)]
    worst = worst_subgroup(result)
    said = f"On {number(result['n'])} labelled rows the accuracy is {proportion(result['accuracy'])}"
    if worst is not None and result["robust_accuracy"] is not None:
        said += (
            f", and {proportion(result['robust_accuracy'])} in the subgroup where it is lowest, {worst} (the "
            f"robust accuracy; 95 % interval {interval_text(result['robust_accuracy_interval'])}, n = "
            f"{number(result['by_subgroup'][worst]['n'])})"
        )
    said += "."
    without = [name for name in content.audit["missing"] if not result["by_source"].get(name, {}).get("n")]
    seen = {name: result["by_source"][name] for name in content.audit["missing"] if name not in without}
    if seen:
        name = min(seen, key=lambda source: seen[source]["accuracy"])
        where = (
            f"In {name}, which training never showed, it is"
            if len(seen) == 1
            else f"Of the sources that training never showed, {name} has the lowest:"
        )
        said += (
            f" {where} {proportion(seen[name]['accuracy'])} ({interval_text(seen[name]['interval'])}, n = "
            f"{number(seen[name]['n'])})."
        )
    # That a source was not measured is a warning, and not said twice; nor is that something simpler does better.
    return [
        said,
        *([alternatives_sentence(content)] if content.alternatives and not _better_alternatives(content) else []),
    ]


def how_to_measure(content: ReportContent) -> str:
    """Say that nothing was measured, and what to do about it."""
    missing = content.audit["missing"]
    which = f" that include {listed(missing)}" if missing else ""
    return (
        "How well the model does has not been measured. Collect some labelled rows"
        f"{which}, and run `supportmatch evaluate`."
    )


def all_warnings(content: ReportContent) -> tuple[str, ...]:
    """Return what must be read first, once each: from the fit, from the audit, and from the numbers."""
    said = []
    if not content.audit["missing"]:
        said.append(
            "Training lacks no source, so there is nothing to match: use an ordinary classifier that weights all "
            "sources equally."
        )
    if content.audit["identifiability"] == "not identified":
        said.append(
            "What the classes are in the missing sources is not identified by the data. Agreement between seeds is no "
            "evidence; labelled rows are."
        )
    if (end := end_of_game(content.history)) is not None and end > CLEARLY_TOLD:
        said.append(
            f"At the end of training the discriminator was still right about {end:.0%} of the bags, well above the 50% "
            "of guessing: the supports may not be matched. More steps or a larger adversarial weight may help."
        )
    if content.evaluation is not None:
        said += measured_warnings(content.evaluation, content.audit)
    if _better_alternatives(content):
        said.append(alternatives_sentence(content))
    return tuple(dict.fromkeys([*said, *content.warnings, *content.audit["warnings"]]))


def measured_warnings(result: Values, audit: Values) -> list[str]:
    """Return what must be read before a measurement: sources worse than by guessing, and what has no rows."""
    chance, said = 1 / len(audit["classes"]), []
    # The whole interval below: a few rows may be misread by chance.
    bad = [name for name, cell in result["by_source"].items() if cell["n"] and cell["interval"][1] < chance]
    if bad:
        said.append(
            f"In {listed(bad)} the model is right less often than by guessing ({chance:.0%}). It must not be used "
            "there: it may have learned the subgroup instead of the class, or the classes the wrong way round."
        )
    without = [name for name in audit["missing"] if not result["by_source"].get(name, {}).get("n")]
    if without:
        said.append(f"These rows include none of {listed(without)}, so how well the model does there is still unknown.")
    empty = [name for name, rates in result["by_subgroup"].items() if not rates["n"]]
    if empty:
        said.append(
            f"The test rows have none of subgroup {listed(empty)}, so nothing is known of it: the robust accuracy is "
            "that of the other subgroups."
        )
    return said


CLEARLY_TOLD = 0.75
"""A discriminator that is right more often at the end is warned about."""


def end_of_game(history: Sequence[Mapping[str, float]]) -> float | None:
    """Return the discriminator's mean accuracy in the last tenth of the history; None without one."""
    values = [row["discriminator_accuracy"] for row in history if row.get("discriminator_accuracy") is not None]
    last = values[-max(1, len(values) // 10) :]
    return sum(last) / len(last) if last else None


def intended_use(content: ReportContent) -> list[str]:
    """Say what the model is for and what it is not for."""
    audit = content.audit
    what = "rows of a table" if content.kind == "table" else "images"
    which = "training" if audit["n_deploy"] is None else "deployment"
    return [
        f"For assigning one of the classes {listed(audit['classes'])} to {what} like those of the {which} set, "
        f"whose subgroups are {listed(audit['subgroups'])}. Predicting needs no subgroup.",
        "Not for rows from elsewhere, for other classes or undeclared subgroups, and not for decisions about people "
        "before its accuracy was measured in every source that occurs there, with a person who answers for each "
        "decision and a way to object to it.",
    ]


def data_sentence(content: ReportContent) -> str:
    """Say how many rows there are and how class and subgroup depend on each other."""
    audit = content.audit
    n_deploy = audit["n_deploy"]
    deploy = "no deployment rows" if n_deploy is None else f"{number(n_deploy)} deployment rows without labels"
    return (
        f"{number(audit['n_train'])} labelled training rows and {deploy}. Setting: {audit['setting']}. Dependence of "
        f"class and subgroup in training (0 none, 1 full): HGR {audit['hgr']:.2f}, normalised mutual information "
        f"{audit['nmi']:.2f}. Verdict: {audit['identifiability']}."
    )


def method(content: ReportContent) -> list[Passage]:
    """Say in words what was done, as far as the configuration tells it."""
    if not content.config:
        return [Passage("Configuration", "It was not kept with this report, so what was done cannot be told.")]
    get = _Settings(content.config)
    passages = [Passage("Reading", _reading(content, get))]
    if content.audit["n_deploy"] is None:
        passages.append(
            Passage(
                "Matching",
                "There was no deployment set, so supports were not matched: this is an ordinary classifier on an "
                "autoencoder's codes.",
            )
        )
    else:
        passages += _matching(content, get)
    hidden = get("classifier.hidden")
    form = "A linear classifier" if not hidden else f"A classifier with {len(hidden)} hidden layer(s)"
    passages.append(
        Passage(
            "Classifying",
            f"{form} learned the class from z, on labelled rows alone, for {get('classifier.epochs', 'some')} epochs, "
            f"{_CLASSIFIER_SAMPLING.get(get('classifier.sampling'), 'drawn in a way of its own')}.",
        )
    )
    if content.clusters and (final := content.clusters.get("final")):
        passages.append(Passage("Predicting", final))
    return passages


def _reading(content: ReportContent, get: _Settings) -> str:
    if content.kind == "images":
        prepared = content.provenance.get("prepared") or "read as they are"
        return f"Pictures were {prepared}; their pixels are the features."
    kinds = [column["kind"] for column in content.columns]
    said = "Numeric columns were standardised, categorical ones became one indicator per value"
    if kinds:
        became = {"numeric": "standardised", "categorical": "turned into one indicator per value", "dropped": "dropped"}
        numbers = {kind: kinds.count(kind) for kind in became if kind in kinds}
        said = ", ".join(
            f"{_count(n, 'column' if kind == 'dropped' else f'{kind} column')} {_were(n)} {became[kind]}"
            for kind, n in numbers.items()
        )
    empty = {
        "refuse": " Empty cells are refused.",
        "own-category": (
            " Of empty cells, numbers became the median of training and a mark says that they were empty; categories "
            "have a value of their own for it."
        ),
    }
    policy = get("table.missing")
    if policy == "own-category" and kinds and not any(c["missing"] for c in content.columns if c["kind"] != "dropped"):
        return f"{said}."
    return f"{said}.{empty.get(policy, '')}"


def _matching(content: ReportContent, get: _Settings) -> list[Passage]:
    passages = []
    balanced = get("bags.balancing") == "clusters"
    if content.clusters:
        how = _CLUSTERINGS.get(content.clusters["method"], content.clusters["method"])
        passages.append(
            Passage(
                "Clustering",
                f"The deployment rows were divided into {len(content.clusters['names'])} clusters by {how}. No label "
                "of a deployment row was used.",
            )
        )
    drawn = "equally from the clusters" if balanced and content.clusters else "as the rows are, without balancing"
    passages.append(
        Passage(
            "Drawing bags",
            f"In every step {get('bags.n_bags', 'some')} bags of {get('bags.bag_size', 'some')} rows were drawn from "
            "either set. Training bags hold all classes equally often; in the place of a missing source they hold "
            f"rows of the same class from subgroups that were seen. Deployment bags were drawn {drawn}.",
        )
    )
    if not get("matching.adversarial_weight"):
        text = "The adversarial weight is 0, so supports were not matched (the ablation)."
    else:
        judge = _ATTENTION.get(get("discriminator.attention"), "judges bags")
        text = (
            f"For {number(get('matching.steps'))} steps an encoder that splits each row into z and a side channel s~ "
            f"played against a discriminator, which {judge}. The discriminator learned to tell deployment bags from "
            "training bags by z; the encoder learned to keep it from that, while a decoder could still restore the row "
            f"from z and s~ together (adversarial weight {get('matching.adversarial_weight', 0):g}, reconstruction "
            f"weight {get('matching.reconstruction_weight', 0):g})."
        )
        if (guided := get("matching.guided_steps")) and get("matching.class_weight"):
            text += (
                f" In the first {number(min(guided, get('matching.steps')))} steps z also had to tell the classes of "
                "deployment rows as their clusters are named."
            )
    return [*passages, Passage("Matching", text)]


def limits(content: ReportContent) -> list[Passage]:
    """Say what the method cannot do, and which of it applies here."""
    audit = content.audit
    many = len(audit["missing"]) >= 2 and len(audit["classes"]) > 2
    unmeasured = content.evaluation is None or any(
        not content.evaluation["by_source"].get(name, {}).get("n") for name in audit["missing"]
    )
    better = _better_alternatives(content)
    return [
        Passage("It cannot invent classes", "Every class needs labelled rows in at least one subgroup."),
        Passage(
            "A wholly missing subgroup is a gamble",
            "With no label at all from a subgroup, nothing in the data says which of its clusters is which class; only "
            "what is simplest to learn decides, be it how clusters are named or where a game ends. Both can be wrong.",
            applies=audit["setting"] == "missing subgroup",
        ),
        Passage(
            "Many missing sources at once are unreliable",
            "With several classes and several missing sources, clusters can be given wrong names, and training can end "
            "in a solution that takes one class for another in the subgroups that the class lacks.",
            applies=many,
        ),
        Passage(
            "The deployment set must contain the missing sources",
            "They must occur there in rows that look different from the seen ones. No audit can check that, because "
            "these rows have no labels.",
            applies=bool(audit["missing"]),
        ),
        Passage(
            "Simple things can be better",
            "A classifier of the subgroups that have all classes, or of rows that are labelled by their clusters, can "
            "do as well or better. Try the simple thing first.",
            applies=bool(better),
        ),
        Passage(
            "It measures and mitigates; it does not certify",
            "Accuracy on labelled rows that include the missing sources is the only evidence. Numbers hold for rows "
            "like those that were measured; intervals tell of chance alone, not of rows collected differently.",
            applies=unmeasured,
        ),
        Passage(
            "Subgroups are the declared ones",
            "How well the model does can differ within a subgroup, and nothing is known about subgroups that were not "
            "declared. Categories of people are simplifications that those people may not share.",
        ),
        Passage(
            "Predictions can harm",
            "An equal accuracy in every subgroup does not make a use of predictions right. Ask who bears which error, "
            "whether those concerned agreed to the collection of their data, and whether the decision needs a model.",
        ),
    ]


def alternatives_sentence(content: ReportContent) -> str:
    """Compare what was chosen with the rest, on the same rows; say so if these are not the rows measured last."""
    if not content.alternatives:
        return "No simpler method was measured; fit with `--test` to have them measured."
    chosen = next((other for other in content.alternatives if other.get("chosen")), None)
    better = _better_alternatives(content)
    if chosen is None:
        return "Several methods were compared; none of them is marked as chosen."
    if chosen.get("robust_accuracy") is None:
        return f"{chosen['name']} was chosen; its robust accuracy was not measured."
    score = proportion(chosen["robust_accuracy"])
    start, which = "", "the same"
    if elsewhere := _rows_of_alternatives(content):
        start = f"The methods were compared at the fit, on other rows ({elsewhere}) than those measured here. "
        which = "those"
    if better:
        reached = listed(f"{other['name']} ({proportion(other['robust_accuracy'])})" for other in better)
        return (
            f"{start}On {which} rows {reached} reached at least the robust accuracy of {chosen['name']} ({score}), "
            "which was chosen: consider the simplest of them."
        )
    return (
        f"{start}Of the methods compared on {which} rows, {chosen['name']} was chosen, with a robust accuracy of "
        f"{score}. None of the others reached that."
    )


def _rows_of_alternatives(content: ReportContent) -> str:
    """Return name and count of the rows that the alternatives were measured on, if others were measured since."""
    files = {file.get("role"): file for file in content.provenance.get("files", ())}
    if MEASURED not in files or TEST not in files:
        return ""
    return f"{clipped(str(files[TEST].get('name', 'of no name')))}, n = {number(files[TEST].get('rows'))}"


def _better_alternatives(content: ReportContent) -> list[Values]:
    chosen = next((other for other in content.alternatives if other.get("chosen")), None)
    if chosen is None or chosen.get("robust_accuracy") is None:
        return []
    others = [other for other in content.alternatives if not other.get("chosen")]
    return [o for o in others if (o.get("robust_accuracy") or 0.0) >= chosen["robust_accuracy"]]


def calibration_sentence(result: Values) -> str:
    """Say how far stated probabilities are from what happens, in all and where it is worst."""
    calibration = result["calibration"]
    if calibration.get("ece") is None:
        return "Calibration could not be measured."
    said = (
        f"Expected calibration error {calibration['ece']:.3f} (n = {number(result['n'])}): by so much does the "
        "stated probability of the predicted class differ, on average, from the share of right predictions."
    )
    known = {name: value for name, value in calibration.get("by_subgroup", {}).items() if value is not None}
    if known:
        worst = max(known, key=lambda name: known[name])
        n = number(result["by_subgroup"][worst]["n"])
        said += f" It is largest in subgroup {worst}, {known[worst]:.3f} (n = {n})."
    return said


def overall_metrics(result: Values) -> list[Measured]:
    """Return every number over all rows, with the number of rows that it rests on."""
    rows = []
    for name in OVERALL:
        n = result["n"]
        for rate in RATES:
            if name.startswith(rate):
                n = sum(rates[f"{rate}_n"] for rates in result["by_subgroup"].values())
        label = METRIC_NAMES[name]
        if name == "robust_accuracy" and (worst := worst_subgroup(result)) is not None:
            n, label = result["by_subgroup"][worst]["n"], f"{label} ({worst})"
        span = result[f"{name}_interval"]
        rows.append(Measured(label, METRIC_MEANINGS[name], result[name], (span[0], span[1]) if span else None, n))
    return rows


def worst_subgroup(result: Values) -> str | None:
    """Return the subgroup that sets the robust accuracy (the first, if several do)."""
    present = {name: rates["accuracy"] for name, rates in result["by_subgroup"].items() if rates["n"]}
    return min(present, key=lambda name: present[name]) if present else None


def undefined_numbers(result: Values) -> list[str]:
    """Say of every number that could not be computed why; those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in result["undefined"].items():
        by_reason.setdefault(reason, []).append(undefined_name(name))
    return [f"{listed(names)}: {reason}." for reason, names in by_reason.items()]


def undefined_name(key: str) -> str:
    """Return the name of an undefined number in words.

    >>> undefined_name("by_source[4/purple].accuracy"), undefined_name("tpr_ratio")
    ('Accuracy for 4/purple', 'TPR ratio')
    """
    found = re.fullmatch(r"by_(?:source|subgroup|pair)\[(.*)\]\.(\w+)", key, re.DOTALL)
    where, name = (found[1], found[2]) if found else ("", key)
    of_interval = name.endswith("_interval")
    name = name.removesuffix("_interval")
    words = {**METRIC_NAMES, **RATE_NAMES}.get(name, name.replace("_", " "))
    return words + (" (interval)" if of_interval else "") + (f" for {where}" if where else "")


def config_text(config: Values) -> str:
    """Return settings as TOML; what is not set is a comment.

    >>> print(config_text({"bags": {"n_bags": 8}, "clustering": {"n_clusters": None, "method": "mixture"}}))
    [bags]
    n_bags = 8
    <BLANKLINE>
    [clustering]
    # n_clusters is not set
    method = "mixture"
    """
    return "\n\n".join(_config_blocks(config, ""))


def _config_blocks(config: Values, path: str) -> list[str]:
    own = {name: value for name, value in config.items() if not isinstance(value, dict)}
    lines = [f"[{path}]"] if path and own else []
    for name, value in own.items():
        lines.append(f"# {name} is not set" if value is None else f"{name} = {json.dumps(value, ensure_ascii=False)}")
    blocks = ["\n".join(lines)] if lines else []
    for name, value in config.items():
        if isinstance(value, dict):
            blocks += _config_blocks(value, f"{path}.{name}" if path else name)
    return blocks


class _Settings:
    """Looks up settings by dotted name; an older or newer version may not have all of them."""

    def __init__(self, config: Values) -> None:
        self.config = config

    def __call__(self, name: str, default: Any = None) -> Any:
        value: Any = self.config
        for part in name.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return default if value is None else value


# Words and numbers.


def listed(names: Iterable[object], most: int = _LISTED) -> str:
    """Join names; of too many, say how many more there are.

    >>> listed("abcd", most=3)
    'a, b, c and 1 more'
    """
    named = [clipped(str(name)) for name in names]
    rest = f" and {len(named) - most} more" if len(named) > most else ""
    return ", ".join(named[:most]) + rest


def clipped(text: str, most: int = 200) -> str:
    """Shorten a text that nobody would read.

    >>> clipped("abcdef", most=4)
    'abc…'
    """
    return text if len(text) <= most else f"{text[: most - 1]}…"


def number(value: float | None) -> str:
    """Return a count with separators.

    >>> number(12345), number(None)
    ('12,345', 'unknown')
    """
    return "unknown" if value is None else f"{value:,.0f}"


def proportion(value: float | None) -> str:
    """Return a number between 0 and 1 with three digits.

    >>> proportion(0.98765), proportion(None)
    ('0.988', 'undefined')
    """
    return "undefined" if value is None or not isfinite(value) else f"{value:.3f}"


def interval_text(interval: Sequence[float] | None) -> str:
    """Return both ends.

    >>> interval_text((0.9, 1.0)), interval_text(None)
    ('0.900 to 1.000', 'undefined')
    """
    return "undefined" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"


def rate_text(rates: Values, rate: str) -> str:
    """Return a rate within a subgroup with interval and n."""
    if rates[rate] is None:
        return "undefined, n = 0"
    low, high = rates[f"{rate}_interval"]
    return f"{rates[rate]:.3f} [{low:.3f}, {high:.3f}], n = {number(rates[f'{rate}_n'])}"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _were(n: int) -> str:
    return "was" if n == 1 else "were"


# Markdown.


def _source_table(content: ReportContent) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    audit = content.audit
    head = ("class", *map(str, audit["subgroups"]))
    rows = [
        (str(name), *(number(n) if n else "0 (missing)" for n in counts))
        for name, counts in zip(audit["classes"], audit["counts"], strict=True)
    ]
    return head, rows


def _markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], n_numeric: int = 0) -> str:
    """Return a table whose last columns hold numbers."""
    align = ["---"] * (len(head) - n_numeric) + ["---:"] * n_numeric
    lines = [_line(map(_md, head)), _line(align), *(_line(map(_md, row)) for row in rows[:_MOST_ROWS])]
    more = len(rows) - _MOST_ROWS
    return "\n".join(lines) + (f"\n\n{more} more rows are not shown." if more > 0 else "")


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _bullets(texts: Sequence[str], heading: str = "") -> str:
    """Return a list under a heading; nothing at all if there is nothing to list."""
    if not texts:
        return ""
    lines = [f"- {_md(text)}" for text in texts[:_MOST_ROWS]]
    if len(texts) > _MOST_ROWS:
        lines.append(f"- and {len(texts) - _MOST_ROWS} more")
    return "\n\n".join([*([heading] if heading else []), "\n".join(lines)])


_SPECIAL = re.compile(r"([\\*_{}\[\]<>#|~$&!])")


def _md(text: str) -> str:
    r"""Escape what Markdown, or HTML in it, would take for markup; pairs of backticks stay code.

    >>> _md("a|b <i> `x_y` c_d")
    'a\\|b \\<i\\> `x_y` c\\_d'
    """
    flat = " ".join(clipped(text, 2_000).split())
    parts = re.split(r"(`[\w ./=-]+`)", flat)
    return "".join(part if i % 2 else _SPECIAL.sub(r"\\\1", part).replace("`", "\\`") for i, part in enumerate(parts))


def _fenced(text: str, language: Literal["sh", "toml"]) -> str:
    """Return a code block whose fence is longer than any in the text."""
    longest = max(map(len, re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
