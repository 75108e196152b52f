"""What the lint tests know of the sources: modules, and who imports whom, read from the syntax tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HUB = ROOT / "hub"
MATERIALIZER = ROOT / "materializer"
ARCHITECTURE = ROOT / "docs" / "explanation" / "architecture.md"


def modules(package: str) -> dict[str, Path]:
    """Dotted name → file, for every module of one import package."""
    found = {}
    root = HUB if (HUB / package).exists() else MATERIALIZER
    for path in sorted((root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(name: str, path: Path, known: set[str], late: bool = True) -> Iterator[tuple[str, int]]:
    """Dotted names that a module imports, wherever in it, each with its line; relative ones are resolved.

    `from package import name` counts as `package.name` where that is one of the `known` modules. Without
    `late`, only what happens while the module itself is imported: nothing inside functions, nothing under
    `if TYPE_CHECKING:`.
    """
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for node in ast.walk(tree):
        never = isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.If)) and not late:
            node.body = [] if never or not isinstance(node, ast.If) else node.body
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [base])])
            for alias in node.names:
                whole = f"{base}.{alias.name}"
                yield (whole if whole in known else base), node.lineno


def place(name: str) -> str:
    """The row of architecture.md that a module belongs to: the name right below its import package."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def table(heading: str) -> list[tuple[list[str], str]]:
    """The rows of the table below a heading of architecture.md: names of the modules, last column."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    section = text.split(f"## `{heading}", 1)[1].split("\n## ", 1)[0]
    rows = []
    for line in section.splitlines():
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if names := re.findall(r"`([a-z_]+)/?`", cells[0]):
            rows.append((names, cells[-1]))
    assert rows, f"no table below {heading} in {ARCHITECTURE}"
    return rows
