"""Why our median robust accuracy differs from the authors', where that is known: shown where it does."""

from __future__ import annotations

_THREE_DIGITS = (
    "On most seeds digits that training lacks in a colour, green sixes above all, are read as others (`confusion` in "
    "the rows), {}. More steps, ten discriminators, larger bags, other attention and the authors' whole game on our "
    "smaller networks were tried on a seed that fails: none reads all sources right (benchmarks/trials). Their "
    "networks, thirty times the work of a step and six times the steps, were not run."
)
_ADULT_PLAIN = "The authors' records say balanced batches, as here. But rows drawn as they come (`{}-plain`) agree."
_GROUP_DRO = (
    "Women in training are of one class, so their loss vanishes, the weight goes to men, and what is learnt from "
    "men transfers. Weights that hardly move (`gdro-small-step`) give the authors' robust accuracy, rows drawn as they "
    "come (`gdro-plain`) their TNR ratio; no variant that was tried gives all of their metrics."
)
_GROUP_DRO_AS_RUN = (
    "The loss and the batches that the authors' records tell, and PR and TPR ratio close to theirs; but not their TNR "
    "ratio, which rows drawn as they come have (`gdro-plain`)."
)
_ADULT_MATCHING = (
    "The default settings are leaner. With the authors' as-run ones (`[paper]`, five seeds) the median is in their "
    "quartiles, at some seven times the processor time."
)
_ADULT_RANK = (
    "Within .002 of their lower quartile, with leaner settings; one seed's value has a standard deviation of about "
    "0.016 from the size of the test set alone. Their clustering, in batches of 4,000, was not run."
)

REMARKS: dict[tuple[str, str, str], str] = {
    ("cmnist-3digit", "ours-clustering", "fast"): _THREE_DIGITS.format("although the clusters are right"),
    ("cmnist-3digit", "ours-rank", "fast"): _THREE_DIGITS.format("and a fifth of the rows are in a wrong cluster"),
    ("cmnist-3digit", "ours-unbalanced", "fast"): _THREE_DIGITS.format("without any clusters"),
    ("cmnist-3digit", "ours-oracle", "fast"): _THREE_DIGITS.format("although the bags are right"),
    **{
        ("adult-ms", method, budget): _ADULT_PLAIN.format(method)
        for method in ("erm", "dro")
        for budget in ("fast", "paper")
    },
    **{("adult-sb", method, "fast"): _GROUP_DRO for method in ("gdro", "gdro-plain")},
    ("adult-sb", "gdro", "paper"): _GROUP_DRO_AS_RUN,
    **{("adult-ms", method, "fast"): _ADULT_MATCHING for method in ("ours-clustering", "ours-unbalanced")},
    ("adult-ms", "ours-rank", "fast"): _ADULT_RANK,
}
"""By setting, method and budget of ours. A cell that differs and has no remark is shown as unexplained."""
