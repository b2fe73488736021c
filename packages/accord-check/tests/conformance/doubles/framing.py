"""Doubles that violate the rules of JSON-RPC and stdio."""

from __future__ import annotations

from conformance.doubles.conversation import Talker, breaks


@breaks("R-GEN-03", 1, 2, by="agent")
def no_jsonrpc(t: Talker) -> None:
    ident = t.ask("session/list", {})
    t.raw("agent", f'{{"id": {ident}, "result": {{"sessions": []}}}}')


@breaks("R-GEN-04", 1, 2, by="agent")
def result_and_error(t: Talker) -> None:
    ident = t.ask("session/list", {})
    t.send("agent", id=ident, result={"sessions": []}, error={"code": 1, "message": "x"})


breaks("R-GEN-04", 1, name="error_without_message", by="agent")(
    lambda t: t.send("agent", id=t.ask("session/list", {}), error={"code": -32603})
)


@breaks("R-GEN-05", 1, 2, by="agent")
def answer_to_a_notification(t: Talker) -> None:
    t.note("_example.com/hello", {})
    t.send("agent", id=None, error={"code": -32601, "message": "Method not found"})


@breaks("R-GEN-06", 1, 2, by="agent")
def id_of_another_type(t: Talker) -> None:
    ident = t.ask("session/list", {})
    t.send("agent", id=str(ident), result={"sessions": []})


@breaks("R-GEN-06", 1, 2, by="agent")
def second_answer(t: Talker) -> None:
    ident = t.ask("session/list", {})
    t.answer(ident, {"sessions": []})
    t.answer(ident, {"sessions": []})


@breaks("R-GEN-06", 2, by="client")
def null_id(t: Talker) -> None:
    t.send("client", id=None, method="session/list", params={})
    t.send("agent", id=None, error={"code": -32600, "message": "A null id"})


breaks("R-GEN-06", 1, name="fractional_id", by="client")(
    lambda t: t.send("client", id=1.5, method="session/list", params={})
)


@breaks("R-GEN-13", 2, by="client")
def id_in_use(t: Talker) -> None:
    for _ in range(2):
        t.send("client", id="same", method="session/list", params={})


@breaks("R-STDIO-03", 1, 2, by="agent")
def half_a_frame(t: Talker) -> None:
    t.raw("agent", '{"jsonrpc": "2.0", "method"')
    t.send("client", id=None, error={"code": -32700, "message": "Parse error"})


breaks("R-STDIO-03", 1, name="latin_1", by="agent")(
    lambda t: t.raw("agent", '{"jsonrpc": "2.0", "method": "_é", "params": {}}'.encode("latin-1"))
)
breaks("R-STDIO-04", 1, 2, name="noise_on_stdout")(lambda t: t.raw("agent", "Starting up…"))
breaks("R-STDIO-04", 1, name="log_record_on_stdout")(
    lambda t: t.raw("agent", '{"level": "info", "msg": "started"}')
)
breaks("R-STDIO-05", 1, 2, name="noise_on_stdin")(lambda t: t.raw("client", "exit"))
breaks("R-STDIO-08", 1, 2, name="method_and_result", by="agent")(
    lambda t: t.send("agent", method="_example.com/x", params={}, result={})
)


@breaks("R-BATCH-12", 1, 2, by="client")
def batch(t: Talker) -> None:
    t.raw("client", '[{"jsonrpc": "2.0", "method": "_example.com/x"}]')
    t.send("agent", id=None, error={"code": -32600, "message": "No batches"})


breaks("R-ERR-01", 1, 2, name="code_of_64_bits", by="agent")(
    lambda t: t.refused("session/list", {}, 2**40)
)
breaks("R-ERR-01", 1, 2, name="offered_method_of_the_agent_that_is_not_there", by="agent")(
    lambda t: t.refused("session/delete", t.here(), -32601)
)


@breaks("R-ERR-01", 1, 2, by="client")
def offered_method_of_the_client_that_is_not_there(t: Talker) -> None:
    schema = {"type": "object", "properties": {}}
    form = t.here(mode="form", message="Well?", requestedSchema=schema)
    t.refused("elicitation/create", form, -32601, "agent")


@breaks("R-REQCAN-05", 1, 2, by="agent")
def second_answer_to_a_cancelled_request(t: Talker) -> None:
    ident = t.ask("session/list", {})
    t.note("$/cancel_request", {"requestId": ident})
    t.fail(ident, -32800)
    t.answer(ident, {"sessions": []})


breaks("R-REQCAN-02", 1, 2, name="cancel_of_what_was_never_asked", by="client")(
    lambda t: t.note("$/cancel_request", {"requestId": 999})
)
breaks("R-GEN-10", 1, 2, name="null_for_an_empty_result", by="agent")(
    lambda t: t.call("session/delete", {"sessionId": "old"}, None)
)
breaks("R-EXT-02", 1, 2, name="trace_context_of_another_kind", by="client")(
    lambda t: t.ask("session/list", {"_meta": {"traceparent": "yes"}})
)
breaks("R-ERR-02", 2, name="unknown_session_with_other_data", by="agent")(
    lambda t: t.refused("session/delete", {"sessionId": "old"}, -32002, data={"id": "old"})
)


@breaks("R-GEN-14", 2, by="agent", also={"R-GEN-06"})
def null_id_served(t: Talker) -> None:
    t.send("client", id=None, method="session/list", params={})
    t.send("agent", id=None, result={"sessions": []})


@breaks("R-BATCH-10", 1, 2, by="agent", also={"R-BATCH-12"})
def entry_of_a_batch_answered(t: Talker) -> None:
    t.raw("client", '[{"jsonrpc": "2.0", "id": "b", "method": "session/list"}]')
    t.send("agent", id="b", result={"sessions": []})


@breaks("R-ERR-03", 1, 2, by="agent", also={"R-STDIO-03"})
def another_code_for_what_cannot_be_read(t: Talker) -> None:
    t.raw("client", '{"jsonrpc": "2.0", "id"')
    t.send("agent", id=None, error={"code": -32603, "message": "Internal error"})
