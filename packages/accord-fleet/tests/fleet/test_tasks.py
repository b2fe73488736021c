"""Tasks are read from files and Python, and everything wrong with them is reported at once."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from accord_fleet.command.commands import run
from accord_fleet.dataset.run_file import describe_changes
from accord_fleet.tasks.problems import TaskErrors
from accord_fleet.tasks.read import check_tasks
from accord_fleet.types import (
    Archive,
    CommandGrader,
    FleetError,
    Folder,
    GitRepository,
    Limits,
    Permissions,
    Task,
)
from project import ROOT


def lines(path: Path, *tasks: Any) -> Path:
    texts = [task if isinstance(task, str) else json.dumps(task) for task in tasks]
    path.write_text("\n".join(texts) + "\n")
    return path


async def read(given: Any, **options: Any) -> list[Task]:
    with await check_tasks(given, **options) as tasks:
        assert len(tasks) == len(list(tasks))
        return list(tasks)


async def errors(given: Any, **options: Any) -> list[str]:
    with pytest.raises(TaskErrors) as raised:
        await check_tasks(given, **options)
    first, *rest = str(raised.value).splitlines()
    assert first.startswith(f"{raised.value.count} problem")
    return rest


async def test_json_lines(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    with tarfile.open(tmp_path / "a.tar", "w"):
        pass
    file = lines(
        tmp_path / "tasks.jsonl",
        {"id": "a", "prompt": "one", "workspace": {"type": "folder", "path": "src"}},
        "",
        {
            "id": "b",
            "prompts": ["one", "two"],
            "workspace": {"type": "archive", "path": "a.tar"},
            "files": {"a/b.txt": "x"},
            "env": {"A": "1"},
            "limits": {"turn_s": 10},
            "permissions": {"allow": ["edit:src/*"]},
            "grader": {"type": "command", "command": ["pytest", "-q"]},
            "tags": ["x"],
            "mcp_servers": [{"name": "m", "command": "/bin/m", "args": [], "env": []}],
        },
    )
    first, second = await read(file)
    assert first == Task(id="a", prompts=("one",), workspace=Folder(str(tmp_path / "src")))
    assert second.workspace == Archive(str(tmp_path / "a.tar"))
    assert second.limits == Limits(turn_s=10)
    assert second.permissions == Permissions(allow=("edit:src/*",))
    assert second.grader == CommandGrader(command=("pytest", "-q"))


async def test_everything_wrong_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("no archive")
    file = lines(
        tmp_path / "tasks.jsonl",
        {"id": "a", "promt": "x"},
        "{not json",
        {"id": "bad id", "prompts": [], "limits": {"turn_s": "ten", "wals": 1, "cost": None}},
        {"id": "c", "prompt": " ", "workspace": {"type": "gti", "url": "x"}},
        {"id": "a", "prompt": "x", "workspace": {"type": "folder", "path": "missing"}},
        {"id": "e", "prompt": "x", "grader": {"type": "agent", "agent": "jugde", "prompt": "?"}},
        {"id": "f", "prompt": "x", "grader": {"type": "function", "function": "g.py:grade"}},
        {"id": "g", "prompt": "x", "files": {"../x": "", "a": "", "a/b": ""}, "env": {"A=": ""}},
        {"id": "h", "prompt": "x", "workspace": {"type": "archive", "path": "plain.txt"}},
        {"id": "i", "prompt": "x", "permissions": {"allow": ["edti:src/*"]}},
        {"id": "j", "prompt": "x", "limits": {"turn_s": 0, "tokens": -1}},
        {"id": "k", "prompt": "x", "mcp_servers": [{"name": "m"}], "tags": "one", "env": {"A": 1}},
        [1],
    )
    found = await errors(file, agents=["judge"])
    at = str(file)
    assert found == [
        f"{at}:1: promt: unknown field; the closest is 'prompts'",
        f"{at}:1: prompts: expected a value, it is missing",
        f"{at}:2: expected a JSON object: JSON is malformed: object keys must be strings (byte 1)",
        f'{at}:3: limits.turn_s: expected float | nothing, got "ten"',
        f"{at}:3: limits.wals: unknown field; the closest is 'wall_s'",
        f"{at}:4: workspace.type: expected one of 'empty', 'folder', 'git', 'archive', got \"gti\"",
        f"{at}:5: id: expected a unique id, 'a' is at {at}:1",
        f"{at}:5: workspace.path: expected a folder, {tmp_path}/missing does not exist",
        f"{at}:6: grader.agent: expected an agent of the fleet (judge), got 'jugde'",
        f"{at}:8: files.../x: expected a path inside the workspace, without '..', got \"../x\"",
        f"{at}:8: files.a/b: expected a folder, 'a' is a file of the task",
        f'{at}:8: env.A=: expected the name of a variable, got "A="',
        f"{at}:9: workspace.path: expected a tar or zip archive,"
        f" {tmp_path}/plain.txt is another kind of file",
        f"{at}:10: permissions.allow[0]: expected a kind of tool call,"
        " got \"edti:src/*\"; the closest is 'edit'",
        f"{at}:11: limits.turn_s: expected a number above 0, got 0.0",
        f"{at}:11: limits.tokens: expected a number above 0, got -1",
        f'{at}:12: tags: expected array, got "one"',
        f"{at}:12: env.A: expected str, got 1",
        f"{at}:13: expected an object, got [1]",
        f"{at}:7: grader.function: The file {tmp_path}/g.py does not exist",
    ]


async def test_at_most_fifty_problems_are_shown(tmp_path: Path) -> None:
    file = lines(tmp_path / "tasks.jsonl", *({"id": str(i)} for i in range(80)))
    found = await errors(file)
    assert len(found) == 51
    assert found[-1] == "and 30 more"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", "-b", "main", root], check=True)
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.com"]
    subprocess.run(
        ["git", *identity, "commit", "-q", "--allow-empty", "-m", "m"], cwd=root, check=True
    )
    return root


async def test_repositories_of_this_machine_are_looked_up(repository: Path, tmp_path: Path) -> None:
    root = repository
    (tmp_path / "no-repo").mkdir()

    def task(number: int, url: str, commit: str) -> dict[str, Any]:
        workspace = {"type": "git", "url": url, "commit": commit}
        return {"id": str(number), "prompt": "p", "workspace": workspace}

    good = lines(
        tmp_path / "good.jsonl",
        task(1, "repo", "main"),
        task(2, "https://example.com/r.git", "v1"),
        task(3, "git@example.com:r.git", "v1"),
    )
    urls = [
        task.workspace.url for task in await read(good) if type(task.workspace) is GitRepository
    ]
    assert urls == [str(root), "https://example.com/r.git", "git@example.com:r.git"]
    bad = lines(
        tmp_path / "bad.jsonl",
        task(1, "repo", "v7"),
        task(2, "repo", "--all"),
        task(3, "gone", "main"),
        task(4, "no-repo", "main"),
    )
    second, third, first, fourth = await errors(bad)
    assert first.endswith(f"bad.jsonl:1: workspace.commit: expected a commit of {root}, 'v7' does"
                          " not exist")  # fmt: skip
    assert second.endswith('bad.jsonl:2: workspace.commit: expected a commit, got "--all"')
    assert third.endswith(f"expected a repository, {tmp_path}/gone does not exist")
    assert f"bad.jsonl:4: workspace.url: expected a repository at {tmp_path}/no-repo" in fourth


async def test_columns_of_csv_become_fields(tmp_path: Path) -> None:
    file = tmp_path / "tasks.csv"
    file.write_text(
        "id,title,body,tags,limits.turn_s,env.A.B,grader.type,grader.command,options.fast\n"
        '1,Crash,"two\nlines","a, b",30,x,command,pytest -q,true\n'
        "\n"
        "2,Hang,none,,,,,,\n",
        "utf-8-sig",
    )
    first, second = await read(
        file, defaults={"prompt_template": "Fix {title}: {body} {{}}", "limits": {"wall_s": 9}}
    )
    assert first == Task(
        id="1",
        prompts=("Fix Crash: two\nlines {}",),
        tags=("a", "b"),
        limits=Limits(turn_s=30.0, wall_s=9),
        env={"A.B": "x"},
        options={"fast": "true"},
        grader=CommandGrader(command=("pytest", "-q")),
        metadata={"title": "Crash", "body": "two\nlines"},
    )
    assert second.prompts == ("Fix Hang: none {}",)
    assert second.grader is None


async def test_wrong_tables_are_reported(tmp_path: Path) -> None:
    file = tmp_path / "tasks.csv"
    file.write_text(
        "id,promptx,tokens,limits.tokens,workspace\n"
        "1,x,,many,\n"
        "2,x\n"
        '3,x,,1,"{bad"\n'
    )  # fmt: skip
    found = await errors(file, defaults={"prompt_template": "{title}"})
    assert found == [
        f"{file}:2: promptx: expected the name of a field, as 'prompt', or another name for"
        " metadata",
        f"{file}:2: the template needs 'title', which does not exist",
        f"{file}:3: expected 5 cells, got 2",
        f"{file}:4: workspace: expected JSON: Expecting property name enclosed in double quotes:"
        " line 1 column 2 (char 1)",
    ]
    file.write_text("id,id\n1,2\n")
    assert "'id' occurs twice" in (await errors(file))[0]
    file.write_bytes(b"id,prompt\n1,\xff\n")
    assert "expected a row of CSV in UTF-8" in (await errors(file))[0]
    with pytest.raises(FleetError, match="each brace needs the name of a column"):
        await check_tasks(file, defaults={"prompt_template": "{a.b!r}"})


async def test_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    rows = [
        {
            "id": f"t{number}",
            "prompt": "p",
            "limits": {"turn_s": 5.0, "tokens": None},
            "tags": ["a"],
            "score": number / 2,
        }
        for number in range(600)
    ]
    file = tmp_path / "tasks.parquet"
    pq.write_table(pa.Table.from_pylist(rows), file, row_group_size=100)
    tasks = await read(file)
    assert len(tasks) == 600
    assert tasks[3] == Task(
        id="t3", prompts=("p",), limits=Limits(turn_s=5), tags=("a",), metadata={"score": 1.5}
    )
    file.write_bytes(b"PAR1 no")
    assert "row 1: expected a Parquet file" in (await errors(file))[0]


async def test_python(tmp_path: Path) -> None:
    file = tmp_path / "my_tasks.py"
    file.write_text(
        "from accord_fleet.types import Task\n"
        "def many():\n"
        "    yield Task(id='a', prompts=('p',))\n"
        "    yield {'id': 'b', 'prompt': 'p', 'workspace': {'type': 'folder', 'path': '.'}}\n"
        "some = [Task(id='c', prompts=('p',))]\n"
        "def broken():\n"
        "    yield {'id': 'd'}\n"
        "    raise ValueError('no more')\n"
    )
    first, second = await read(f"{file}:many", defaults={"mode": "ask"})
    assert first.mode == "ask"
    assert second.workspace == Folder(str(tmp_path))
    assert [task.id for task in await read(f"{file}:some")] == ["c"]
    assert await errors(f"{file}:broken") == [
        f"{file}:broken, item 1: prompts: expected a value, it is missing",
        f"{file}:broken: expected tasks, got ValueError: no more",
    ]
    with pytest.raises(FleetError, match="has no 'missing'"):
        await check_tasks(f"{file}:missing")
    assert await errors([Task(id="x", prompts=("p",)), "prompt"]) == [
        "item 2: expected a Task or a mapping, got str"
    ]
    assert "expected at least one task" in (await errors([]))[0]


async def test_iterable_is_read_once_and_lazily() -> None:
    alive = 0
    most = 0

    class Watched(dict[str, Any]):
        def __init__(self, number: int) -> None:
            nonlocal alive, most
            super().__init__(id=f"t{number}", prompt="p")
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    def many() -> Iterator[Watched]:
        for number in range(3000):
            yield Watched(number)

    with await check_tasks(many()) as tasks:
        assert len(tasks) == 3000
        assert sum(1 for _ in tasks) == sum(1 for _ in tasks) == 3000
    assert most < 10


async def test_defaults_are_below_each_task(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "src").mkdir()
    (tmp_path / "sub" / "defaults.toml").write_text(
        'tags = ["nightly"]\n'
        "[workspace]\ntype = 'folder'\npath = 'src'\n"
        "[limits]\nturn_s = 60\ntokens = 5\n"
        "[env]\nA = '1'\nB = '2'\n"
    )
    (tmp_path / "other").mkdir()
    file = lines(
        tmp_path / "tasks.jsonl",
        {"id": "a", "prompt": "p"},
        {
            "id": "b",
            "prompt": "p",
            "limits": {"tokens": None},
            "env": {"B": "3"},
            "workspace": {"path": "other"},
            "tags": [],
        },
        {"id": "c", "prompt": "p", "workspace": {"type": "empty"}},
    )
    a, b, c = await read(file, defaults=tmp_path / "sub" / "defaults.toml")
    assert a.workspace == Folder(str(tmp_path / "sub" / "src"))
    assert (a.tags, a.env, a.limits.tokens) == (("nightly",), {"A": "1", "B": "2"}, 5)
    assert b.workspace == Folder(str(tmp_path / "other"))
    assert b.env == {"A": "1", "B": "3"}
    assert b.limits == Limits(turn_s=60)
    assert b.tags == ()
    assert c.workspace == Task(id="c", prompts=("p",)).workspace
    with pytest.raises(FleetError, match=r"none\.toml: No such file"):
        await check_tasks(file, defaults=tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = ")
    with pytest.raises(FleetError, match="expected TOML"):
        await check_tasks(file, defaults=tmp_path / "bad.toml")


@pytest.mark.parametrize("name", ["tasks.txt", "tasks", "missing.jsonl", "no.py:tasks"])
async def test_unknown_sources_are_named(tmp_path: Path, name: str) -> None:
    if not name.startswith(("missing", "no")):
        (tmp_path / name).write_text("")
    with pytest.raises(FleetError, match=name.partition(":")[0]):
        await check_tasks(str(tmp_path / name))


async def test_changed_tasks_are_named(tmp_path: Path) -> None:
    a, b, c = (Task(id=name, prompts=("p",), metadata={"x": 1, "y": 2}) for name in "abc")
    assert describe_changes([a, b], [b, a]) is None
    same = msgspec.structs.replace(a, metadata={"y": 2, "x": 1})
    assert describe_changes([a], [same]) is None
    changed = msgspec.structs.replace(b, prompts=("q",), mode="ask")
    text = describe_changes([a, b], [changed, c])
    assert text == "1 changed: b (prompts, mode); 1 added: c; 1 removed: a"
    with await check_tasks([a, b]) as one, await check_tasks([a, changed]) as two:
        assert one.digest != two.digest


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "x", "empty"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "path", "url", "command", "agent", "turn_s", "allow"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=6,
)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["prompt", "prompt_template", "x", *Task.__struct_fields__]), VALUES
    )
)
async def test_any_row_is_a_task_or_a_problem(row: dict[str, Any]) -> None:
    try:
        with await check_tasks([row]) as tasks:
            assert len(tasks) == 1
    except TaskErrors as wrong:
        count = wrong.count
    else:
        count = 0
    assert count >= ("id" not in row)


def test_command_runs_nothing_if_tasks_are_wrong(tmp_path: Path) -> None:
    file = lines(tmp_path / "tasks.jsonl", {"id": "a"}, {"id": "b"})
    out = tmp_path / "RUN"
    args = [str(file), "--agent", "no-such-agent", "--out", str(out)]
    done = CliRunner().invoke(run, args)
    assert done.exit_code == 1
    assert "2 problems in the tasks; nothing was run:" in done.output
    assert f"{file}:2: prompts: expected a value, it is missing" in done.output
    assert not out.exists()


def test_second_run_names_the_changed_tasks(tmp_path: Path) -> None:
    file = lines(tmp_path / "tasks.jsonl", {"id": "a", "prompt": "p"})
    args = [str(file), "--agent", "true", "--out", str(tmp_path / "RUN")]
    CliRunner().invoke(run, args)
    assert "already has a run of these tasks" in CliRunner().invoke(run, args).output
    lines(file, {"id": "a", "prompt": "q"}, {"id": "b", "prompt": "p"})
    done = CliRunner().invoke(run, args)
    assert done.exit_code == 1
    assert "run of other tasks (1 changed: a (prompts); 1 added: b)" in done.output


def test_reference_has_every_field_and_the_limits_by_default() -> None:
    text = (ROOT / "docs" / "reference" / "fleet-tasks.md").read_text("utf-8")
    table = text.partition("## Fields")[2].partition("Workspaces:")[0]
    cells = " ".join(re.findall(r"^\| (`.+?) \|", table, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", cells)) == {"prompt", *Task.__struct_fields__}
    [limits] = re.findall(r"^\| `limits` \| (.+) \|$", table, re.MULTILINE)
    defaults = {"wall_s": f" ({Limits().wall_s:.0f})"}
    defaults["output_bytes"] = f" ({(Limits().output_bytes or 0) // 2**20} MiB)"
    names = Limits.__struct_fields__
    assert limits == ", ".join(f"`{name}`{defaults.get(name, '')}" for name in names)


@pytest.mark.slow
async def test_many_thousand_tasks(tmp_path: Path) -> None:
    file = tmp_path / "tasks.jsonl"
    with file.open("w") as out:
        for number in range(20_000):
            out.write(json.dumps({"id": f"t{number}", "prompt": "p" * 200}) + "\n")
    with await check_tasks(file) as tasks:
        assert len(tasks) == 20_000
        assert sum(1 for _ in tasks) == 20_000
