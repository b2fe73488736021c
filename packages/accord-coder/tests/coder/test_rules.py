"""Permission rules: what their patterns cover."""

from __future__ import annotations

import time

import pytest

from accord_coder.permissions.rules import (
    EFFECTS,
    Effect,
    Rule,
    host_of,
    rules_from,
    rules_to,
    suggest_rule,
)

PROJECT = "/home/me/project"


def covers(effect: Effect, kind: str, pattern: str, subject: str) -> bool:
    return Rule(effect, kind, pattern).covers(kind, subject, project=PROJECT)


def test_paths_are_compared_by_component() -> None:
    for pattern, path, covered in [
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
    ]:
        found = covers("allow", "edit", pattern, f"{PROJECT}/{path}")
        assert found is covered, (pattern, path)


def test_deny_rules_ignore_case() -> None:
    assert covers("reject", "edit", "*.LOCK", f"{PROJECT}/uv.lock")


def test_absolute_pattern_applies_everywhere_and_relative_ones_inside() -> None:
    assert covers("allow", "read", "/etc/**", "/etc/hosts")
    assert not covers("allow", "read", "**", "/etc/hosts")


def test_allowed_command_cannot_hide_another() -> None:
    for pattern, command, covered in [
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
    ]:
        assert covers("allow", "execute", pattern, command) is covered, (pattern, command)


def test_denied_command_is_found_inside_others() -> None:
    for pattern, command, covered in [
        ("git push *", "git push -f", True),
        ("git push *", "ls; git push", True),
        ("git push *", "sudo git push", True),
        ("git push *", "/usr/bin/git push", True),
        ("git push *", "bash -c 'git push'", True),
        ("git push", "git push -f", False),
        ("git push *", "git status", False),
        ("sudo *", "sudo ls", True),
        ("*", "ls; rm x", True),
    ]:
        assert covers("reject", "execute", pattern, command) is covered, (pattern, command)


def test_host_is_the_one_that_is_contacted() -> None:
    for url, host in [
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
    ]:
        assert host_of(url) == host, (url, host)


def test_hosts_are_compared_completely() -> None:
    assert covers("allow", "fetch", "site.test", "https://site.test/x")
    assert not covers("allow", "fetch", "site.test", "https://notsite.test/")
    assert not covers("allow", "fetch", "site.test", "https://site.test:81/")
    assert not covers("allow", "fetch", "*.site.test", "https://site.test/")
    assert covers("allow", "fetch", "*.site.test", "https://docs.site.test/")
    assert not covers("allow", "fetch", "*", "https://a@b/")
    assert covers("reject", "fetch", "*", "https://a@b/")


def test_mcp_tools_have_the_name_of_their_server() -> None:
    assert covers("allow", "mcp", "github/search_*", "github/search_code")
    assert not covers("allow", "mcp", "github/*", "gitlab/x")


