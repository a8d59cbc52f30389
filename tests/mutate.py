"""Break formulas one at a time and see that a test notices: python -m tests.mutate

Mutates arithmetic and comparison operators and numeric constants of the cost functions, the
chips and the engine in a temporary copy, runs the quick tests there and prints the mutants
that none of them kills. What it prints is either a gap in the tests or an equivalent mutant.

Why not a package: mutmut rewrites each function into a trampoline and brings libcst and a terminal
interface, 75 MB; cosmic-ray keeps its work in a database that has to be set up first.
Both mutate whole files in order, so a bounded sample takes more set-up than this.
"""

from __future__ import annotations

import argparse
import ast
import copy
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("explorer/costs/*.py", "explorer/chips/*.py", "explorer/serving/evaluate.py")
TESTS = ("tests/test_costs_*.py", "tests/test_chips_*.py", "tests/test_serving_*.py")
TIMEOUT_SECONDS = 300
ARITHMETIC: dict[type, tuple[type, ...]] = {
    ast.Add: (ast.Sub,),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Div,),
    ast.Div: (ast.Mult,),
    ast.FloorDiv: (ast.Div,),
    ast.Mod: (ast.Mult,),
    ast.Pow: (ast.Mult,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
}
COMPARISON: dict[type, tuple[type, ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
}
FUNCTIONS = {"minimum": "maximum", "maximum": "minimum", "ceil": "floor", "floor": "ceil"}


def mutants(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, description and text of every mutant of a file."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    for index, node in enumerate(nodes):
        for what, change in changes(node):
            other = copy.deepcopy(tree)
            # Walking visits a copy in the same order, so the index finds the same node.
            change(list(ast.walk(other))[index])
            yield node.lineno, what, ast.unparse(other)


def changes(node: ast.AST) -> Iterator[tuple[str, object]]:
    """Yield a description and a function that applies it, for each mutation of a node."""
    if isinstance(node, ast.BinOp) and not _is_type(node):
        for operator in ARITHMETIC.get(type(node.op), ()):
            text = f"{ast.unparse(node)}: {type(node.op).__name__} -> {operator.__name__}"
            yield text, lambda n, operator=operator: setattr(n, "op", operator())
    elif isinstance(node, ast.Compare):
        for operator in COMPARISON.get(type(node.ops[0]), ()):
            text = f"{ast.unparse(node)}: {type(node.ops[0]).__name__} -> {operator.__name__}"
            yield text, lambda n, operator=operator: n.ops.__setitem__(0, operator())
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        value = node.value + 1
        yield f"{node.value} -> {value}", lambda n: setattr(n, "value", value)
    elif isinstance(node, ast.Attribute) and node.attr in FUNCTIONS:
        other = FUNCTIONS[node.attr]
        yield f"{ast.unparse(node)} -> {other}", lambda n: setattr(n, "attr", other)


def _is_type(node: ast.BinOp) -> bool:
    """Return whether ``a | b`` is a union of types, which nothing runs."""
    return isinstance(node.op, ast.BitOr) and not isinstance(node.left, ast.Compare | ast.BinOp)


def outcome(copy_of_project: Path, file: str, text: str, tests: list[str]) -> str:
    """Return "killed", "survived" or "timed out" for ``text`` as the content of ``file``."""
    path = copy_of_project / file
    original = path.read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    options = ["-x", "-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        for group in groups(file, tests):
            done = subprocess.run(
                [sys.executable, "-m", "pytest", *options, *group],
                cwd=copy_of_project,
                env=environment,
                capture_output=True,
                timeout=TIMEOUT_SECONDS,
                check=False,
            )
            if done.returncode:
                return "killed"
    except subprocess.TimeoutExpired:
        return "timed out"
    finally:
        path.write_text(original, encoding="utf-8")
    return "survived"


def groups(file: str, tests: list[str]) -> list[list[str]]:
    """Return the tests of the file's own room, then all others: most mutants die in the first."""
    room = f"test_{Path(file).parent.name}_"
    own = [test for test in tests if room in test]
    return [group for group in (own, sorted(set(tests) - set(own))) if group]


def main() -> int:
    """Run the mutants that the time allows; exit 1 when one survives."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600, help="time to spend")
    parser.add_argument("--files", nargs="*", default=FILES, help="files to mutate (patterns)")
    parser.add_argument("--seed", type=int, default=0, help="which sample, when not all fit")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="copies at work")
    options = parser.parse_args()
    files = [str(p.relative_to(ROOT)) for pattern in options.files for p in ROOT.glob(pattern)]
    tests = [str(p.relative_to(ROOT)) for pattern in TESTS for p in ROOT.glob(pattern)]
    work = [
        (file, *mutant)
        for file in sorted(files)
        for mutant in mutants((ROOT / file).read_text(encoding="utf-8"))
    ]
    random.Random(options.seed).shuffle(work)
    end = time.monotonic() + options.seconds
    survivors: list[str] = []
    tried = 0

    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for job in range(options.jobs):
            project = Path(folder) / str(job)
            ignored = shutil.ignore_patterns(
                ".git", ".venv", "__pycache__", ".*_cache", ".hypothesis"
            )
            shutil.copytree(ROOT, project, ignore=ignored)
            copies.append(project)
        # Only the engine is under test: the browser's fixtures would need its packages.
        for project in copies:
            (project / "tests" / "conftest.py").unlink(missing_ok=True)

        untouched = (ROOT / files[0]).read_text(encoding="utf-8")
        if outcome(copies[0], files[0], untouched, tests) != "survived":
            print("the tests do not pass as they are", file=sys.stderr)
            return 2

        def worker(job: int) -> None:
            nonlocal tried
            while work and time.monotonic() < end:
                file, line, what, text = work.pop()
                tried += 1
                result = outcome(copies[job], file, text, tests)
                if result != "killed":
                    survivors.append(f"{file}:{line}: {what} {result}")
                    print(survivors[-1], flush=True)

        with ThreadPoolExecutor(options.jobs) as pool:
            list(pool.map(worker, range(options.jobs)))
    print(f"{tried} mutants, {len(survivors)} survived, {len(work)} not tried", file=sys.stderr)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
