"""The two ends of a chain, and the wiring of stages between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from accord.jsonrpc.message import RequestId
from accord.proxy.hop import Hop, Hops
from accord.proxy.runs import Run
from accord.proxy.stage import Direction, Params, Port, RawRequest, Stage
from accord.transports.base import Transport


class EndOfChain(Protocol):
    """One end of a chain: sends what the last stage passes on; what it receives goes to `port`."""

    port: Port

    def send_notification_out(self, method: str, params: Params) -> None:
        """Send a notification to the client or the agent."""
        ...

    def send_run_out(self, run: Run) -> None:
        """Send notifications that were received together."""
        ...

    def send_request_out(self, request: RawRequest) -> None:
        """Send a request to the client or the agent."""
        ...


class _PlainEnd(Hop):
    """The connection to the client or to the agent, which exchanges plain messages."""

    inwards: Direction
    outwards: Direction
    port: Port

    def __init__(self, name: str, transport: Transport, hops: Hops) -> None:
        super().__init__(name, transport, hops)
        hops.flows[self.inwards].source = self.pauses

    def on_notification(self, method: str, params: Params) -> None:
        self.port.notify(method, params)

    def on_run(self, run: Run, *, wrapped: bool) -> None:
        self.port.notify_run(run)

    def on_request(self, request_id: RequestId, method: str, params: Params) -> None:
        self.port.request(self.add_request(request_id, method, params, self.outwards))

    def send_notification_out(self, method: str, params: Params) -> None:
        self.send_notification(method, params, self.outwards)

    def send_run_out(self, run: Run) -> None:
        self.send_run(run, self.outwards)

    def send_request_out(self, request: RawRequest) -> None:
        self.send_request(request, request.method, request.params, self.outwards)


class ClientEnd(_PlainEnd):
    """The connection to the client."""

    inwards = Direction.TO_AGENT
    outwards = Direction.TO_CLIENT


class AgentEnd(_PlainEnd):
    """The connection to the agent."""

    inwards = Direction.TO_CLIENT
    outwards = Direction.TO_AGENT


def wire(client: EndOfChain, stages: Sequence[Stage], agent: EndOfChain, hops: Hops) -> None:
    """Set the ports of both ends and of all stages."""
    to_client = hops.flows[Direction.TO_CLIENT].wait_for_room
    to_agent = hops.flows[Direction.TO_AGENT].wait_for_room
    port = Port(
        client.send_notification_out, client.send_request_out, to_client, client.send_run_out
    )
    for stage in stages:
        stage.flows = hops.flows
        stage.client = port
        port = Port(
            stage.notification_from_agent,
            stage.request_from_agent,
            to_client,
            stage.run_from_agent,
        )
    agent.port = port
    port = Port(agent.send_notification_out, agent.send_request_out, to_agent, agent.send_run_out)
    for stage in reversed(stages):
        stage.agent = port
        port = Port(
            stage.notification_from_client,
            stage.request_from_client,
            to_agent,
            stage.run_from_client,
        )
    client.port = port
