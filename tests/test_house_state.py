"""What a process keeps between its sessions: bounded, and never a person's own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted((ROOT / "explorer").rglob("*.py"))
BOUND = {"cache_data": "max_entries", "cache_resource": "max_entries", "lru_cache": "maxsize"}
LARGEST_BOUND = 16_384
SHIPPED = {"path", "folder"}
"""Arguments that only what ships with the project can be."""

EMPTY = (ast.Dict, ast.List, ast.Set)
MAKERS = {"dict", "list", "set", "defaultdict", "deque", "OrderedDict", "Counter", "WeakSet"}


def name_of(node: ast.expr) -> str:
    call = node.func if isinstance(node, ast.Call) else node
    return call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "")


def caches(path: Path) -> Iterator[tuple[ast.FunctionDef, ast.expr]]:
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef):
            for decorator in function.decorator_list:
                if name_of(decorator) in (*BOUND, "cache"):
                    yield function, decorator


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_cache_is_bounded(path: Path) -> None:
    for function, decorator in caches(path):
        place, name = f"{path.name}:{function.lineno}", name_of(decorator)
        arguments = {argument.arg for argument in function.args.args}
        if name == "cache":
            assert arguments <= SHIPPED, f"{place} keeps an entry for everything it is given"
            continue
        assert isinstance(decorator, ast.Call), f"{place} states no bound"
        bounds = {word.arg: word.value for word in decorator.keywords}
        assert BOUND[name] in bounds, f"{place} states no {BOUND[name]}"
        bound = bounds[BOUND[name]]
        assert isinstance(bound, ast.Constant), place
        assert isinstance(bound.value, int), place
        assert 1 <= bound.value <= LARGEST_BOUND, place


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_collects_anything(path: Path) -> None:
    """A dictionary that starts empty, or a name that a function rebinds, would be everybody's."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert not [node.names for node in ast.walk(tree) if isinstance(node, ast.Global)]
    for node in tree.body:
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if value is None:
            continue
        empty = isinstance(value, EMPTY) and not ast.unparse(value).strip("{}[]")
        made = isinstance(value, ast.Call) and name_of(value) in MAKERS and not value.args
        assert not empty, f"{path.name}:{node.lineno} starts empty"
        assert not made, f"{path.name}:{node.lineno} starts empty"


def test_the_caches_of_all_pages_together_are_bounded_by_the_server() -> None:
    settings = (ROOT / ".streamlit/config.toml").read_text(encoding="utf-8")
    assert 'maxCacheDataSize = "256mb"' in settings
    found = [name_of(decorator) for path in SOURCES for _, decorator in caches(path)]
    assert found.count("cache_data") > 5
    assert "cache_resource" not in found
