"""Makes the contexts of scenarios for conductors, and finds out which versions work."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from accord_conformance.chain.conductor_context import ConductorContext
from accord_conformance.chain.dialect import Dialect
from accord_conformance.chain.launch import Launch
from accord_conformance.harness.process_end import SecretMask, describe_exit, last_stderr_lines
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.raw_hop import Tape, decoded
from accord_conformance.harness.scenario import Scenario
from accord_conformance.reports.report import Report
from accord_conformance.traffic.strict_types import format_value


async def _nothing(_: ConductorContext) -> None:
    return


_HANDSHAKE: Scenario[ConductorContext] = Scenario(name="handshake", about="", run=_nothing)


class ConductorProbe:
    """Initializes a chain in each version; `launch` makes what starts one conductor."""

    def __init__(
        self,
        launch: Callable[[], Launch],
        names: Sequence[str],
        dialect: Dialect,
        *,
        answer_s: float,
        on_close: Callable[[str, Tape], None] = lambda _, __: None,
    ) -> None:
        self._launch = launch
        self._names = names
        self._dialect = dialect
        self._answer_s = answer_s
        self._on_close = on_close

    def make_context(
        self, scenario: Scenario[ConductorContext], version: int, report: Report
    ) -> ConductorContext:
        """Return the context of a scenario."""
        return ConductorContext(
            scenario,
            version,
            self._dialect,
            self._names,
            answer_s=self._answer_s,
            report=report,
            launch=self._launch(),
            on_close=self._on_close,
        )

    async def __call__(self, version: int, report: Report) -> str:
        """Return why the conductor does not support a version; empty if it does."""
        context = self.make_context(_HANDSHAKE, version, report)
        try:
            await context.connect()
            sent = context.send_initialize()
            try:
                await sent.wait(self._answer_s)
            except NoResponse as silence:
                hop = context.client.hop
                ended = await hop.exit_error() if hop.is_closed else None
                last = last_stderr_lines(ended, SecretMask({}))
                parts = [f"initialize failed: {silence}", describe_exit(ended), *last[-1:]]
                return "; ".join(part for part in parts if part)
            if sent.ok or sent.response is None:
                return ""
            return f"error {format_value(decoded(sent.response.error))}"
        finally:
            await context.aclose()
