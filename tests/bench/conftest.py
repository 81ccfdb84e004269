"""Lets the tests here import `toy_methods`, as the processes that they start do."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
