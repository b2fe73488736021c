"""One member of a text is set and removed; all else stays as it was."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_terminal.editor_settings import JsoncError, parse, with_member, without_member
from requirement import requirement

pytestmark = requirement("R-EDIT-01")

PATH = ("agent_servers", "accord")
ENTRY = {"command": "/bin/accord", "args": ["agent"]}

ZED = """\
// Zed settings
//
// For documentation, see https://example.com/docs
{
  "theme": { "mode": "system", "light": "One Light", },
  "agent_servers": {
    // the company's agent
    "Work": {
      "type": "custom",
      "command": "work-agent", // from IT
    }, /* keep */
  },
  "buffer_font_size": 15,
  // "vim_mode": true,
}
"""


def loads(text: str) -> Any:
    node = parse(text)
    return None if node is None else node.value


def test_zed_file_gets_the_agent_and_keeps_everything() -> None:
    assert with_member(ZED, PATH, ENTRY) == ZED.replace(
        "    }, /* keep */\n",
        """\
    }, /* keep */
    "accord": {
      "command": "/bin/accord",
      "args": ["agent"]
    },
""",
    )


def test_comment_after_the_last_member_stays_with_it() -> None:
    text = '{\n\t"agent_servers": {\n\t\t"a": {} // about a\n\t}\n}\n'
    assert with_member(text, PATH, {"command": "/x"}) == (
        '{\n\t"agent_servers": {\n\t\t"a": {}, // about a\n\t\t"accord": {\n'
        '\t\t\t"command": "/x"\n\t\t}\n\t}\n}\n'
    )


def test_missing_parent_is_added_at_the_end() -> None:
    assert with_member('{\n    "a": 1\n}\n', PATH, {"command": "/x"}) == (
        '{\n    "a": 1,\n    "agent_servers": {\n        "accord": {\n'
        '            "command": "/x"\n        }\n    }\n}\n'
    )


def test_text_of_one_line_stays_one_line() -> None:
    text = '{"agent_servers": {"a": {}}}'
    new = '{"agent_servers": {"a": {}, "accord": {"command": "/x"}}}'
    assert with_member(text, PATH, {"command": "/x"}) == new
    assert without_member(new, PATH) == text


@pytest.mark.parametrize("text", ["", "\n", "// only a comment", "/* c */\r\n"])
def test_text_without_an_object_gets_one_after_its_comments(text: str) -> None:
    new = with_member(text, PATH, ENTRY)
    assert new.startswith(text)
    assert loads(new) == {"agent_servers": {"accord": ENTRY}}


def test_existing_entry_keeps_its_other_members_and_comments() -> None:
    text = """\
{
  "agent_servers": {
    "accord": {
      // mine
      "command": "/old/accord", // moved
      "args": ["agent", "--mode", "plan"],
      "env": { "KEY": "1" },
      "default_mode": "ask"
    }
  }
}
"""
    entry = {"type": "custom", **ENTRY, "env": {"OTHER": "2"}}
    new = with_member(text, PATH, entry)
    assert new == text.replace("/old/accord", "/bin/accord").replace(
        '["agent", "--mode", "plan"]', '["agent"]'
    ).replace('{ "KEY": "1" }', '{ "KEY": "1", "OTHER": "2" }').replace(
        '"default_mode": "ask"', '"default_mode": "ask",\n      "type": "custom"'
    )


def test_removing_what_is_not_there_changes_nothing() -> None:
    assert without_member(ZED, PATH) == ZED
    assert without_member("", PATH) == ""
    assert without_member('{"agent_servers": null}', PATH) == '{"agent_servers": null}'


@pytest.mark.parametrize(
    ("text", "rest"),
    [
        ('{"accord": 1, "b": 2}', '{ "b": 2}'),
        ('{"a": 1, "accord": 1, "b": 2}', '{"a": 1, "b": 2}'),
        ('{"a": 1, "accord": 1}', '{"a": 1}'),
        ('{"a": 1, "accord": 1,}', '{"a": 1,}'),
        ('{"accord": 1}', "{}"),
        ('{\n  "accord": 1,\n}', "{}"),
        ('{\n  // note\n  "accord": 1\n}', "{\n  // note\n}"),
        ('{ // note\n"accord": 1 }', "{ // note\n }"),
        ('{"a": 1, // note\n"accord": 1, "b": 2}', '{"a": 1, // note\n "b": 2}'),
        ('{\n  "accord": 1, // gone\n  "b": 2\n}', '{ // gone\n  "b": 2\n}'),
    ],
)
def test_member_is_removed_at_every_place(text: str, rest: str) -> None:
    assert without_member(text, ("accord",)) == rest
    parse(rest)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("[]", (1, 1), "expected an object"),
        ('{\n "agent_servers": []}', (2, 19), 'expected an object for "agent_servers"'),
        ('{"agent_servers": null}', (1, 19), 'expected an object for "agent_servers"'),
        ('{"agent_servers": {},\n"agent_servers": {}}', (2, 1), "occurs twice"),
    ],
)
def test_other_shapes_are_refused(text: str, place: tuple[int, int], message: str) -> None:
    with pytest.raises(JsoncError) as error:
        with_member(text, PATH, ENTRY)
    assert (error.value.line, error.value.column) == place
    assert message in str(error.value)


# Texts of any style: spaces, comments, commas and ends of lines at every place that has them.
SPACES = ["", " ", "  ", "\t", "\n", "\n  ", "\r\n\t", "\n\n    "]
COMMENTS = ["", "", "/* c */", "// c\n", "/* a\n * b */", "// \u00e9\r\n", "//\n"]
# Drawn at once: each file has dozens of gaps.
GAPS = st.sampled_from(["".join(parts) for parts in product(SPACES, COMMENTS, SPACES)])
KEYS = st.sampled_from(["a", "b.c", "agent_servers", "accord", "\u00fc", 'q"q', "x", "y"])
NAMES = st.lists(KEYS, max_size=4, unique=True)


@st.composite
def values(draw: st.DrawFn, depth: int = 0) -> str:
    if depth > 2 or draw(st.booleans()):
        return draw(st.sampled_from(["1", "true", "null", '"//"', '"\\u00e9"', "[]", "-1.5e3"]))
    if draw(st.integers(0, 4)) == 0:
        items = draw(st.lists(values(depth + 1), max_size=3))
        return f"[{draw(GAPS)}{','.join(f'{item}{draw(GAPS)}' for item in items)}]"
    return draw(objects(depth + 1))


@st.composite
def objects(draw: st.DrawFn, depth: int = 0, names: st.SearchStrategy[list[str]] = NAMES) -> str:
    parts = ["{"]
    keys = draw(names)
    for index, key in enumerate(keys):
        name = json.dumps(key, ensure_ascii=False)
        content = draw(SERVERS if key == "agent_servers" else values(depth + 1))
        parts += [draw(GAPS), name, draw(GAPS), ":", draw(GAPS), content, draw(GAPS)]
        if index < len(keys) - 1 or draw(st.booleans()):
            parts.append(",")
    return "".join([*parts, draw(GAPS), "}"])


SERVERS = objects(1)
OTHERS = st.lists(st.sampled_from(["a", "b.c", "x"]), min_size=1, unique=True)


@st.composite
def files(draw: st.DrawFn) -> str:
    return draw(GAPS) + draw(objects()) + draw(GAPS)


@st.composite
def files_of_others(draw: st.DrawFn) -> str:
    """Return a file with other agents."""
    text = draw(objects(1, OTHERS))
    return draw(files_with(text))


@st.composite
def files_with(draw: st.DrawFn, servers: str) -> str:
    before, after = draw(objects(1)), draw(values(1))
    parts = ["{", '"before":', before, ",", '"agent_servers":', servers]
    if draw(st.booleans()):
        parts += [",", '"after":', after]
    return "".join(f"{part}{draw(GAPS)}" for part in [*parts, "}"])


@settings(max_examples=30)
@given(files())
def test_only_the_own_key_changes_and_only_once(text: str) -> None:
    before = loads(text)
    once = with_member(text, PATH, ENTRY)
    assert with_member(once, PATH, ENTRY) == once
    after = loads(once)
    servers = before.get("agent_servers", {})
    own = servers.get("accord", {})
    entry = {**own, **ENTRY} if isinstance(own, dict) else ENTRY
    assert after == {**before, "agent_servers": {**servers, "accord": entry}}
    assert list(after)[: len(before)] == list(before)


@settings(max_examples=30)
@given(files_of_others())
def test_removing_what_was_added_gives_the_same_text(text: str) -> None:
    # What had no other agents is restored from the backup: test_settings_file.py.
    assert without_member(with_member(text, PATH, ENTRY), PATH) == text


@settings(max_examples=30)
@given(objects().flatmap(files_with))
def test_removing_leaves_everything_else(text: str) -> None:
    before = loads(text)
    servers = before["agent_servers"]
    rest = {key: value for key, value in servers.items() if key != "accord"}
    assert loads(without_member(text, PATH)) == {**before, "agent_servers": rest}
