"""Project rules: only rules that the user made or trusts can allow anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from accord_coder.permissions.rules import ProjectRules, Rule, TrustStore
from accord_coder.settings import lock_directory

THEIRS = '[allow]\nexecute = ["*"]\n[reject]\nedit = ["*.lock"]\n'
ANY = Rule("allow", "execute", "*")
LOCK = Rule("reject", "edit", "*.lock")
MINE = Rule("allow", "edit", "a.py")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project" / ".accord").mkdir(parents=True)
    return tmp_path / "project"


def put(project: Path, text: str) -> None:
    (project / ".accord" / "permissions.toml").write_text(text)


@pytest.fixture(params=["kept", "in memory"])
def trust(request: pytest.FixtureRequest, tmp_path: Path) -> TrustStore:
    return TrustStore(tmp_path / "data" / "rules" if request.param == "kept" else None)


def test_untrusted_file_denies_but_does_not_allow(project: Path, trust: TrustStore) -> None:
    put(project, THEIRS)
    known = ProjectRules(str(project), trust).read()
    assert known.rules == (LOCK,)
    assert known.untrusted == (ANY,)


def test_own_rule_applies_without_trusting_the_others(project: Path, trust: TrustStore) -> None:
    put(project, THEIRS)
    book = ProjectRules(str(project), trust)
    assert book.add(MINE) is None
    assert set(book.read().rules) == {LOCK, MINE}
    assert book.read().untrusted == (ANY,)


def test_trusted_rules_apply_until_somebody_else_changes_them(
    project: Path, trust: TrustStore
) -> None:
    put(project, THEIRS)
    book = ProjectRules(str(project), trust)
    assert book.trust_all() == 1
    assert ANY in book.read().rules
    put(project, THEIRS.replace('"*"', '"* *"'))
    assert [rule.pattern for rule in book.read().untrusted] == ["* *"]


def test_trust_is_per_project(project: Path, trust: TrustStore, tmp_path: Path) -> None:
    ProjectRules(str(project), trust).add(MINE)
    other = tmp_path / "other"
    (other / ".accord").mkdir(parents=True)
    put(other, (project / ".accord" / "permissions.toml").read_text())
    assert ProjectRules(str(other), trust).read().rules == ()


def test_removed_rule_is_not_trusted_when_it_is_added_again(
    project: Path, trust: TrustStore
) -> None:
    book = ProjectRules(str(project), trust)
    book.add(MINE)
    text = (project / ".accord" / "permissions.toml").read_text()
    book.remove(MINE)
    put(project, text)
    assert book.read().rules == ()


def test_trust_survives_the_process(project: Path, tmp_path: Path) -> None:
    ProjectRules(str(project), TrustStore(tmp_path / "data")).add(MINE)
    assert ProjectRules(str(project), TrustStore(tmp_path / "data")).read().rules == (MINE,)


def test_unreadable_trust_file_allows_nothing_and_is_reported(
    project: Path, trust: TrustStore
) -> None:
    put(project, "[allow")
    book = ProjectRules(str(project), trust)
    assert book.read().error
    assert book.add(MINE) is not None
    assert book.read().rules == (MINE,)  # until the session ends
    book.remove(MINE)
    assert book.read().rules == ()
    assert (project / ".accord" / "permissions.toml").read_text() == "[allow"


def test_rule_that_cannot_be_saved_applies_in_this_process(
    project: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    book = ProjectRules(str(project), TrustStore(tmp_path / "file" / "data"))
    assert book.add(MINE) is None
    assert book.read().rules == (MINE,)
    assert "cannot be stored" in caplog.text


ADDS = """
import sys
from pathlib import Path
from accord_coder.permissions.rules import ProjectRules, TrustStore
from accord_coder.permissions.rules import Rule

book = ProjectRules(sys.argv[1], TrustStore(Path(sys.argv[2])))
sys.stdin.readline()
for number in range(10):
    assert book.add(Rule("allow", "edit", f"{sys.argv[3]}-{number}.py")) is None
"""


def test_concurrent_changes_of_the_rules_lose_none(project: Path, tmp_path: Path) -> None:
    data = tmp_path / "data" / "rules"
    (tmp_path / "adds.py").write_text(ADDS)
    command = [sys.executable, str(tmp_path / "adds.py"), str(project), str(data)]
    started = [
        subprocess.Popen([*command, f"{name}"], stdin=subprocess.PIPE, text=True)
        for name in range(3)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        process.communicate(timeout=30)
        assert process.returncode == 0
    rules = ProjectRules(str(project), TrustStore(data)).read().rules
    assert {rule.pattern for rule in rules} == {f"{n}-{m}.py" for n in range(3) for m in range(10)}
    left = {path.name for path in (project / ".accord").iterdir()}
    assert left <= {"permissions.toml", ".lock"}


def test_rule_applies_in_this_process_if_the_file_stays_locked(
    project: Path, trust: TrustStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord_coder.settings._MAX_WAIT_S", 0.02)
    book = ProjectRules(str(project), trust)
    with lock_directory(project / ".accord"):
        why = book.add(MINE)
        assert why is not None
        assert "another process" in why
    assert book.read().rules == (MINE,)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_lock_file_that_is_a_link_is_not_followed(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (project / ".accord" / ".lock").symlink_to(outside)
    book = ProjectRules(str(project), TrustStore(None))
    assert book.add(MINE) is not None
    assert not outside.exists()
    assert book.read().rules == (MINE,)


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
def test_lock_file_that_is_a_hard_link_keeps_its_content(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    outside.chmod(0o644)
    (project / ".accord" / ".lock").hardlink_to(outside)
    ProjectRules(str(project), TrustStore(None)).add(MINE)
    assert outside.read_text() == "mine"
    assert outside.stat().st_mode & 0o777 == 0o644
