"""Lines of MEMORY.md that lead to documents which do not exist, and what names none."""

from __future__ import annotations

import pytest

from tests.doctor.kit import Made, text

SECRET = "lantern-of-the-secret"


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("- [a](gone.md)", "gone.md"),
        ("- [a](<with space.md> 'title')", "with space.md"),
        ("- [a](with%20space.md#part)", "with space.md"),
        ("[a]: gone.md", "gone.md"),
        ("see `topics/gone.md`, and more", "topics/gone.md"),
        ("see ./topics/gone.md.", "topics/gone.md"),
        ("见 部署/说明.md。", "部署/说明.md"),
        ("**gone.md**", "gone.md"),
        ("参见topics/gone.md,如上", "topics/gone.md"),
        ("A.md is a.md in another case", "A.md"),
    ],
)
def test_lines_of_memory_md_that_lead_nowhere(made: Made, line: str, path: str) -> None:
    made.put(made.scope() / "a.md")
    made.put(made.scope() / "MEMORY.md", f"# {SECRET}\r\n\r\n{line} {SECRET}\n")
    found = made.run("memory-pointers")
    assert [finding.what for finding in found.findings] == ["global: MEMORY.md, line 3"]
    assert found.findings[0].found.startswith(f"{path}: ")
    assert SECRET not in text(found)
    made.put(made.scope() / path)
    assert made.run("memory-pointers").outcome == "ok"


@pytest.mark.parametrize(
    "line",
    [
        "[a](https://example.org/gone.md) and https://example.org/x/gone.md",
        "/etc/gone.md and ~/gone.md",
        "topics/*.md",
        "<topic>.md",
        "gone.mdx, gone.md.bak",
        "```\n[a](gone.md)\n```",
        "[a](picture.png)",
        ".md",
        "[a](MEMORY.md) [b](./a.md#top)",
        "参见a.md与说明b.md",
    ],
)
def test_what_names_no_document(made: Made, line: str) -> None:
    made.put(made.scope() / "a.md")
    made.put(made.scope() / "说明b.md")
    made.put(made.scope() / "MEMORY.md", line + "\n")
    assert made.run("memory-pointers").findings == []
