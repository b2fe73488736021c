"""Generate `data/` from the official schemas: `python packages/accord/tests/schema/generate.py`.

jsonschema and Accord's codec judge every instance. The verdict is one of these:

- good: both accept it
- bad: both reject it
- lenient: the codec reads `value` as `means`, although the schema rejects `value`. Where the schema
  accepts it too (another alternative fits, or the schema mentions a bound without enforcing it),
  the instance is marked `valid`
- strict: the schema accepts it, the codec rejects it; `STRICT` in test_data.py has the reasons

If the codec judges an instance differently (for example, accepts what the schema rejects), that
is a defect of the codec: nothing is written, and the exit status is 1.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from accord.wire.describe import Object, Shape, describe
from schema import model_of_types as types
from schema import official, verdict
from schema.instances import Instance, instances
from schema.judged import DATA, Judged, save
from schema.methods_of_schema import ENVELOPES


class Mistake(Exception):
    """The codec and the schema judge an instance differently; the text shows the instance."""


def judged(names: Collection[str] = ()) -> tuple[list[Judged], list[str]]:
    """Return the judged instances of all types or the given ones, and the codec's mistakes."""
    rows: list[Judged] = []
    mistakes: list[str] = []
    for version in official.VERSIONS:
        model = official.model(version, unstable=True)
        for name in sorted(model.defs.keys() - set(ENVELOPES)):
            shape = model.shape(name)
            if names and name not in names:
                continue
            if not _is_worth_it(version, name, shape) or _is_covered_by_v1(version, name):
                continue
            for instance in instances(shape):
                try:
                    row = _judge(version, name, instance)
                except Mistake as mistake:
                    mistakes.append(str(mistake))
                else:
                    rows += [row] if row else []
    return rows, mistakes


def _is_worth_it(version: str, name: str, shape: Shape) -> bool:
    """Return True if the type has instances of its own: variants are covered by their union."""
    objects = [kind for kind in shape if isinstance(kind, Object)]
    public = verdict.OTHER_CLASS.get(name, name)
    if not objects or public not in types.public(version):
        return False
    if [*objects[0].fields] == ["_meta"] and not objects[0].tags:
        # About two hundred markers have no fields; a few represent them.
        return name == "AuthCapabilities" or "Logout" in name
    ours = [kind for kind in describe(types.public(version)[public]) if isinstance(kind, Object)]
    return {kind.tags for kind in ours} == {kind.tags for kind in objects}


def _is_covered_by_v1(version: str, name: str) -> bool:
    """Return True if v2 defines the type as v1 does, except for the types it refers to."""
    if version == "v1":
        return False
    one = official.model("v1", unstable=True).defs.get(name)
    return one is not None and _bare(one) == _bare(official.model("v2", unstable=True).defs[name])


def _bare(node: Any) -> Any:
    """Return a part of the schema without descriptions."""
    if isinstance(node, list):
        return [_bare(part) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        key: _bare(part)
        for key, part in node.items()
        if not (key in ("description", "title") and isinstance(part, str))
    }


def _judge(version: str, name: str, instance: Instance) -> Judged | None:
    """Return the instance with both verdicts, or None if it proves nothing.

    Raises `Mistake` if the codec accepts, rejects or decodes an instance wrongly.
    """
    valid = verdict.is_valid(version, name, instance.value)
    refused = verdict.refuses(version, name, instance.value)
    where = f"{version} {name} {instance.about}: {instance.value}"
    match instance.verdict:
        case "good":
            if not valid or refused:
                raise Mistake(f"not good: {where} valid {valid}, refused {refused}")
            word = "good"
        case "lenient":
            means = verdict.read(version, name, instance.means)
            if refused or verdict.read(version, name, instance.value) != means:
                raise Mistake(f"not lenient: {where}")
            return Judged(
                version, name, "lenient", instance.about, instance.value, instance.means, valid
            )
        case _ if valid and refused:
            word = "strict"
        case _ if valid:
            return None
        case _ if not refused:
            raise Mistake(f"not bad: {where}")
        case _:
            word = "bad"
    return Judged(version, name, word, instance.about, instance.value)


def main(folder: Path = DATA, names: Collection[str] = ()) -> int:
    """Write the data again unless the codec made a mistake; return the exit status."""
    rows, mistakes = judged(names)
    for line in mistakes:
        print(line, file=sys.stderr)
    if mistakes:
        print(f"{len(mistakes)} instances are judged wrongly: nothing is written", file=sys.stderr)
        return 1
    save(folder, rows)
    print(len(rows), "instances")
    return 0


if __name__ == "__main__":
    sys.exit(main())
