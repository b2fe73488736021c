"""Messages: chunks, replacement, ids, and order."""

from __future__ import annotations

from accord_conformance.client import fixtures
from accord_conformance.client.context import ClientContext, Json
from accord_conformance.client.probe_scenario import probe_scenario
from accord_conformance.client.state_probe import StateProbe, expect
from accord_conformance.traffic.frame import Frame

_MANY = 200


@probe_scenario("state/messages", "R-MSG-06", "R-MSG-07", "R-MSG-08", "R-MSG-11", versions=(2,))
async def _messages(context: ClientContext, probe: StateProbe) -> None:
    """Messages get chunks, are replaced and emptied, in any order."""
    sent = [_chunk(context, "kept", "A"), _message(context, "kept"), _message(context, "kept")]
    await probe.check(sent, expect("R-MSG-06", "messages", "kept", content=_texts("A")))
    sent += [_message(context, "kept", content=_texts("B"))]
    await probe.check(sent, expect("R-MSG-06", "messages", "kept", content=_texts("B")))
    for nothing in (_texts(), None):
        sent = [_chunk(context, "kept", "C"), _message(context, "kept", content=nothing)]
        await probe.check(sent, expect("R-MSG-06", "messages", "kept", content=None))

    sent = [_message(context, "grows", content=_texts("A")), _chunk(context, "grows", "B")]
    sent += [_chunk(context, "grows", "C")]
    await probe.check(sent, expect("R-MSG-07", "messages", "grows", content=_texts("A", "B", "C")))

    sent: list[Frame] = []
    for whole, more in (("A", "B"), ("C", "D")):
        sent += [_message(context, "both", content=_texts(whole))]
        await probe.check(sent, expect("R-MSG-08", "messages", "both", content=_texts(whole)))
        sent += [_chunk(context, "both", more)]
        expected = _texts(whole, more)
        await probe.check(sent, expect("R-MSG-08", "messages", "both", content=expected))

    sent = [_chunk(context, one, text) for one, text in zip("mnmn", "1234", strict=True)]
    await probe.check(
        sent,
        expect("R-MSG-11", "messages", "m", content=_texts("1", "3")),
        expect("R-MSG-11", "messages", "n", content=_texts("2", "4")),
    )


@probe_scenario("state/ids", "R-MSG-04")
async def _ids(context: ClientContext, probe: StateProbe) -> None:
    """Messages have similar ids."""
    ids = ("id-1", "ID-1", "id-01", " id-1", "1", "01", "1.0", "ä", "a\u0308")
    sent = [_chunk(context, ident, f"Of {ident!r}.") for ident in ids]
    claims = (
        expect("R-MSG-04", "messages", ident, content=_texts(f"Of {ident!r}.")) for ident in ids
    )
    await probe.check(sent, *claims)


@probe_scenario("state/order", "R-GEN-17")
async def _order(context: ClientContext, probe: StateProbe) -> None:
    """Many updates of a message and a tool call arrive at once."""
    tool = context.add_tool_call("Step 0")
    texts = [f"{number} " for number in range(_MANY)]
    sent: list[Frame] = []
    for number, text in enumerate(texts):
        sent = [
            _chunk(context, "many", text),
            context.update("tool_call_update", toolCallId=tool, title=f"Step {number}"),
        ]
    await probe.check(
        sent,
        expect("R-GEN-17", "messages", "many", content=_texts("".join(texts))),
        expect("R-GEN-17", "toolCalls", tool, title=f"Step {_MANY - 1}"),
    )


def _chunk(context: ClientContext, ident: str, text: str) -> Frame:
    return context.update("agent_message_chunk", messageId=ident, content=fixtures.text_block(text))


def _message(context: ClientContext, ident: str, **more: Json | list[Json] | None) -> Frame:
    return context.update("agent_message", messageId=ident, **more)


def _texts(*texts: str) -> list[Json]:
    return [fixtures.text_block(text) for text in texts]


SCENARIOS = (_messages, _ids, _order)
