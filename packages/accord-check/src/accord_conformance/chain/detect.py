"""Finds the dialect of a proxy, and whether it supports a version."""

from __future__ import annotations

from collections.abc import Callable

from accord_conformance.chain.dialect import DIALECTS, Dialect
from accord_conformance.chain.proxy_context import ProxyConnect, ProxyContext, ProxySettings
from accord_conformance.harness.process_end import SecretMask, describe_exit, last_stderr_lines
from accord_conformance.harness.raw_connection import NoResponse
from accord_conformance.harness.raw_hop import Tape, decoded
from accord_conformance.harness.scenario import Scenario
from accord_conformance.reports.report import Report
from accord_conformance.traffic.strict_types import format_value

_UNKNOWN_METHOD = -32601


async def _nothing(_: ProxyContext) -> None:
    return


_HANDSHAKE: Scenario[ProxyContext] = Scenario(name="handshake", about="", run=_nothing)


class ProxyProbe:
    """Initializes a proxy in each version; `dialect` is the one that it understands.

    Without a dialect, each is tried: a proxy answers that it does not know the method of another.
    """

    def __init__(
        self,
        connect: ProxyConnect,
        settings: ProxySettings,
        dialect: Dialect | None,
        on_close: Callable[[str, Tape], None],
    ) -> None:
        self.dialect = dialect or DIALECTS["acp"]
        self._is_known = dialect is not None
        self._connect = connect
        self._settings = settings
        self._on_close = on_close

    def make_context(
        self, scenario: Scenario[ProxyContext], version: int, report: Report
    ) -> ProxyContext:
        """Return the context of a scenario."""
        return ProxyContext(
            scenario,
            version,
            self.dialect,
            self._settings,
            report=report,
            connect=self._connect,
            on_close=self._on_close,
        )

    async def __call__(self, version: int, report: Report) -> str:
        """Return why the proxy does not support a version; empty if it does."""
        if self._is_known:
            return (await self._try(version, report))[0]
        first = ""
        for dialect in DIALECTS.values():
            self.dialect = dialect
            why, code = await self._try(version, report)
            if code != _UNKNOWN_METHOD:
                self._is_known = not why
                return why
            first = first or why
        self.dialect = DIALECTS["acp"]
        return first

    async def _try(self, version: int, report: Report) -> tuple[str, object]:
        context = self.make_context(_HANDSHAKE, version, report)
        try:
            line = await context.connect()
            try:
                sent = await context.initialize(line)
            except NoResponse as silence:
                ended = await line.hop.exit_error() if line.hop.is_closed else None
                mask = SecretMask({})
                last = last_stderr_lines(ended, mask)
                parts = [f"initialize failed: {silence}", describe_exit(ended), *last[-1:]]
                return "; ".join(part for part in parts if part), None
            if sent.ok:
                return "", None
            assert sent.response is not None
            text = format_value(decoded(sent.response.error))
            return f"error {text}", sent.response.code
        finally:
            await context.aclose()
