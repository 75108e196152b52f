"""Who may import whom: the tables of docs/explanation/architecture.md, held against the code."""

from __future__ import annotations

import re
import sys

import pytest
from tests.lint.sources import MATERIALIZER, imports, modules, place, table

AMUX = modules("amux")
AMUX_HUB = modules("amux_hub")
PRIVILEGED = {path.name: modules(path.name) for path in MATERIALIZER.iterdir() if (path / "__init__.py").exists()}
KNOWN = {*AMUX, *AMUX_HUB, *(name for package in PRIVILEGED.values() for name in package)}
CONTRACT = {"amux", "amux.errors", "amux.limits", "amux.tools"}
OWN_DEPENDENCIES = {"asyncvarlink", "mcp", "mcp_types", "yaml", "sdnotify", "stringzilla", "anyio", "pydantic"}
"""What amux_hub may import from outside: its dependencies, and what the MCP SDK's own interface is made of."""


def _may_import() -> dict[str, set[str]]:
    """Module of amux_hub → modules of amux_hub that it may import; the table's words made sets."""
    allowed: dict[str, set[str]] = {}
    above: set[str] = set()
    for names, column in table("hub/amux_hub/`: the service"):
        if column == "anything":
            may = {place(name) for name in AMUX_HUB}
        elif column == "everything above":
            may = set(above)
        else:
            may = set(re.findall(r"`([a-z_]+)`", column)) - {"amux"}
        for name in names:
            allowed[name] = may | set(names)
        above |= set(names)
    return allowed


def test_amux_never_imports_amux_hub() -> None:
    found = [
        f"{name}:{line} imports {target}"
        for name, path in AMUX.items()
        for target, line in imports(name, path, KNOWN)
        if target.split(".")[0] == "amux_hub"
    ]
    assert not found


def test_privileged_packages_import_themselves_and_the_standard_library_alone() -> None:
    assert {"amux_materializer", "amux_pam"} <= set(PRIVILEGED)
    found = [
        f"{name}:{line} imports {target}"
        for package, inside in PRIVILEGED.items()
        for name, path in inside.items()
        for target, line in imports(name, path, KNOWN)
        if target.split(".")[0] not in {package, *sys.stdlib_module_names}
    ]
    assert not found


def test_nobody_imports_a_privileged_package() -> None:
    found = [
        f"{name}:{line} imports {target}"
        for name, path in {**AMUX, **AMUX_HUB}.items()
        for target, line in imports(name, path, KNOWN)
        if target.split(".")[0] in PRIVILEGED
    ]
    assert not found


def test_amux_imports_the_standard_library_alone_and_click_only_in_cli() -> None:
    found = []
    for name, path in AMUX.items():
        for target, line in imports(name, path, KNOWN):
            top = target.split(".")[0]
            if top in sys.stdlib_module_names or top == "amux":
                continue
            if not (top == "click" and place(name) == "cli"):
                found.append(f"{name}:{line} imports {target}")
    assert not found


def test_amux_hub_imports_of_amux_only_the_contract() -> None:
    found = [
        f"{name}:{line} imports {target}"
        for name, path in AMUX_HUB.items()
        for target, line in imports(name, path, KNOWN)
        if target.split(".")[0] == "amux" and target not in CONTRACT
    ]
    assert not found


def test_amux_hub_imports_its_dependencies_and_no_others() -> None:
    allowed = OWN_DEPENDENCIES | {"amux", "amux_hub"} | set(sys.stdlib_module_names)
    found = [
        f"{name}:{line} imports {target}"
        for name, path in AMUX_HUB.items()
        for target, line in imports(name, path, KNOWN)
        if target.split(".")[0] not in allowed
    ]
    assert not found


def test_amux_hub_follows_the_column_may_import() -> None:
    allowed = _may_import()
    found = []
    for name, path in AMUX_HUB.items():
        own = place(name)
        if own == "__init__":
            continue
        for target, line in imports(name, path, KNOWN):
            if target.split(".")[0] == "amux_hub" and place(target) not in {own, "__init__", *allowed[own]}:
                found.append(f"{name}:{line} imports {target}; {own} may import {sorted(allowed[own])}")
    assert not found


@pytest.mark.parametrize(
    ("package", "heading"),
    [
        ("amux", "hub/amux/`: the command-line tool"),
        ("amux_hub", "hub/amux_hub/`: the service"),
        ("amux_materializer", "materializer/amux_materializer/`: root's hands for a launch"),
        ("amux_pam", "materializer/amux_pam/`: what the host says of an account"),
    ],
)
def test_the_map_lists_every_module(package: str, heading: str) -> None:
    listed = {name for names, _ in table(heading) for name in names}
    there = {place(name) for name in modules(package)} - {"__init__"}
    assert there == listed, f"only in the code: {there - listed}; only on the map: {listed - there}"


@pytest.mark.parametrize("package", ["amux", "amux_hub", *PRIVILEGED])
def test_no_cycles(package: str) -> None:
    """Between the places of the map; inside a folder between modules, the folder's `__init__` left out."""
    graph: dict[str, set[str]] = {}
    for name, path in modules(package).items():
        if path.name == "__init__.py":
            continue
        targets = {target for target, _ in imports(name, path, KNOWN, late=False)}
        targets = {target for target in targets if target.split(".")[0] == package}
        graph.setdefault(name, set()).update(targets - {name})
        graph.setdefault(f"[{place(name)}]", set()).update(f"[{place(target)}]" for target in targets)
    for node, targets in graph.items():
        targets.discard(node)
        graph[node] = {target for target in targets if target in graph or target.startswith("[")}
    assert not _cycle(graph)


def _cycle(graph: dict[str, set[str]]) -> list[str]:
    """One cycle of a graph as a path that returns to its start, or nothing."""
    done: set[str] = set()

    def visit(node: str, trail: list[str]) -> list[str]:
        if node in trail:
            return [*trail[trail.index(node) :], node]
        if node in done:
            return []
        for target in sorted(graph.get(node, set()) - {"[__init__]"}):
            if found := visit(target, [*trail, node]):
                return found
        done.add(node)
        return []

    for start in sorted(graph):
        if found := visit(start, []):
            return found
    return []


def test_the_search_for_cycles_finds_one() -> None:
    assert _cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert not _cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()})
