"""JSON for files and terminals: control characters are escaped."""

from __future__ import annotations

import json
import re
from typing import Any

_OBEYED = re.compile("[\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def json_text(value: Any) -> str:
    """Return the indented JSON of a value."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
