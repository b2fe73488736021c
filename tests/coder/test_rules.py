"""What patterns of rules cover."""

from __future__ import annotations

import time

import pytest

from accord.coder.rules import EFFECTS, Effect, Rule, host_of, rules_from, rules_to, usual

PROJECT = "/home/me/project"


def covers(effect: Effect, kind: str, pattern: str, subject: str) -> bool:
    return Rule(effect, kind, pattern).covers(kind, subject, project=PROJECT)


@pytest.mark.parametrize(
    ("pattern", "path", "covered"),
    [
        ("src/*", "src/a.py", True),
        ("src/*", "src/b/a.py", False),
        ("src/**", "src/b/a.py", True),
        ("**/*.py", "a.py", True),
        ("**/*.py", "b/c/a.py", True),
        ("*.py", "b/a.py", False),
        ("a?.py", "ab.py", True),
        ("a?.py", "a/.py", False),
        ("a[bc].py", "ac.py", True),
        ("a[!bc].py", "ac.py", False),
        ("a[*].py", "a*.py", True),
        ("a[*].py", "ab.py", False),
        ("a[.py", "a[.py", True),
        ("a.py", "a_py", False),
        ("SRC/a.py", "src/a.py", False),
        ("../**", "../other/a.py", False),
        ("src", "src/a.py", False),
    ],
)
def test_paths_are_compared_by_parts(pattern: str, path: str, covered: bool) -> None:
    assert covers("allow", "edit", pattern, f"{PROJECT}/{path}") is covered


def test_what_is_rejected_is_rejected_in_any_case() -> None:
    assert covers("reject", "edit", "*.LOCK", f"{PROJECT}/uv.lock")


def test_absolute_pattern_reaches_everywhere_and_relative_ones_stay() -> None:
    assert covers("allow", "read", "/etc/**", "/etc/hosts")
    assert not covers("allow", "read", "**", "/etc/hosts")


@pytest.mark.parametrize(
    ("pattern", "command", "covered"),
    [
        ("git status", "git status", True),
        ("git status", "git status -s", False),
        ("git status *", "git status", True),
        ("git status *", "git status -s", True),
        ("git status *", "git stash", False),
        ("git status *", "git status; rm -rf x", False),
        ("git status *", "git status && rm x", False),
        ("git status *", "git status\nrm x", False),
        ("git status *", "git status $(rm x)", False),
        ("git status *", "git -c x=y status", False),
        ("git status *", "A=1 git status", False),
        ("git status *", "sh -c 'git status'", False),
        ("git status *", "/opt/git status", False),
        ("make | tee log", "make | tee log", True),
        ("make | tee log", "make | tee logs", False),
        ("*", "ls -l", True),
        ("*", "ls; rm x", False),
        ("'git' 'status'", "git status", True),
        ("git *; rm *", "git x; rm y", False),
        ("echo 'a b'", "echo a b", False),
    ],
)
def test_allowed_command_is_not_fooled(pattern: str, command: str, covered: bool) -> None:
    assert covers("allow", "execute", pattern, command) is covered


@pytest.mark.parametrize(
    ("pattern", "command", "covered"),
    [
        ("git push *", "git push -f", True),
        ("git push *", "ls; git push", True),
        ("git push *", "sudo git push", True),
        ("git push *", "/usr/bin/git push", True),
        ("git push *", "bash -c 'git push'", True),
        ("git push", "git push -f", False),
        ("git push *", "git status", False),
        ("sudo *", "sudo ls", True),
        ("*", "ls; rm x", True),
    ],
)
def test_rejected_command_is_found_in_others(pattern: str, command: str, covered: bool) -> None:
    assert covers("reject", "execute", pattern, command) is covered


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://Docs.Example.org/3/", "docs.example.org"),
        ("https://docs.example.org.", "docs.example.org"),
        ("https://docs.example.org:443/", "docs.example.org"),
        ("http://docs.example.org:8080/", "docs.example.org:8080"),
        ("https://docs.example.org@example.com/", None),
        ("https://example.com\\@docs.example.org/", None),
        ("https://docs.example.org\t.example.com/", None),
        ("file:///etc/passwd", None),
        ("https://docs.example.org:x/", None),
        ("docs.example.org", None),
    ],
)
def test_host_is_the_one_that_is_reached(url: str, host: str | None) -> None:
    assert host_of(url) == host


def test_hosts_are_compared_whole() -> None:
    assert covers("allow", "fetch", "site.test", "https://site.test/x")
    assert not covers("allow", "fetch", "site.test", "https://notsite.test/")
    assert not covers("allow", "fetch", "site.test", "https://site.test:81/")
    assert not covers("allow", "fetch", "*.site.test", "https://site.test/")
    assert covers("allow", "fetch", "*.site.test", "https://docs.site.test/")
    assert not covers("allow", "fetch", "*", "https://a@b/")
    assert covers("reject", "fetch", "*", "https://a@b/")


def test_mcp_tools_are_named_with_their_server() -> None:
    assert covers("allow", "mcp", "github/search_*", "github/search_code")
    assert not covers("allow", "mcp", "github/*", "gitlab/x")


def test_rule_is_about_its_kind_alone() -> None:
    rule = Rule("allow", "read", "**")
    assert not rule.covers("edit", f"{PROJECT}/a", project=PROJECT)


@pytest.mark.parametrize(
    ("kind", "subject", "pattern"),
    [
        ("edit", f"{PROJECT}/src/a.py", "src/a.py"),
        ("edit", f"{PROJECT}/a[1]*.py", "a[[]1][*].py"),
        ("read", "/etc/hosts", "/etc/hosts"),
        ("execute", "git status -s", "git status *"),
        ("fetch", "https://a.example.org/b", "a.example.org"),
        ("mcp", "s/tool*", "s/tool[*]"),
        ("execute", "rm *", None),
        ("fetch", "https://a@b/", None),
        ("none", "x", None),
    ],
)
def test_always_covers_what_was_asked_about(kind: str, subject: str, pattern: str | None) -> None:
    rule = usual("allow", kind, subject, project=PROJECT)
    assert (rule.pattern if rule is not None else None) == pattern
    if rule is not None:
        assert rule.covers(kind, subject, project=PROJECT)


def test_rules_come_back_from_their_document() -> None:
    rules = [Rule("allow", "edit", "a"), Rule("allow", "edit", "b"), Rule("reject", "mcp", "x")]
    assert rules_from(rules_to(rules)) == rules


@pytest.mark.parametrize(
    "document",
    [{"allow": "all"}, {"deny": {}}, {"allow": {"fly": []}}, {"allow": {"edit": "x"}}, {"x": 1}],
)
def test_what_is_no_rule_is_named(document: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"expected|there is no"):
        rules_from(document)


def test_a_pattern_has_a_longest_length() -> None:
    with pytest.raises(ValueError, match="1001 characters"):
        rules_from({"reject": {"edit": ["*" * 1001]}})
    assert usual("allow", "edit", f"{PROJECT}/{'a' * 1001}", project=PROJECT) is None


@pytest.mark.parametrize("kind", ["edit", "mcp"])
def test_no_rule_is_slow(kind: str) -> None:
    began = time.process_time()
    for pattern in ("*a" * 40 + "b", "**/*a" * 40 + "b", "**a" * 100 + "b"):
        for effect in EFFECTS:
            assert not covers(effect, kind, pattern, f"{PROJECT}/" + ("a" * 200 + "/") * 15)
    assert time.process_time() - began < 2
