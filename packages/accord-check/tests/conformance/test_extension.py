"""An installed package can add a protocol family to the kit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MODULE = """
from pathlib import Path
from accord_conformance.extension import add_extension
from accord_conformance.judges.base import Judge


class Dance(Judge):
    rules = ("R-DANCE-01",)

    def on_notification(self, note):
        if note.method == "_dance/step":
            self.judge("R-DANCE-01", "foot" in note.params, note, expected="a foot", got="none")


add_extension(rules=Path(__file__).parent, judges=(Dance,))
"""
RULES = """
title = "Dancing"
place = 99

[R-DANCE-01]
rule = "A step names the foot."
level = "MUST"
who = "client"
versions = [1, 2]
source = "dance RFD"
authority = "text https://example.org/dance#steps: a step names the foot"
how = "observed"
"""


def test_rules_and_judges_of_an_installed_package_are_found(tmp_path: Path) -> None:
    package, info = tmp_path / "dancing", tmp_path / "dancing-1.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text(MODULE, "utf-8")
    (package / "dance.toml").write_text(RULES, "utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: dancing\nVersion: 1\n", "utf-8")
    (info / "entry_points.txt").write_text(
        "[accord_conformance.extensions]\ndancing = dancing\n", "utf-8"
    )
    recording = tmp_path / "recording.ndjson"
    step = {"jsonrpc": "2.0", "method": "_dance/step", "params": {}}
    recording.write_text(json.dumps({"from": "client", "frame": step}) + "\n", "utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "accord", "check", "trace", str(recording), "--json"],
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1, run.stderr
    report = json.loads(run.stdout)
    (rule,) = [one for one in report["rules"] if one["id"] == "R-DANCE-01"]
    assert rule["outcome"] == "failed"
    assert rule["demand"] == {
        "place": "https://example.org/dance#steps",
        "url": "https://example.org/dance#steps",
        "words": "a step names the foot",
    }
    assert "Dancing" in [area["title"] for area in report["areas"]]
