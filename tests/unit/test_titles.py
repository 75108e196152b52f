"""Titles: `title:` of a front matter, else the first `# ` heading outside fences; C13, C14."""

from __future__ import annotations

import pytest

from amux_hub.store.text import title_of

CASES = {
    "heading": ("# Hello world\ntext", "Hello world"),
    "heading_later": ("intro\n\n# Later\n# Second", "Later"),
    "no_heading": ("text\n## Second level\n#no space", ""),
    "empty": ("", ""),
    "front_matter": ("---\ntitle: From above\ntags: [a]\n---\n# Below\n", "From above"),
    "front_matter_quoted": ('---\ntitle: "Quoted: yes"\n---\n', "Quoted: yes"),
    "front_matter_ends_with_dots": ("---\ntitle: Dots\n...\n# Below", "Dots"),
    "front_matter_without_title": ("---\ntags: [a]\n---\n# Below\n", "Below"),
    "front_matter_with_an_empty_title": ("---\ntitle:\n---\n# Below\n", "Below"),
    "front_matter_without_an_end": ("---\ntitle: Not one\n# Heading\n", "Heading"),
    "front_matter_not_first": ("\n---\ntitle: No\n---\n# Heading\n", "Heading"),
    "front_matter_malformed": ("---\n: {[\ntitle: Still\n\t- }\n---\n", "Still"),
    "front_matter_heading_inside_is_a_comment": ("---\n# comment\ntags: x\n---\n# Real\n", "Real"),
    "front_matter_nested_title": ("---\nbook:\n  title: Inner\n---\n# Real", "Real"),
    "c13_bom_front_matter": ("\ufeff---\ntitle: Marked\n---\n", "Marked"),
    "c13_bom_heading": ("\ufeff# Marked\n", "Marked"),
    "c14_crlf": ("---\r\ntitle: Windows\r\n---\r\n# No\r\n", "Windows"),
    "c14_cr": ("---\rtitle: Old Mac\r---\r# No\r", "Old Mac"),
    "c14_mixed": ("text\r# Mixed\r\nmore\n", "Mixed"),
    "fence": ("```\n# comment\n```\n# Real", "Real"),
    "fence_with_language": ("```sh\n# comment\n```\n# Real", "Real"),
    "fence_of_tildes": ("~~~\n# comment\n```\n# still inside\n~~~\n# Real", "Real"),
    "fence_longer_than_what_it_shows": ("````\n```\n# inside\n```\n# inside\n````\n# Real", "Real"),
    "fence_is_not_closed_by_one_with_a_language": ("```\n```sh\n# inside\n```\n# Real", "Real"),
    "fence_indented": ("   ```\n# inside\n   ```\n# Real", "Real"),
    "fence_never_closed": ("```\n# inside\n", ""),
    "code_span_is_no_fence": ("```x``` is code\n# Real", "Real"),
    "lines_end_at_lf_cr_crlf_alone": ("a\u2028# not\u2029# not\x85# not\x0b# not\x0c# not\x1c# not\n# Real", "Real"),
    "chinese": ("# 部署 记录 \n", "部署 记录"),
}


@pytest.mark.parametrize(("text", "title"), CASES.values(), ids=CASES.keys())
def test_title(text: str, title: str) -> None:
    assert title_of(text.encode()) == title
