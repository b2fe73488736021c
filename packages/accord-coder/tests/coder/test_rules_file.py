"""The rules file: comments of the user are kept, and links are not followed."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_coder.permissions.rules import (
    KINDS,
    InvalidRules,
    Rule,
    read_rules,
    rules_from,
    with_rule,
    without_rule,
    write_rules_file,
)

HAND = """\
# Ours.

[reject]  # never
execute = ["git push *", 'rm *'] # dangerous

[allow]
# What may be edited:
edit = [
    "src/**",   # code
    "docs/**"
]
execute = []
"""
NEW = Rule("allow", "edit", "tests/**")


def rules_of(text: str) -> list[Rule]:
    return rules_from(tomllib.loads(text))


def test_rule_is_added_and_comments_stay() -> None:
    changed = with_rule(HAND, rules_of(HAND), NEW)
    assert set(rules_of(changed)) == {*rules_of(HAND), NEW}
    for line in ("# Ours.", "# never", "# dangerous", "# What may be edited:", "# code"):
        assert line in changed


def test_rule_is_added_to_its_section() -> None:
    for rule in [
        Rule("allow", "execute", "make"),
        Rule("reject", "execute", "sudo *"),
        Rule("allow", "fetch", "a.org"),
        Rule("reject", "edit", 'a"b\\c'),
    ]:
        changed = with_rule(HAND, rules_of(HAND), rule)
        assert set(rules_of(changed)) == {*rules_of(HAND), rule}, rule
        assert "# What may be edited:" in changed, rule


def test_rule_is_removed_and_the_rest_is_kept() -> None:
    for rule in rules_of(HAND):
        changed = without_rule(HAND, rules_of(HAND), rule)
        assert set(rules_of(changed)) == set(rules_of(HAND)) - {rule}
        assert "# Ours." in changed
        assert "# never" in changed


def test_existing_rule_changes_nothing() -> None:
    assert with_rule(HAND, rules_of(HAND), rules_of(HAND)[0]) == HAND


def test_unusual_file_keeps_its_rules_and_its_first_comment() -> None:
    for text in [
        "# Ours.\nallow.edit = ['a']\n",
        "# Ours.\nallow = { edit = ['a'] }\n",
        "# Ours.\n[allow]\n\"edit\" = ['a']\n",
        "# Ours.\n[allow]\nedit = ['''a''']\n",
    ]:
        changed = with_rule(text, rules_of(text), NEW)
        assert set(rules_of(changed)) == {*rules_of(text), NEW}, text
        assert changed.startswith("# Ours."), text


texts = st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), min_size=1, max_size=20)
some_rules = st.lists(
    st.builds(Rule, st.sampled_from(["allow", "reject"]), st.sampled_from(KINDS), texts),
    max_size=6,
    unique=True,
)


@settings(max_examples=30)
@given(some_rules)
def test_any_rules_can_be_added_and_removed_individually(rules: list[Rule]) -> None:
    text = ""
    for rule in rules:
        text = with_rule(text, rules_of(text), rule)
    assert set(rules_of(text)) == set(rules)
    for rule in rules:
        text = without_rule(text, rules_of(text), rule)
    assert rules_of(text) == []


def test_file_is_created_with_its_directory(tmp_path: Path) -> None:
    write_rules_file(tmp_path, with_rule("", [], NEW))
    _, rules = read_rules(tmp_path)
    assert rules == [NEW]
    assert [path.name for path in (tmp_path / ".accord").iterdir()] == ["permissions.toml"]


def test_missing_file_has_no_rules(tmp_path: Path) -> None:
    assert read_rules(tmp_path) == ("", [])


@pytest.mark.parametrize("text", ["[allow", "[deny]\n", "[allow]\nedit = 1\n", "\0", "[allow]\r["])
def test_unreadable_file_is_an_error_with_the_reason(text: str, tmp_path: Path) -> None:
    (tmp_path / ".accord").mkdir()
    (tmp_path / ".accord" / "permissions.toml").write_text(text)
    with pytest.raises(InvalidRules):
        read_rules(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_links_are_not_followed(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (outside / "permissions.toml").write_text("")
    (project / ".accord").symlink_to(outside)
    with pytest.raises(InvalidRules, match="link"):
        read_rules(project)
    with pytest.raises(OSError, match="not a directory"):
        write_rules_file(project, "x")
    (project / ".accord").unlink()
    (project / ".accord").mkdir()
    (project / ".accord" / "permissions.toml").symlink_to(outside / "permissions.toml")
    with pytest.raises(InvalidRules, match="link"):
        read_rules(project)
    write_rules_file(project, "# new\n")
    assert (outside / "permissions.toml").read_text() == ""
    assert not (project / ".accord" / "permissions.toml").is_symlink()
