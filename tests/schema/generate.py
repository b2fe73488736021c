"""Writes tests/schema/data from the official schemas: `python tests/schema/generate.py`.

Everything written was judged twice, by jsonschema and by our codec; the verdict is the first word
of the file's name:

- good: both accept it
- bad: both refuse it
- lenient: we read `reads` as `means`, although the schema refuses it; where the schema does not
  (it has an alternative that fits too, or only mentions a bound), the file says `valid`
- strict: the schema accepts it, we refuse it; `STRICT` in test_data.py says why
"""

from __future__ import annotations

import json
import shutil
import sys
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


def write(folder: Path) -> None:
    """Write all instances below a folder."""
    for version in official.VERSIONS:
        model = official.model(version, unstable=True)
        for name in sorted(model.defs.keys() - set(ENVELOPES)):
            shape = model.shape(name)
            if not _is_worth_it(version, name, shape) or _is_told_in_v1(version, name):
                continue
            place = folder / version / name
            for instance in map(_cleared, instances(shape)):
                word = _judge(version, name, instance)
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
    """Return the verdict that both agree on, None for an instance that proves nothing."""
    valid = verdict.is_valid(version, name, instance.value)
    refused = verdict.refuses(version, name, instance.value)
    where = f"{version} {name} {instance.about}: {instance.value}"
    match instance.verdict:
        case "good":
            if not valid or refused:
                print("not good:", where, f"valid {valid}, refused {refused}")
            return "good"
        case "lenient":
            if refused or verdict.read(version, name, instance.value) != verdict.read(
                version, name, instance.means
            ):
                print("not lenient:", where)
            return "lenient"
        case _ if valid and refused:
            return "strict"
        case _ if valid:
            return None
        case _ if not refused:
            print("not bad:", where)
            return None
        case _:
            return "bad"


def _content(version: str, name: str, word: str, instance: Instance) -> Any:
    if word != "lenient":
        return instance.value
    valid = verdict.is_valid(version, name, instance.value)
    return {"reads": instance.value, "means": instance.means} | ({"valid": True} if valid else {})


if __name__ == "__main__":
    shutil.rmtree(DATA, ignore_errors=True)
    write(DATA)
    print(len([*DATA.glob("*/*/*.json")]), "files")
