"""What is installed: every dependency earns its line, and CI installs the very files pinned."""

import ast
import re
import sys
from importlib.metadata import packages_distributions, requires
from itertools import product
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
APP_FILES = [ROOT / "app.py", *sorted((ROOT / "explorer").rglob("*.py"))]
TEST_FILES = sorted((ROOT / "tests").rglob("*.py"))
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
OURS = {"explorer", "tests"}
# Those that are used without being imported, by what names them where.
NAMED = {
    "psycopg": ("explorer/search/server.py", "postgresql+psycopg"),
    "cmaes": ("explorer/search/samplers.py", "cmaes"),
    "pytest-xdist": ("tests/run", "pytest -n"),
    "ruff": ("tests/run", "-m ruff check"),
    "mypy": ("tests/run", "-m mypy"),
    "pandas-stubs": ("explorer/ui/fidelity.py", "import pandas"),
}


def listed(name):
    """Return the requirements of a file, by their normal names."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = [Requirement(line) for line in lines if line and not line.startswith("-r ")]
    names = [canonicalize_name(item.name) for item in found]
    assert len(set(names)) == len(names), f"{name} lists something twice"
    return dict(zip(names, found, strict=True))


APP, TESTS = listed("requirements.txt"), listed("tests/requirements.txt")
DIRECT = APP | TESTS


def pinned():
    """Return each entry of the lock: the requirement, and the hashes of its files."""
    entries = re.sub(r" \\\n\s*", " ", LOCK).splitlines()
    for entry in entries:
        if entry.strip() and not entry.lstrip().startswith("#"):
            words = entry.split(" --hash=")
            yield Requirement(words[0]), words[1:]


PINNED = list(pinned())


def distributions_imported(paths):
    """Return the distributions that files import at any place, by their normal names."""
    names = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    known = packages_distributions()
    outside = names - set(sys.stdlib_module_names) - OURS
    return {canonicalize_name(known[name][0]) for name in outside if name in known}


def environment(python, machine):
    """Return what markers are asked about on another machine."""
    system, platform, os_name, architecture = machine
    return default_environment() | {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "sys_platform": platform,
        "platform_system": system,
        "os_name": os_name,
        "platform_machine": architecture,
    }


LINUX = [("Linux", "linux", "posix", name) for name in ("x86_64", "aarch64")]
OTHERS = [("Darwin", "darwin", "posix", "arm64"), ("Windows", "win32", "nt", "AMD64")]
ENVIRONMENTS = [
    environment(*chosen) for chosen in product(("3.11", "3.12", "3.13", "3.14"), [*LINUX, *OTHERS])
]


def in_force(where):
    """Return the versions that the lock installs on a machine, by name."""
    items = [r for r, _ in PINNED if r.marker is None or r.marker.evaluate(where)]
    versions = {r.name: next(iter(r.specifier)).version for r in items}
    assert len(versions) == len(items), "a package is pinned twice for one machine"
    return versions


def test_every_import_is_listed_and_everything_listed_is_used():
    app, tests = distributions_imported(APP_FILES), distributions_imported(TEST_FILES)
    named = {name for name in APP if name in NAMED}
    assert app | named == set(APP)
    assert tests | set(APP) | set(NAMED) == set(DIRECT) | set(APP)
    assert not set(APP) & set(TESTS)


@pytest.mark.parametrize("name", NAMED)
def test_what_is_used_without_an_import_is_named_where_it_is_used(name):
    file, text = NAMED[name]
    assert text in (ROOT / file).read_text(encoding="utf-8")
    assert name in DIRECT


@pytest.mark.parametrize("name", DIRECT)
def test_every_requirement_has_a_lower_and_an_upper_bound(name):
    assert sorted(s.operator for s in DIRECT[name].specifier) == ["<", ">="]


def test_every_pin_is_exact_and_has_hashes():
    assert PINNED
    for requirement, hashes in PINNED:
        assert [s.operator for s in requirement.specifier] == ["=="], requirement
        assert requirement.url is None
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", value) for value in hashes), requirement


def test_the_lock_names_no_index():
    assert "://" not in LOCK
    assert [line for line in LOCK.splitlines() if line.startswith("-")] == []


@pytest.mark.parametrize(
    "where",
    ENVIRONMENTS,
    ids=lambda where: "{python_version} {sys_platform} {platform_machine}".format(**where),
)
def test_the_lock_meets_the_bounds_on_every_machine(where):
    versions = in_force(where)
    for name, requirement in DIRECT.items():
        assert requirement.specifier.contains(versions[name], prereleases=True), name


def test_the_lock_holds_what_the_requirements_need_and_nothing_else():
    """Followed through what the packages installed here say that they require."""
    here = default_environment()
    reached, open_ = set(), [(r.name, frozenset(r.extras)) for r in DIRECT.values()]
    while open_:
        name, extras = open_.pop()
        key = (canonicalize_name(name), extras)
        if key in reached:
            continue
        reached.add(key)
        for needed in map(Requirement, requires(name) or ()):
            asked = [here | {"extra": extra} for extra in (*extras, "")]
            if needed.marker is None or any(needed.marker.evaluate(where) for where in asked):
                open_.append((needed.name, frozenset(needed.extras)))
    assert {name for name, _ in reached} == set(in_force(here))
