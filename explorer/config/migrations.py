"""Schema versions: which one each family is at, and how documents of older ones are read.

A document written years ago is brought forward one version at a time, before it is validated;
what it says is never guessed at, and a document of a version that does not exist yet is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from explorer.config.errors import refuse

Migration: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]
Registry: TypeAlias = Mapping[str, tuple[Migration, ...]]

MIGRATIONS: Registry = {
    "explorer.scenario": (),
    "explorer.scenario-preset": (),
    "explorer.export": (),
    "explorer.chip": (),
    "explorer.model": (),
    "explorer.kernel": (),
    "explorer.knobs": (),
    "explorer.link": (),
    "explorer.study": (),
}
"""Families that are read back. The n-th function of a family makes version n + 1 of version n and
need not touch ``schema``. None is needed yet: fields were only ever added, each with a default.
A link's parameters count as a document whose fields are the paths."""

SCHEMA = re.compile(r"(?P<family>explorer\.[a-z\-]+)/(?P<version>[1-9][0-9]{0,5})")


def newest(family: str, registry: Registry = MIGRATIONS) -> str:
    """Return the schema that this version writes, such as ``explorer.scenario/1``."""
    return f"{family}/{len(registry[family]) + 1}"


def migrated(
    document: Mapping[str, Any],
    family: str,
    prefix: str = "",
    registry: Registry = MIGRATIONS,
) -> dict[str, Any]:
    """Return a document of any known version of ``family`` as one of the newest.

    Without ``schema`` it is taken for the newest. ``prefix`` is the path that it stands at.

    Raises:
        InputError: when it is of another family, or of a version that is not known yet.
    """
    steps = registry[family]
    field = f"{prefix}.schema" if prefix else "schema"
    known = newest(family, registry)
    found = document.get("schema", known)
    match = SCHEMA.fullmatch(found) if isinstance(found, str) else None
    if match is None or match["family"] != family:
        raise refuse(field, found, f'expected "{known}"')
    version = int(match["version"])
    if version > len(steps) + 1:
        what = f"version 1 to {len(steps) + 1} of {family}" if steps else known
        accepted = f"this version reads {what}; a newer explorer wrote this document"
        raise refuse(field, found, accepted)
    result = dict(document)
    for step in steps[version - 1 :]:
        result = step(result)
    if "schema" in result:
        result["schema"] = known
    return result
