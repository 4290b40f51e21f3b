"""Numbers to test against: the only place that reads them."""

import json
from pathlib import Path
from typing import Any


def golden(name: str) -> Any:
    """Return the numbers of ``tests/golden/NAME.json``."""
    return json.loads(Path(__file__).with_name(f"{name}.json").read_text(encoding="utf-8"))
