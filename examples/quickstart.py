"""Support-matching in seconds, on rows whose answer is known: `python examples/quickstart.py`.

A row has two columns that tell its class, two that tell its subgroup (more clearly), and two of noise. Training has no
row of class 1 in subgroup 0; the unlabelled deployment set has all four sources.
"""

from typing import Any

from supportmatch import CompleteSupportClassifier, ErmClassifier, SupportMatchingClassifier, make_sources


def main(seed: int = 0) -> dict[str, float]:
    """Audit, train three classifiers, and return the robust accuracy of each."""
    sources = make_sources(seed=seed)
    problem = sources.to_problem()
    names = problem.subgroup_names  # every subgroup that is expected at deployment
    methods: dict[str, Any] = {
        "ordinary classifier": ErmClassifier(subgroup_names=names, random_state=seed),
        "complete support": CompleteSupportClassifier(subgroup_names=names),  # the simple thing to try first
        "support-matching": SupportMatchingClassifier(subgroup_names=names, random_state=seed),
    }
    robust = {}
    for name, method in methods.items():
        method.fit(problem.X_train, problem.y_train, problem.subgroup_train, problem.X_deploy)
        result = problem.score(method.predict(problem.X_test))
        robust[name] = result.robust_accuracy
        if name == "support-matching":
            print(f"{method.audit_.to_text()}\n\n{result.to_text()}\n")
    for name, value in robust.items():
        print(f"{name:<20} {value:.3f}  (robust accuracy: the lowest over subgroups)")
    print(f"{'best possible':<20} {sources.bayes_accuracy:.3f}")
    return robust


if __name__ == "__main__":
    main()
