"""A coder process with a `ScriptedModel`: `python -m coder.program DATA`."""

from __future__ import annotations

import sys
from pathlib import Path

from accord_coder.agent import Coder
from accord_coder.settings import Settings
from coder.scripted_model import ScriptedModel

if __name__ == "__main__":
    Coder(Settings(data=Path(sys.argv[1])), model=ScriptedModel()).run()
