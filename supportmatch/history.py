"""What happened at each step, as rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass
class History:
    """A growing list of rows `{"step": 0, "total": 1.2, ...}`."""

    rows: list[dict[str, float]] = field(default_factory=list)

    def append(self, step: int, **values: float) -> None:
        """Add one row."""
        self.rows.append({"step": step, **values})

    def column(self, name: str) -> list[float]:
        """Return one quantity over time.

        >>> history = History()
        >>> history.append(0, total=2.0)
        >>> history.append(1, total=1.0)
        >>> history.column("total")
        [2.0, 1.0]
        """
        return [row[name] for row in self.rows]

    def to_jsonl(self) -> str:
        """Return one JSON object per line."""
        return "".join(json.dumps(row) + "\n" for row in self.rows)

    @classmethod
    def from_jsonl(cls, lines: Iterable[str]) -> History:
        """Read what `to_jsonl` wrote."""
        return cls([json.loads(line) for line in lines])