# Options that a rule with a final star does not cover: they write, run or read settings.
RISKY = """
git log|--output=.git/config|--output=x|--outp=x|--ext-diff|--textconv|--no-index
git log|-O x|--format=%GG|--show-signature|--unknown
git status|--output=x|-c core.fsmonitor=x|--git-dir=x
git diff|--output x|--ext-diff|--no-index /etc/passwd x|-Ox|--textconv
git show|--output=x|--ext|-O/x
git branch|-D main|new|--edit-description|-m x|--delete x|--set-upstream-to=x
git tag|v1|-d v1|-a|-s x|-F x
git remote|add x y|set-url x y|update
git grep|-O x|--open-files-in-pager=x|-Osh x|--open=x|--no-index x
git add|-e|--edit|-i|-p|--interactive|--pathspec-from-file=x
git commit|-F x|-e|--edit|-S|--gpg-sign=x|-t x|--template=x|-c HEAD
git *|log --output=x|-c alias.x=!sh x|--exec-path=x log|fetch --upload-pack=x|push --receive-pack=x
git *|push --exec=x|config core.pager x|rebase -x make|rebase --exec make|bisect run x|clone x
git *|submodule foreach x|grep -Osh x|difftool -x sh|archive -o x|diff --ext-diff
git push|--receive-pack=x|--exec=x
git fetch|--upload-pack=x|--upl=x
cargo build|--config x|--manifest-path=x|--target-dir x|-Zunstable|-C x
cargo test|--config=x
cargo *|build --config x|--config=x build
go test|-exec sh|-exec=sh|-toolexec=x|-o x|-overlay=x|-coverprofile=x|-vet=x|-C x
go build|-toolexec x|-o=x|-ldflags=x|-modfile=x
go *|run x|generate|test -exec sh|tool x|env -w x
npm *|run x --script-shell=sh|run-script x|exec x|config set x y|x y|-C x ls|--prefix=x ls|link x
npm run build|--script-shell=x|--prefix ..|--node-options=x
pip *|install --index-url=x y|install -r x|install -e x|config set x y|--log=x list
make *|-f x|--eval=x|-C x|--file=x|--makefile=x|-Ix
find *|. -exec sh {}|. -execdir x|. -ok x|. -delete|. -fprint x|. -fls x
rg *|--pre=x y|--pre x y|--hostname-bin=x y|-f x|--ignore-file=x
grep *|-f x y|--file=x y|-rf x y
sed *|-i s/a/b/ x|--in-place=x s/a/b/ y|-n 1w:x|s/a/b/e|s/a/b/w:x|1e:ls|-f x|-ni s/a/b/ x|--expr=p
awk *|system("x")|print:>"x"|-f x|"x":getline|-i inplace|-lx|@load
tar *|-xf x|xf x|--to-command=x -tf y|--checkpoint-action=x -tf y|-I x -tf y|-F x -tf y|--use-comp=x
sort *|-o x y|-ox y|--output=x y|--compress-program=x y|--out=x
curl *|-o x y|-O y|-K x|--config=x|-Tx y|--out=x|-so x y
wget *|-O x y|-e x|--execute=x|-i x
tree *|-o x|-R
kubectl get|--kubeconfig=x|-f x|-o x
kubectl *|exec x|apply -f x|--kubeconfig=x get|edit x
docker *|run -v x:y z|--config=x ps
jq *|-f x y|--from-file x|-L x|--rawfile a b c
file *|-C -m x
sed *|-n -e p -e 1e:ls|p -e1e:ls|-l p 1e:ls|--line-length p 1e:ls|-ne 1e:ls
gawk *|-e/a/{system(c)} f|--source=BEGIN{system(c)}|--pretty-print=x 1|-D 1|-pfile 1
mawk *|-Wexec x|-W exec x
go *|vet --vettool=x|build --o=x|test --exec=x
curl *|--remote-name-all x|-w %output{x}a y|--write-out=%output{x}a y|--hsts x y|--engine=x y
less *|+!id x|--cmd=x y|--lesskey-content=x y
rsync *|-e x a b|--rsh=x a b|--rsync-path=x a b|-ae x a b|--log-file=x a b
ssh *|-oProxyCommand=x h|-o ProxyCommand=x h|-F x h
scp *|-S x a b|-oProxyCommand=x a b
split *|--filter=x y
man *|-P x y|--pager=x y|-Hx y
wget *|--save-cookies=x y|--hsts-file=x y
tar *|-t --listed-incremental=x -f a|-tMf a --volno-file=x|-tg x -f a
git branch|--format=%(signature:grade)
git *|-C x log
jq *|--library-path x a|--argfile a b c
zip *|-T -TT x a b|--unzip-command=x a b
bat *|--pager=x y
ag *|--pager x y
ack *|--pager=x y
time *|-o x y
fd *|-x sh|--exec sh|-X sh
uv *|--config-file=x run|--directory=x run
yarn *|--cwd=x run|exec x|--use-yarnrc=x
"""
TAME = """
git log|--oneline -5|--stat -p|-n 3|--since=yesterday --author=me|-S word|--graph --all|main..x
git log|--format=%h|-n3|-5|--no-merges src/a.py
git status|-s|--short --branch|-sb|--porcelain=v2|src
git diff|HEAD~1|--stat|--cached|-w -U5|main...x -- src|--name-only
git show|HEAD|--stat HEAD~2|HEAD:src/a.py|-s
git branch|-a|-vv|--show-current|--list
git grep|-n word|-in word -- src|-e word
git add|.|-A|src/a.py
git commit|-m message|-am message|--amend --no-edit
git *|log|status -s|push|checkout x
cargo build|--release|-p x|--all-features
cargo test|name|--workspace|-q
go test|./...|-run Name|-v -count=1 ./x
npm *|ls|test|run build
pip *|list|show x
make *|test|-j4 all|-n
find *|. -name x|src -type f -newer y
rg *|word|-n word src|--glob=x word
grep *|-rn word src|-i word x
sed *|-n 1,5p x|s/a/b/ x|s/a/b/g x|s,/a,/b,2 x|-E s/a+/b/gi x
awk *|{print $1} x
tar *|tf x|-tf x|-tvf x
gawk *|{print $1} x|-F, {print} x|-v a=b {print:a} x
rsync *|-av a b|--delete a b
less *|-N x
man *|3 printf
sort *|-n x|-u x
kubectl get|pods|pods -n x
unknown *|--output=x|-o x|anything
"""


