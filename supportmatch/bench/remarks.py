"""Why our median robust accuracy differs from the authors', where that is known: shown where it does."""

from __future__ import annotations

_THREE_DIGITS = (
    "On most seeds digits that training lacks in a colour, green sixes above all, are read as others (`confusion` in "
    "the rows), although the clusters are right, and also with bags balanced by true labels. The text above this table "
    "says what was tried."
)
_ADULT_PLAIN = (
    "The authors' records say balanced batches, as here. Rows drawn as they come (`{}-plain`) explain over half of the "
    "difference; the rest is not explained."
)
_ADULT_STILL_ABOVE = "As the authors' in robust accuracy, .031 above them in accuracy: not explained."
_GROUP_DRO = (
    "Women in training are of one class, so their loss vanishes, the weight goes to men, and what is learnt from "
    "men transfers. Weights that hardly move (`gdro-small-step`) give the authors' robust accuracy, rows drawn as they "
    "come (`gdro-plain`) their TNR ratio; no variant that was tried gives all of their metrics."
)
_GROUP_DRO_AS_RUN = (
    "The loss and the batches that the authors' records tell, and PR and TPR ratio close to theirs; but not their TNR "
    "ratio, which rows drawn as they come have (`gdro-plain`)."
)
_ADULT_FACTORISED = (
    "Robust accuracy is in the authors' quartiles with the as-run settings (`[paper]`), at seven times the processor "
    "time. Accuracy is below with either: the authors clustered by rank statistics, and with them (`ours-rank`) it is "
    "theirs. Factorised clusters, our default, are worse in this setting and far better with subgroup bias."
)
_ADULT_UNBALANCED = (
    "Within .003 of the lower quartile with the lean settings, above it with the as-run ones (`[paper]`)."
)
_ADULT_RANK = (
    "Within .002 of their lower quartile, with leaner settings; one seed's value has a standard deviation of about "
    "0.016 from the size of the test set alone. Their clustering, in batches of 4,000, was not run."
)

REMARKS: dict[tuple[str, str, str], str] = {
    **{
        ("cmnist-3digit", method, "fast"): _THREE_DIGITS
        for method in ("ours-clustering", "ours-rank", "ours-unbalanced", "ours-oracle")
    },
    **{
        ("adult-ms", method, budget): _ADULT_PLAIN.format(method)
        for method in ("erm", "dro")
        for budget in ("fast", "paper")
    },
    **{("adult-sb", method, "fast"): _GROUP_DRO for method in ("gdro", "gdro-plain")},
    ("adult-sb", "gdro", "paper"): _GROUP_DRO_AS_RUN,
    **{("adult-ms", "ours-clustering", budget): _ADULT_FACTORISED for budget in ("fast", "paper")},
    ("adult-ms", "ours-unbalanced", "fast"): _ADULT_UNBALANCED,
    ("adult-ms", "erm-plain", "paper"): _ADULT_STILL_ABOVE,
    ("adult-ms", "ours-rank", "fast"): _ADULT_RANK,
}
"""By setting, method and budget of ours. A cell that differs and has no remark is shown as unexplained."""
