"""Rewrite the generated parts of docs/experiments.md and README.md, and the figures, from benchmarks/experiments.

    python benchmarks/experiments.py              # tables, box plots and clusters
    python benchmarks/experiments.py --runs DIR   # also figures of single runs, from what `bench run --out DIR` left
    python benchmarks/experiments.py --text-only  # tables only

A figure of single runs is drawn for the methods named by `--methods`.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from supportmatch.bench.compare import (
    ORACLE_MARK,
    cells_of,
    clusters_markdown,
    compare_with_authors,
    markdown_table,
    medians_markdown,
    present_configuration,
    read_authors,
    shown_metrics,
)
from supportmatch.bench.methods import METHODS
from supportmatch.bench.runs import REFUSED, is_failed, is_refused
from supportmatch.bench.store import Row, Store
from supportmatch.data.problems import SETTINGS

HERE = Path(__file__).parent
ROWS = HERE / "experiments"
PAGE = HERE.parent / "docs" / "experiments.md"
README = HERE.parent / "README.md"
CHOOSING = PAGE.parent / "explanation" / "choosing.md"
SCORES = HERE / "trials" / "scores.jsonl"
PAGES = (PAGE, README, CHOOSING)
FIGURES = PAGE.parent / "figures"
IN_README = {
    "erm": "ordinary classifier",
    "erm-complete-support": "complete support",
    "cluster-labels": "cluster labels",
    "ours-clustering": "matching alone",
    "supportmatch": "`fit`",
}
RIVALS = ("ours-clustering", "erm-complete-support", "pseudo-label", "cluster-labels", "pseudo-label-boosted")
"""What the default must not be worse than."""
SCORE_NAMES = {
    "bag_accuracy": "a fresh discriminator on frozen z (the paper's)",
    "reconstruction": "reconstruction error on deployment rows",
    "training_accuracy": "accuracy on training rows",
    "worst_source": "lowest accuracy in a seen source",
    "class_in_z": "dependence of z and class, training rows",
    "subgroup_in_z": "dependence of z and subgroup, training rows",
    "entropy": "entropy of predictions on deployment rows",
    "agreement": "agreement with the named clusters",
    "restart_agreement": "agreement with a whole second fit of another seed",
    "simplicity": "score of the run's own names less that of the best others",
}
"""Scores without labels, in rows of `trials/scores.py`."""
_PART = re.compile(r"(<!-- generated: (?P<name>[\w:-]+) -->\n).*?(<!-- end generated -->)", flags=re.DOTALL)

FRESH_SEEDS = {"adult": range(5, 10)}
"""By family: neither the adversarial weight nor `lff` was changed after a look at these."""


def generated_parts(rows: Sequence[Row], figures: Mapping[str, str]) -> dict[str, str]:
    """Return the generated parts of the page by name.

    Args:
        rows: The committed rows.
        figures: Alt text of each figure by file name.
    """
    parts = {
        "methods": _methods(),
        "budgets": compare_budgets(rows),
        "provenance": _provenance(rows),
        "overview": _overview(rows),
        "default": compare_default(rows),
        "scores": correlate_scores([json.loads(line) for line in SCORES.read_text(encoding="utf-8").splitlines()]),
    }
    for setting in SETTINGS:
        own = [row for row in rows if row["setting"] == setting]
        parts[f"results:{setting}"] = _results(setting, own)
        parts[f"figures:{setting}"] = _figures(setting, figures)
    return parts


def fill(page: str, parts: Mapping[str, str]) -> str:
    """Return the page with every generated part renewed."""
    return _PART.sub(lambda found: f"{found[1]}\n{parts[found['name']]}\n\n{found[3]}", page)


def _methods() -> str:
    rows = [
        [f"`{method.name}`" + (f" {ORACLE_MARK}" if method.sees_deployment_labels else ""), method.summary]
        for method in METHODS.values()
    ]
    return markdown_table([["method", "what it is"], *rows])


def compare_budgets(rows: Sequence[Row]) -> str:
    """Return a table of median robust accuracy with either budget, on the seeds that have both."""
    by_budget: dict[str, dict[tuple[str, str, int], float]] = {"fast": {}, "paper": {}}
    for row in rows:
        if row["budget"] in by_budget and row["robust_accuracy"] is not None:
            by_budget[row["budget"]][row["setting"], row["method"], row["seed"]] = row["robust_accuracy"]
    fast, paper = by_budget["fast"], by_budget["paper"]
    seeds: dict[tuple[str, str], list[int]] = {}
    for setting, method, seed in sorted(fast.keys() & paper.keys()):
        seeds.setdefault((setting, method), []).append(seed)
    lines = [["setting", "method", "n", "fast", "paper", "largest difference on a seed"]]
    for cell, own in seeds.items():
        values = np.array([[budget[(*cell, seed)] for seed in own] for budget in (fast, paper)])
        medians = (f"{median:.3f}" for median in np.median(values, axis=1))
        lines.append([*cell, str(len(own)), *medians, f"{abs(values[0] - values[1]).max():.3f}"])
    return markdown_table(lines)


def _overview(rows: Sequence[Row]) -> str:
    """Return the short table of the README: the embedded settings, the methods a reader should know of."""
    lines = [["setting", *IN_README.values()]]
    for setting in (setting for setting in SETTINGS.values() if setting.family in ("cmnist", "adult")):
        cells = [setting.summary]
        for method in IN_README:
            own = [r for r in rows if (r["setting"], r["method"], r["budget"]) == (setting.name, method, "fast")]
            values = [row["robust_accuracy"] for row in own if row["robust_accuracy"] is not None]
            spread = f"{np.median(values):.3f} [{min(values):.3f}, {max(values):.3f}], {len(values)}" if values else "-"
            cells.append(spread)
        lines.append(cells)
    return markdown_table(lines)


def compare_default(rows: Sequence[Row]) -> str:
    """Return a table of the default beside the authors, and the means of its rivals on the same seeds."""
    found: dict[tuple[str, str], dict[int, Row]] = {}
    for row in rows:
        if row["budget"] == "fast" and row["robust_accuracy"] is not None:
            found.setdefault((row["setting"], row["method"]), {})[row["seed"]] = row
    authors = read_authors()
    lines = [["setting", "seeds", "mean", "median", "min", "z alone: mean", "authors: mean / median / min", *RIVALS]]
    for setting in SETTINGS:
        own = found.get((setting, "supportmatch"), {})
        if not own:
            continue
        values = np.array([row["robust_accuracy"] for row in own.values()])
        theirs = authors.get((setting, "ours-clustering", "robust_accuracy"))
        cells = [f"`{setting}`", str(len(own)), *(f"{f(values):.3f}" for f in (np.mean, np.median, np.min))]
        cells.append(f"{np.mean([row['details'].get('z_alone', row['robust_accuracy']) for row in own.values()]):.3f}")
        cells.append(f"{theirs.mean:.3f} / {theirs.median:.3f} / {theirs.min:.3f}" if theirs else "-")
        for rival in RIVALS:
            shared = [seed for seed in own if seed in found.get((setting, rival), {})]
            if not shared:
                cells.append("-")
                continue
            theirs_mean, own_mean = (
                np.mean([by_seed[seed]["robust_accuracy"] for seed in shared])
                for by_seed in (found[setting, rival], own)
            )
            cells.append(f"{theirs_mean:.3f} ({own_mean:.3f}), {len(shared)}")
        lines.append(cells)
    note = "Last columns: the rival's mean (that of the default on the same seeds), and the number of seeds."
    return f"{markdown_table(lines)}\n\n{note}"


def correlate_scores(rows: Sequence[Row]) -> str:
    """Return the rank correlation of every score with true robust accuracy, by setting, as Markdown."""
    by_setting: dict[str, list[Row]] = {}
    for row in rows:
        by_setting.setdefault(row["setting"], []).append(row)
    lines = ["| score | " + " | ".join(f"{name} (n = {len(own)})" for name, own in by_setting.items()) + " |"]
    lines.append("|---" * (len(by_setting) + 1) + "|")
    for score, what in SCORE_NAMES.items():
        cells = []
        for own in by_setting.values():
            pairs = [(row[score], row["robust"]) for row in own if row[score] is not None]
            values, truth = (np.array(column) for column in zip(*pairs, strict=True)) if pairs else ((), ())
            told = len(set(values)) > 1
            cells.append(f"{float(spearmanr(values, truth)[0]):+.2f}" if told else "-")
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    truths = [[row["robust"] for row in own] for own in by_setting.values()]
    spread = [f"{min(robust):.2f} to {max(robust):.2f}" for robust in truths]
    return "\n".join([*lines, "| *robust accuracy of the runs* | " + " | ".join(spread) + " |"])


def _results(setting: str, rows: Sequence[Row]) -> str:
    if not rows:
        return "No rows of this setting are committed."
    medians = medians_markdown(rows, shown_metrics(setting))
    blocks = [
        compare_with_authors(rows, every=True).to_markdown(),
        f"Medians of every metric (the authors' in brackets):\n\n{medians}",
    ]
    scored = [row for row in rows if row["budget"] == "fast" and row["robust_accuracy"] is not None]
    fresh = [row for row in scored if row["seed"] in FRESH_SEEDS.get(SETTINGS[setting].family, ())]
    if fresh:
        seeds = FRESH_SEEDS[SETTINGS[setting].family]
        lines = [
            [f"`{method}`", str(len(values)), f"{np.median(values):.3f} [{min(values):.3f}, {max(values):.3f}]"]
            for method in dict.fromkeys(row["method"] for row in fresh)
            if (values := [row["robust_accuracy"] for row in fresh if row["method"] == method])
        ]
        table = markdown_table([["method", "n", "median [min, max]"], *lines])
        blocks.insert(1, f"Seeds {seeds[0]}-{seeds[-1]} alone (robust accuracy):\n\n{table}")
    if clusters := clusters_markdown(rows):
        blocks.append(f"Clustering of the deployment set, scored with its labels after the fact:\n\n{clusters}")
    earlier = [
        f"`{cell[1]}`" if cell[2] == "fast" else f"`{cell[1]}` [{cell[2]}]"
        for cell, own in cells_of(rows).items()
        if (present := present_configuration(cell)) is not None and any(row["config"] != present for row in own)
    ]
    if earlier:
        blocks.insert(1, f"Made with earlier settings than the present defaults: {', '.join(earlier)}.")
    refused = {row["method"]: row["error"].removeprefix(REFUSED) for row in rows if is_refused(row)}
    if refused:
        blocks.append("Not applicable: " + " ".join(f"`{method}`: {reason}" for method, reason in refused.items()))
    return "\n\n".join(blocks)


def _figures(setting: str, figures: Mapping[str, str]) -> str:
    own = [
        name for name in sorted(figures) if f"{name.partition('-')[2].removesuffix('.png')}-".startswith(f"{setting}-")
    ]
    return (
        "\n\n".join(f"![{figures[name]}](figures/{name})" for name in own) or "No figure of this setting is committed."
    )


def _provenance(rows: Sequence[Row]) -> str:
    """Say what made the rows, and which runs failed."""
    if not rows:
        return "No rows are committed."
    failed = [row for row in rows if is_failed(row)]
    versions = Counter(", ".join(f"{name} {number}" for name, number in row["versions"].items()) for row in rows)
    hours = sum(row["cpu_seconds"] or row["seconds"] or 0 for row in rows) / 3600
    n_imported = sum("imported" in row for row in rows)
    lines = [
        f"- {len(rows)} rows, {sum(is_refused(row) for row in rows)} of them refusals and {len(failed)} failures; "
        f"{hours:.1f} hours of work on one core.",
        *([f"- {n_imported} of them were made by the script of release 0.1 and taken over."] if n_imported else []),
        *(f"- {n} rows: {text}." for text, n in sorted(versions.items())),
        "- Hashes of the package's source (`code` in each row): "
        f"{', '.join(f'{code} ({n} rows)' for code, n in sorted(Counter(row['code'] for row in rows).items()))}. "
        "Many runs were made while the code was being written, so not every hash is that of a commit.",
        *(f"- Failed: {row['setting']}, {row['method']}, seed {row['seed']}: {row['error']}" for row in failed),
    ]
    return "\n".join(lines)


def main() -> None:
    """Read the command line and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, default=ROWS, help="folder with rows.jsonl")
    parser.add_argument("--runs", type=Path, help="folder of the results, for figures of single runs")
    parser.add_argument("--methods", nargs="+", default=["ours-clustering"], help="methods with figures of single runs")
    parser.add_argument("--text-only", action="store_true", help="draw nothing")
    chosen = parser.parse_args()
    from supportmatch.bench.figures import plot_all, read_index

    rows = Store(chosen.rows).rows()
    if rows and not chosen.text_only:
        store = Store(chosen.runs) if chosen.runs else None
        hashes = [row["config_hash"] for row in rows if row["method"] in chosen.methods]
        plot_all(rows, {h: store.run_folder(h) for h in hashes} if store else {}, FIGURES)
    parts = generated_parts(rows, read_index(FIGURES))
    for page in PAGES:
        page.write_text(fill(page.read_text(encoding="utf-8"), parts), encoding="utf-8")


if __name__ == "__main__":
    main()
