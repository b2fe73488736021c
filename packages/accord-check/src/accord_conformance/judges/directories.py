"""Additional directories of a session."""

from __future__ import annotations

from accord.text.lenient_json import is_array, is_object
from accord_conformance.judges.base import Judge
from accord_conformance.judges.paths import is_absolute
from accord_conformance.traffic.connection_state import SETUP_METHODS
from accord_conformance.traffic.message import Request
from accord_conformance.traffic.strict_types import format_value


class Directories(Judge):
    """R-DIR."""

    rules = ("R-DIR-06", "R-DIR-11")

    def on_request(self, call: Request) -> None:
        if not _is_setup(call):
            return
        directories = call.params.get("additionalDirectories")
        if is_array(directories) and directories:
            names = [one for one in directories if isinstance(one, str)]
            twice = len(names) != len(set(names)) or call.params.get("cwd") in names
            self.judge(
                "R-DIR-11",
                not twice,
                call,
                expected="each directory once, without `cwd`",
                got=format_value(directories),
            )

    def on_response(self, call: Request) -> None:
        """Judge that the agent refuses a path that is not absolute, and does not omit it."""
        if not _is_setup(call):
            return
        directories = call.params.get("additionalDirectories")
        if directories is None or directories == []:
            return
        valid = is_array(directories) and all(
            isinstance(one, str) and is_absolute(one) for one in directories
        )
        if not valid:
            self.judge(
                "R-DIR-06",
                not call.ok,
                call,
                expected="an error for directories that are not absolute paths",
                got="a result",
            )


def _is_setup(call: Request) -> bool:
    return call.sender == "client" and call.method in SETUP_METHODS and is_object(call.params)