def _commands(table: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for line in table.strip().splitlines():
        start, *rests = line.split("|")
        start = start.removesuffix(" *")
        for rest in rests:
            # A colon in a word means a space.
            words = [
                word.replace(":", " ") if start in ("sed", "awk", "gawk") else word
                for word in rest.split(" ")
            ]
            quoted = [word if word.isalnum() else f"'{word}'" for word in words]
            found.append((f"{start} *", f"{start} {' '.join(quoted)}"))
    return found


def test_star_excludes_options_that_write_or_run() -> None:
    for pattern, command in _commands(RISKY):
        assert not covers("allow", "execute", pattern, command), (pattern, command)
        assert covers("reject", "execute", pattern, command), (pattern, command)


def test_star_covers_the_words_before_it() -> None:
    for pattern, command in _commands(TAME):
        assert covers("allow", "execute", pattern, command), (pattern, command)


def test_rule_that_names_an_option_covers_it() -> None:
    assert covers("allow", "execute", "git -c core.pager=cat log *", "git -c core.pager=cat log -5")
    assert covers("allow", "execute", "git log --output=x", "git log --output=x")
    assert covers("allow", "execute", "find . -exec *", "find . -exec ls")


def test_always_for_one_command_covers_no_other() -> None:
    for pattern, command in _commands(RISKY):
        offered = suggest_rule("allow", "execute", command, project=PROJECT)
        assert offered is None or offered.pattern == command, (pattern, command)


def test_rule_applies_to_its_kind_only() -> None:
    rule = Rule("allow", "read", "**")
    assert not rule.covers("edit", f"{PROJECT}/a", project=PROJECT)


def test_always_covers_the_requested_action() -> None:
    for kind, subject, pattern in [
        ("edit", f"{PROJECT}/src/a.py", "src/a.py"),
        ("edit", f"{PROJECT}/a[1]*.py", "a[[]1][*].py"),
        ("read", "/etc/hosts", "/etc/hosts"),
        ("execute", "git status -s", "git status *"),
        ("fetch", "https://a.example.org/b", "a.example.org"),
        ("mcp", "s/tool*", "s/tool[*]"),
        ("execute", "rm *", None),
        ("execute", "*", None),
        ("execute", " * ", None),
        ("fetch", "https://a@b/", None),
        ("none", "x", None),
    ]:
        rule = suggest_rule("allow", kind, subject, project=PROJECT)
        assert (rule.pattern if rule is not None else None) == pattern, (kind, subject, pattern)
        if rule is not None:
            assert rule.covers(kind, subject, project=PROJECT), (kind, subject, pattern)


def test_rules_survive_a_round_trip_through_their_document() -> None:
    rules = [Rule("allow", "edit", "a"), Rule("allow", "edit", "b"), Rule("reject", "mcp", "x")]
    assert rules_from(rules_to(rules)) == rules


def test_invalid_rule_is_named() -> None:
    for document in [
        {"allow": "all"},
        {"deny": {}},
        {"allow": {"fly": []}},
        {"allow": {"edit": "x"}},
        {"x": 1},
    ]:
        with pytest.raises(ValueError, match=r"expected|there is no"):
            rules_from(document)


def test_length_of_a_pattern_is_limited() -> None:
    with pytest.raises(ValueError, match="1001 characters"):
        rules_from({"reject": {"edit": ["*" * 1001]}})
    assert suggest_rule("allow", "edit", f"{PROJECT}/{'a' * 1001}", project=PROJECT) is None


def test_matching_is_fast_for_any_rule() -> None:
    for kind in ["edit", "mcp"]:
        began = time.process_time()
        for pattern in ("*a" * 40 + "b", "**/*a" * 40 + "b", "**a" * 100 + "b"):
            for effect in EFFECTS:
                assert not covers(effect, kind, pattern, f"{PROJECT}/" + ("a" * 200 + "/") * 15), (
                    kind
                )
        assert time.process_time() - began < 2, kind
