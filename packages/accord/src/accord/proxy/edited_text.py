"""The text of an edited JSON value: what was not changed keeps the text that was received."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from accord.text import lenient_json

_encode = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, Raw]).decode
_elements = msgspec.json.Decoder(list[Raw]).decode


def edited_text(text: Raw, value: Any, edited: Any) -> Raw:
    """Return the JSON text of `edited`, which shares parts with `value`, the value of `text`.

    A part that is the same object keeps its text, with its numbers and the order of its keys.
    """
    try:
        bytes(text).decode()
        return Raw(_encode(_parts(text, value, edited)))
    except UnicodeError:  # bytes that should not be passed on; lone surrogates in what is new
        return Raw(lenient_json.dumps(edited))


def _parts(text: Raw, value: Any, edited: Any) -> Any:
    """Return the edited value with the texts of what is in the other one."""
    if edited is value:
        return text
    if lenient_json.is_object(value) and lenient_json.is_object(edited):
        texts = _member_texts(text)
        return {
            key: _parts(texts[key], value[key], item) if key in texts else item
            for key, item in edited.items()
        }
    if lenient_json.is_array(value) and lenient_json.is_array(edited):
        return _items(text, value, edited)
    return edited


def _member_texts(text: Raw) -> dict[str, Raw]:
    try:
        return _members(text)
    except (msgspec.DecodeError, UnicodeDecodeError):  # for example lone surrogates
        return {key: Raw(raw) for key, raw in lenient_json.member_texts(bytes(text)).items()}


def _items(text: Raw, value: list[Any], edited: list[Any]) -> list[Any]:
    try:
        texts = _elements(text)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return edited
    if len(value) == len(edited):
        return [_parts(*triple) for triple in zip(texts, value, edited, strict=True)]
    own = {id(item): text for item, text in zip(value, texts, strict=True)}
    return [own.get(id(item), item) for item in edited]
