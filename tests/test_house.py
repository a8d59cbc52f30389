"""Rules of the house: data flows one way, no page is too long, nothing loads from elsewhere."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXPLORER = ROOT / "explorer"
SOURCES = sorted(EXPLORER.rglob("*.py"))
APP = [path for path in (ROOT / "app.py",) if path.exists()]
MOST_LINES = 450

# The rooms from left to right; a room imports from itself and from what stands before it.
BEFORE = {
    "config": (),
    "costs": ("config",),
    "chips": ("config", "costs"),
    "serving": ("config", "costs", "chips"),
    "search": ("config", "costs", "chips", "serving"),
    "fidelity": ("config", "costs", "chips", "serving", "search"),
    "plots": ("config", "costs", "chips", "serving", "search", "fidelity"),
    "ui": ("config", "costs", "chips", "serving", "search", "fidelity", "plots"),
}
HEADLESS = ("config", "costs", "chips", "serving", "search", "fidelity")


def room_of(path):
    """Return the room of a file, None for the modules of the command line."""
    inside = path.relative_to(EXPLORER).parts
    return inside[0] if len(inside) > 1 else None


def imports(path):
    """Return every module that a file imports, whole names, wherever the import stands."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where data flows from"
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def rooms_imported(path):
    parts = (name.split(".") for name in imports(path))
    return {names[1] for names in parts if names[0] == "explorer" and len(names) > 1} & set(BEFORE)


def test_every_room_is_known():
    rooms = {path.name for path in EXPLORER.iterdir() if path.is_dir()} - {"__pycache__"}
    assert rooms <= set(BEFORE)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(EXPLORER)))
def test_data_flows_one_way(path):
    room = room_of(path)
    allowed = (*HEADLESS,) if room is None else (room, *BEFORE[room])
    assert rooms_imported(path) <= set(allowed)


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(EXPLORER)))
def test_only_the_pages_know_streamlit_and_only_they_and_the_plots_know_plotly(path):
    top = {name.partition(".")[0] for name in imports(path)}
    room = room_of(path)
    if room != "ui":
        assert "streamlit" not in top
    if room not in ("ui", "plots"):
        assert "plotly" not in top
    assert "explorer.cli" not in imports(path) or path.name == "__main__.py"


def test_the_headless_rooms_run_without_streamlit_and_plotly():
    code = (
        "import sys\n"
        "sys.modules['streamlit'] = sys.modules['plotly'] = None\n"
        "from explorer.cli import main\n"
        "sys.exit(main(['evaluate', 'mt3000-llama2-13b', '--json']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "explorer.export/1"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(EXPLORER)))
def test_no_file_is_too_long_to_read_at_once(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", [*SOURCES, *APP], ids=lambda path: path.name)
def test_nothing_is_loaded_from_elsewhere(path):
    assert re.findall(r"\b(?:https?|wss?|ftp)://\S+", path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", [*SOURCES, *APP], ids=lambda path: path.name)
def test_nothing_is_caught_in_silence(path):
    """A handler of everything must at least keep the error that it caught."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ExceptHandler):
            continue
        place = f"{path.name}:{node.lineno}"
        assert node.type is not None, f"{place} catches everything"
        if ast.unparse(node.type) in ("Exception", "BaseException"):
            used = {n.id for part in node.body for n in ast.walk(part) if isinstance(n, ast.Name)}
            assert node.name in used, f"{place} catches everything and forgets it"


SMALL = {0, 1, 2, 3}


@pytest.mark.parametrize("room", ["costs", "chips"])
def test_no_physical_constant_stands_in_a_formula(room):
    """Numbers of machines are data: formulas hold only counts small enough to be structure."""
    for path in sorted((EXPLORER / room).glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        named = {
            id(node)
            for assignment in tree.body
            if isinstance(assignment, ast.Assign | ast.AnnAssign) and assignment.value
            for node in ast.walk(assignment.value)
        }
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef):
                continue
            for node in (node for part in function.body for node in ast.walk(part)):
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, int | float)
                    and not isinstance(node.value, bool)
                    and id(node) not in named
                ):
                    assert node.value in SMALL, f"{path.name}:{node.lineno} holds {node.value}"


def test_every_preset_file_is_valid_json_with_a_schema():
    files = sorted((ROOT / "presets").rglob("*.json"))
    assert files
    for path in files:
        document = json.loads(path.read_text(encoding="utf-8"))
        named = document.get("schema") or document["$id"]
        assert re.fullmatch(r"explorer\.[a-z\-]+/\d+", named), path.name
