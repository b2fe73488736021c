"""The fixture for authors of clients: an agent that tests the client that starts it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from accord.text.excerpt import one_line
from accord_conformance.pytest_plugin.failures import MAX_SHOWN, RuleFailed
from accord_conformance.reports.frame_lines import FRAME_CHARACTERS
from accord_conformance.rules.manifest import requirements

_BAD = ("failed",)
_BAD_STRICT = ("failed", "warned", "advised")


class ClientUnderTest:
    """The fixture `accord_client`.

    The client starts `command` like any agent, opens a session, and sends `prompt`.
    """

    prompt = "check: all"

    def __init__(self, report_file: Path) -> None:
        self.report_file = report_file

    @property
    def command(self) -> list[str]:
        """The command that the client has to start."""
        report = ["--report", str(self.report_file)]
        return [sys.executable, "-m", "accord", "check", "client", *report]

    def report(self) -> dict[str, Any]:
        """Return the JSON report so far; raise `RuleFailed` if it does not exist.

        It is complete when the client has disconnected.
        """
        try:
            return json.loads(self.report_file.read_bytes())
        except FileNotFoundError:
            raise RuleFailed(
                "No report: the client did not start the agent that it has to start "
                "(`accord_client.command`), or the agent could not start"
            ) from None

    def outcomes(self) -> dict[str, str]:
        """Return the outcome of each rule: passed, failed, warned, advised, or not exercised."""
        return {rule["id"]: rule["outcome"] for rule in self._rules()}

    def check(self, *, strict: bool = False) -> None:
        """Raise `RuleFailed` if the client broke a MUST rule, with `strict` any rule.

        It is also raised if the client ran no scenario: then hardly any rule was exercised.
        """
        bad = _BAD_STRICT if strict else _BAD
        lines = [line for rule in self._rules() if rule["outcome"] in bad for line in _broken(rule)]
        if lines:
            raise RuleFailed("\n".join(("The client failed rules of the protocol:", *lines)))
        if errors := self.report()["errorsInTheKit"]:
            raise RuntimeError("\n".join(("Error in the conformance kit:", *errors)))
        played = self.report()["scenarios"]
        wrong = [one for one in played if one["ending"] == "wrong" or one["left"]]
        if wrong:
            lines = [f"    {one['scenario']}: {one['reason']}. {one['advice']}" for one in wrong]
            raise RuleFailed(
                "\n".join(("The client failed scenarios for which no rule exists:", *lines))
            )
        if not self.report()["scenarios"]:
            raise RuleFailed(
                f"No scenario ran: the client sent no prompt such as {self.prompt!r} "
                "(`accord_client.prompt`)"
            )

    def _rules(self) -> list[dict[str, Any]]:
        reports: list[dict[str, Any]] = self.report()["reports"]
        return [rule for report in reports for rule in report["rules"]]


def _broken(rule: dict[str, Any]) -> Iterator[str]:
    found = requirements()[rule["id"]]
    yield f"{found.id} {found.level}: {found.rule}"
    for finding in rule["findings"][:MAX_SHOWN]:
        yield f"    expected  {finding['expected']}"
        yield f"    got       {finding['got']}"
        for frame in finding["frames"]:
            text = one_line(frame["frame"], FRAME_CHARACTERS)
            sign = ">" if frame["from"] == "client" else "<"
            yield f"    #{frame['number']} {frame['time']:.3f} s {sign} {text}"
