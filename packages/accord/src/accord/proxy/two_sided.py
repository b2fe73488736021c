"""A connection that carries both neighbours of a proxy: one's messages are wrapped."""

from __future__ import annotations

from accord.errors import InvalidParams
from accord.jsonrpc.peer import CANCEL_REQUEST
from accord.proxy.dialects import SUCCESSOR, unwrap
from accord.proxy.hop import Hop
from accord.proxy.runs import Run
from accord.proxy.stage import Params, Port


class TwoSidedHop(Hop):
    """The connection between a proxy and its conductor, at either end.

    Plain messages are exchanged with the client's side, wrapped ones with the agent's.
    """

    unwraps = True

    def port_of(self, *, wrapped: bool) -> Port:
        """Return where messages that arrive plain, or wrapped, are passed on. To override."""
        raise NotImplementedError

    def on_notification(self, method: str, params: Params) -> None:
        if method not in SUCCESSOR:
            self.port_of(wrapped=False).notify(method, params)
            return
        try:
            inner, params = unwrap(params)
        except InvalidParams as exc:
            self.warn("a wrapped notification was dropped", exc)
            return
        if inner == CANCEL_REQUEST:
            self.cancel_wrapped(params)
        else:
            self.port_of(wrapped=True).notify(inner, params)

    def on_run(self, run: Run, *, wrapped: bool) -> None:
        self.port_of(wrapped=wrapped).notify_run(run)
