"""Secrets are not written into recordings."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord.text.redact import MASK, is_secret_name
from accord.text.secrets import redacted_argv
from accord_trace.line_builder import Hop, LineBuilder
from accord_trace.recording import Recording
from accord_trace.records import decode_record
from accord_trace.redaction import redacted_frame, with_possible_secrets
from requirement import requirement

SECRET = "s3cr3t"
SECRETS: list[dict[str, Any]] = [
    {
        "method": "session/new",
        "params": {
            "mcpServers": [
                {"name": "a", "command": "a", "env": [{"name": "KEY", "value": SECRET}]},
                {"name": "b", "headers": [{"name": "Authorization", "value": f"Bearer {SECRET}"}]},
            ]
        },
    },
    {"method": "terminal/create", "params": {"env": [{"name": "KEY", "value": SECRET}]}},
    {"method": "authenticate", "params": {"methodId": "m", "_meta": {"key": SECRET}}},
    {"method": "auth/login", "params": {"methodId": "m", "code": SECRET, "pin": 1234}},
    {"method": "providers/set", "params": {"headers": {"X-Any": SECRET}}},
    {"method": "_x/y", "params": {"deep": [{"AUTHORIZATION": SECRET}, {"apiKey": SECRET}]}},
    {"method": "_x/y", "params": {"env": {"KEY": SECRET}, "environment": [f"KEY={SECRET}"]}},
    {"id": 1, "result": {"access_token": SECRET, "Cookie": SECRET, "password": SECRET}},
]


@pytest.mark.parametrize("message", SECRETS)
@requirement("R-TRACE-05")
def test_secret_is_replaced_unless_that_is_switched_off(message: dict[str, Any]) -> None:
    frame = json.dumps({"jsonrpc": "2.0", **message}).encode()
    line = LineBuilder(Hop(), redact=True).line(0.0, "to_agent", frame)
    assert SECRET.encode() not in line
    assert b"1234" not in line
    record = decode_record(line)
    assert record is not None
    assert record.redacted
    assert MASK in record.frame.decode()
    assert record.bytes == len(frame)
    kept = LineBuilder(Hop(), redact=False).line(0.0, "to_agent", frame)
    assert SECRET.encode() in kept


def test_message_without_secrets_is_unchanged() -> None:
    frame = json.dumps(
        {
            "jsonrpc": "2.0",
            "method": "_x",
            "params": {"inputTokens": 5, "key": "k", "env": [], "headers": None, "password": ""},
        }
    ).encode()
    record = decode_record(LineBuilder(Hop(), redact=True).line(0.0, "to_agent", frame))
    assert record is not None
    assert record.frame == frame
    assert not record.redacted


def test_secret_options_of_a_command_are_replaced() -> None:
    argv = ["agent", "--token", SECRET, f"--api-key={SECRET}", "--tokens", "5", "--password"]
    shown = [MASK if word == SECRET else word.replace(SECRET, MASK) for word in argv]
    assert redacted_argv(argv) == shown


def recorded(path: Path, *frames: bytes) -> str:
    """Return a recording of these frames."""
    with Recording(path) as recording:
        hop = recording.hop()
        for frame in frames:
            hop.frames("to_agent", [b'{"jsonrpc":"2.0","method":"_a"}', frame])
    text = path.read_text()
    path.unlink()
    return text


@requirement("R-TRACE-05")
@settings(max_examples=40)
@given(st.sampled_from(SECRETS), st.data())
def test_names_that_are_escaped_are_those_of_secrets(
    tmp_path_factory: pytest.TempPathFactory, message: dict[str, Any], data: st.DataObject
) -> None:
    def escape(text: str) -> str:
        flags = data.draw(st.lists(st.booleans(), min_size=len(text), max_size=len(text)))
        parts = (f"\\u{ord(c):04x}" if yes else c for c, yes in zip(text, flags, strict=True))
        return f'"{"".join(parts)}"'

    def encode(value: Any) -> str:
        match value:
            case dict():
                return f"{{{','.join(f'{escape(k)}:{encode(v)}' for k, v in value.items())}}}"
            case list():
                return f"[{','.join(map(encode, value))}]"
            case str():
                return json.dumps(value) if SECRET in value else escape(value)
            case _:
                return json.dumps(value)

    frame = encode({"jsonrpc": "2.0", **message}).encode()
    assert SECRET not in recorded(tmp_path_factory.getbasetemp() / "r.jsonl", frame)


@pytest.mark.parametrize(
    "secret",
    [
        *("sk-ant-0123456789abcdefghij", "ghp_0123456789abcdefghij", "AKIA0123456789ABCDEF"),
        *("hf_0123456789abcdefghij", "xoxb-0123456789-abcdef", "glpat-0123456789abcdefghij"),
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADAN\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\ncut",
    ],
)
@requirement("R-TRACE-05")
def test_well_known_keys_are_found_where_no_name_says_so(tmp_path: Path, secret: str) -> None:
    for field in ("title", "rawInput", "_meta"):
        frame = json.dumps({"jsonrpc": "2.0", "method": "_x", "params": {field: f"a {secret}"}})
        text = recorded(tmp_path / "r.jsonl", frame.encode())
        assert "MIIEvQIBADAN" not in text
        assert "0123456789" not in text
        assert MASK in text


@pytest.mark.parametrize(
    "params",
    [
        '{"apiKey":"s3cr3t","apiKey":""}',
        '{"env":{"A":"s3cr3t"},"env":null}',
        '{"x":[{"token" : "s3cr3t","token" :null}],"note":"\\": a"}',
        '{"apiKey":"s3cr3t"},"params":{}',
    ],
)
@requirement("R-TRACE-05")
def test_field_that_a_second_one_of_this_name_hides_is_not_recorded(
    tmp_path: Path, params: str
) -> None:
    frame = f'{{"jsonrpc":"2.0","method":"_x","params":{params}}}'.encode()
    text = recorded(tmp_path / "r.jsonl", frame)
    assert SECRET not in text
    assert '"redacted":true' in text.splitlines()[2]


def test_text_that_looks_like_fields_is_unchanged(tmp_path: Path) -> None:
    note = {"note": json.dumps({"a": {"a": 1}}), "token": 5, "title": 'say "a": b'}
    frame = json.dumps({"jsonrpc": "2.0", "method": "_x", "params": note}).encode()
    assert '"redacted":true' not in recorded(tmp_path / "r.jsonl", frame).splitlines()[2]


@pytest.mark.parametrize("params", [[SECRET], SECRET, {"methodId": {"a": SECRET}}])
@requirement("R-TRACE-05")
def test_params_of_a_login_in_any_form_are_replaced(tmp_path: Path, params: Any) -> None:
    frame = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "authenticate", "params": params})
    assert SECRET not in recorded(tmp_path / "r.jsonl", frame.encode())


@pytest.mark.parametrize("message", SECRETS)
@requirement("R-TRACE-05")
def test_message_that_was_cut_has_no_secret(message: dict[str, Any]) -> None:
    whole = json.dumps({"jsonrpc": "2.0", "a\\": ['"\\\n', True, -1.5, None], **message, "z": "é"})
    builder = LineBuilder(Hop(), redact=True)
    for end in range(1, len(whole)):
        line = builder.line(0.0, "to_agent", whole[:end].encode()).decode()
        assert SECRET not in line
        record = decode_record(line.encode())
        assert record is not None
        assert record.type == "invalid"


@requirement("R-TRACE-05")
def test_message_with_numbers_that_json_lacks_has_no_secret(tmp_path: Path) -> None:
    frame = f'{{"x":NaN,"env":{{"A":"{SECRET}"}}}}'.encode()
    assert SECRET not in recorded(tmp_path / "r.jsonl", frame)


def has_linear_cost(frame_of: Callable[[int], str]) -> bool:
    """Compare the CPU time for frames of two sizes: linear is 8, quadratic 64."""
    few, many = (frame_of(number).encode() for number in (2_000, 16_000))

    def cost(frame: bytes) -> float:
        began = time.thread_time()
        with_possible_secrets([frame])
        return time.thread_time() - began

    # Repeated: a busy machine makes a program slower at any moment.
    return any(cost(many) < 24 * cost(few) for _ in range(5))


# Some are places of a secret, in many strings or in the same one, where each could look for the
# ends of it; the others only begin like one.
def test_search_for_secrets_takes_linear_time() -> None:
    for part in (
        *("?", "?a", " --", "/", "://", ":", "@", "key", "gh", "sk-", "\\u00"),
        *('"key":', '\\"', "-p ", "a=b/c\\/", " TOKEN=", "key_", "-"),
    ):
        assert has_linear_cost(lambda number: json.dumps({"title": part * number})), part  # noqa: B023


WORDS = (
    *("secret", "key", "base", "api", "prod", "db", "password", "passwd", "token", "tokens"),
    *("keys", "stripe", "live", "pin", "pat", "pwd", "jwt", "cookie", "credentials", "id", "1"),
    *("spring", "datasource", "auth", "bearer", "authorization", "access", "count", "x" * 30),
)
names = (
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=5)
    .flatmap(
        lambda words: st.sampled_from(
            (
                *("_".join(words), "_".join(words).upper(), "-".join(words), ".".join(words)),
                *("".join(map(str.title, words)), "".join(words), "".join(words).upper()),
            )
        )
    )
    .filter(is_secret_name)
)
FORMS = (
    *('{"title":"export NAME=VALUE"}', '{"NAME":"VALUE"}', '{"name":"NAME","value":"VALUE"}'),
    *(
        '{"key":"NAME","value":"VALUE"}',
        '{"value":"VALUE","name":"NAME"}',
        '{"a":"x\\tNAME:VALUE"}',
    ),
    *(
        '{"title":"run --NAME VALUE now"}',
        '{"args":["--NAME","VALUE"]}',
        '{"a":"x\\n--NAME VALUE"}',
    ),
    *('{"a":"https://x.test/?NAME=VALUE"}', '{"a":"{\\"NAME\\": \\"VALUE\\"}"}', "NAME=VALUE"),
    *('{"a":"NAME = \\"VALUE\\""}', '{"args":["NAME=VALUE","--NAME=VALUE"]}', '{"NAME":[12345]}'),
    *('{"a":"x\\u000b--NAME VALUE"}', "{\"a\":\"$x['NAME']='VALUE'\"}", '{"NAME" : {"a":"VALUE"}}'),
)


@requirement("R-TRACE-05")
@given(names, st.sampled_from(FORMS), st.sampled_from(("s3cr3t-V4lue.42", "hunter")))
def test_frame_in_which_the_search_finds_no_secret_has_none(
    name: str, form: str, value: str
) -> None:
    for around in ("%s", '{"method":"_x","params":[1,%s,{"b":true}]}'):
        frame = (around % form.replace("NAME", name).replace("VALUE", value)).encode()
        if not with_possible_secrets([b"{}", frame]):
            assert redacted_frame(frame) is None


@pytest.mark.parametrize(
    "value",
    [
        *({name: SECRET} for name in ("DB_PASSWORD_PROD", "TOKENS", "KEYS", "SECRET_KEY_BASE")),
        {"name": "STRIPE_KEY_LIVE", "value": SECRET},
        *({"title": f"x {name}={SECRET}"} for name in ("SECRET_KEY_BASE", "API_KEY_PROD", "KEYS")),
        {"title": "KEY=hunter"},
        {"title": f"java --spring.datasource.password {SECRET}"},
        {"args": [f"--{'long-' * 9}token", SECRET]},
        *({"title": f"Authorization failed: Bearer{space}{SECRET}0a"} for space in "\n\t\f\v\xa0"),
        {"title": "https://x.test/a/0123456789ABCDEFabcdef0123456789/b"},
        {"title": f"https://x.test/{'a' * 90}B1/b"},
        *({"title": f"{host}/a/{SECRET}012"} for host in ("hooks.slack.com/services", "/webhook")),
        {"title": "/bot123456:abcdefghijklmnop"},
    ],
)
@requirement("R-TRACE-05")
def test_secret_is_found_by_the_search_that_comes_first(value: Any) -> None:
    for separators in ((",", ":"), (", ", ": ")):
        for is_ascii in (True, False):
            frame = json.dumps(value, separators=separators, ensure_ascii=is_ascii).encode()
            assert redacted_frame(frame) is not None
            assert with_possible_secrets([b"{}", frame]) == {1}


@pytest.mark.parametrize("name", ["key", "token_", "pat-"])
def test_long_name_of_a_value_takes_linear_time(name: str) -> None:
    assert has_linear_cost(lambda number: f'{{"name":"{name * number} ","value":"x"}}')
