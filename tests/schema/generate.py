"""Writes tests/schema/data from the official schemas: `python tests/schema/generate.py`.

Everything written was judged twice, by jsonschema and by our codec; the verdict is the first word
of the file's name:

- good: both accept it
- bad: both refuse it
- lenient: we read `reads` as `means`, although the schema refuses it; where the schema does not
  (it has an alternative that fits too, or only mentions a bound), the file says `valid`
- strict: the schema accepts it, we refuse it; `STRICT` in test_data.py says why

An instance that the codec judges otherwise than it should, as one that it accepts although the
schema refuses it, is a mistake of the codec: nothing is written then, and the exit status is 1.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from accord.wire.describe import Object, Shape, describe
from schema import model_of_types as types
from schema import official, verdict
from schema.instances import Instance, instances
from schema.methods_of_schema import ENVELOPES

DATA = Path(__file__).parent / "data"


class Mistake(Exception):
    """The codec judges an instance otherwise than it should; the text shows it."""


def write(folder: Path, names: Collection[str] = ()) -> list[str]:
    """Write all instances, or those of some types, below a folder; return what is wrong."""
    wrong: list[str] = []
    for version in official.VERSIONS:
        model = official.model(version, unstable=True)
        for name in sorted(model.defs.keys() - set(ENVELOPES)):
            shape = model.shape(name)
            if names and name not in names:
                continue
            if not _is_worth_it(version, name, shape) or _is_told_in_v1(version, name):
                continue
            place = folder / version / name
            for instance in map(_cleared, instances(shape)):
                try:
                    word = _judge(version, name, instance)
                except Mistake as mistake:
                    wrong.append(str(mistake))
                    continue
                if word is None:
                    continue
                place.mkdir(parents=True, exist_ok=True)
                path = place / f"{word}-{instance.about}.json"
                assert not path.exists(), path
                text = (
                    json.dumps(_content(version, name, word, instance), separators=(",", ":"))
                    + "\n"
                )
                path.write_text(text, "utf-8")
    return wrong


def _is_worth_it(version: str, name: str, shape: Shape) -> bool:
    """Tell whether a type stands on its own: variants are told in their union."""
    objects = [kind for kind in shape if isinstance(kind, Object)]
    public = verdict.OTHER_CLASS.get(name, name)
    if not objects or public not in types.public(version):
        return False
    if [*objects[0].fields] == ["_meta"] and not objects[0].tags:
        # Two hundred markers that hold nothing; one of them will do.
        return name == "AuthCapabilities" or "Logout" in name
    ours = [kind for kind in describe(types.public(version)[public]) if isinstance(kind, Object)]
    return {kind.tags for kind in ours} == {kind.tags for kind in objects}


def _is_told_in_v1(version: str, name: str) -> bool:
    """Tell whether a type of v2 is defined as in v1; what it refers to is told by itself."""
    if version == "v1":
        return False
    one = official.model("v1", unstable=True).defs.get(name)
    return one is not None and _bare(one) == _bare(official.model("v2", unstable=True).defs[name])


def _cleared(instance: Instance) -> Instance:
    """Return what malformed capabilities mean: no controls, although the key is lenient.

    The schema's explanation says so for tool calls and terminals, its marks do not.
    """
    value = instance.value
    if not instance.about.endswith("capabilities-text") or not {"toolCallId", "terminalId"} & set(
        value
    ):
        return instance
    return replace(instance, means=value | {"capabilities": None})


def _bare(node: Any) -> Any:
    """Return a part of the schema without explanations."""
    if isinstance(node, list):
        return [_bare(part) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _bare(part)
        for key, part in node.items()
        if not (key in ("description", "title") and isinstance(part, str))
    }


def _judge(version: str, name: str, instance: Instance) -> str | None:
    """Return the verdict that both agree on, None for an instance that proves nothing.

    Raises `Mistake` when the codec accepts, refuses or reads what it should not.
    """
    valid = verdict.is_valid(version, name, instance.value)
    refused = verdict.refuses(version, name, instance.value)
    where = f"{version} {name} {instance.about}: {instance.value}"
    match instance.verdict:
        case "good":
            if not valid or refused:
                raise Mistake(f"not good: {where} valid {valid}, refused {refused}")
            return "good"
        case "lenient":
            if refused or verdict.read(version, name, instance.value) != verdict.read(
                version, name, instance.means
            ):
                raise Mistake(f"not lenient: {where}")
            return "lenient"
        case _ if valid and refused:
            return "strict"
        case _ if valid:
            return None
        case _ if not refused:
            raise Mistake(f"not bad: {where}")
        case _:
            return "bad"


def _content(version: str, name: str, word: str, instance: Instance) -> Any:
    if word != "lenient":
        return instance.value
    valid = verdict.is_valid(version, name, instance.value)
    return {"reads": instance.value, "means": instance.means} | ({"valid": True} if valid else {})


def main(data: Path = DATA, names: Collection[str] = ()) -> int:
    """Write the data again, unless something is wrong; return the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "data")
        wrong = write(made, names)
        for line in wrong:
            print(line, file=sys.stderr)
        if wrong:
            print(f"{len(wrong)} instances are judged wrongly: nothing is written", file=sys.stderr)
            return 1
        shutil.rmtree(data, ignore_errors=True)
        shutil.copytree(made, data)
    print(len([*data.glob("*/*/*.json")]), "files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
