"""Errors of providers, as shown to users: where and why, without secrets."""

from __future__ import annotations

from pydantic_ai.exceptions import ModelConnectionError

from accord_coder.models.providers import PROVIDERS
from accord_coder.models.remote import classify_error

SECRET = "sk-secret"
SOURCE = next(source for source in PROVIDERS if source.id == "compatible")


def unreachable(cause: BaseException | None, address: str) -> str:
    error = ModelConnectionError("m", "Connection error.")
    error.__cause__ = cause
    fault = classify_error(error, SOURCE, address, secret=SECRET, begun=False)
    assert fault.is_transient
    return str(fault.error)


def test_failed_connection_names_the_address_and_the_reason() -> None:
    wrapped = RuntimeError("all attempts failed")
    wrapped.__context__ = ConnectionRefusedError(111, "Connection refused")
    said = unreachable(wrapped, f"http://user:{SECRET}@127.0.0.1:9/v1?key={SECRET}")
    assert said.endswith("cannot be reached at http://127.0.0.1:9: Connection refused.")


def test_address_that_cannot_be_parsed_is_omitted() -> None:
    for address in ["", "http://[", "nothing", "http://host:x/"]:
        assert unreachable(None, address).endswith("cannot be reached."), address


def test_reason_has_no_secret_and_is_limited() -> None:
    said = unreachable(OSError(5, f"{SECRET} " + "x" * 1000), "http://host/")
    assert SECRET not in said
    assert len(said) < 500
