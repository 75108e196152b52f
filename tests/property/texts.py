"""Texts that break what cuts, counts and folds: strategies shared by the property tests."""

from __future__ import annotations

from hypothesis import strategies as st

PIECES = [
    "👨\u200d👩\u200d👧\u200d👦",
    "🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "🇩🇪",
    "🇯🇵🇰🇷",
    "👍🏽",
    "❤\ufe0f\u200d🔥",
    "1\ufe0f\u20e3",
    "e\u0301",
    "a\u0323\u0302",
    "\u1101\u1173\u11c0",
    "部署",
    "用户身份",
    "しりとり",
    "끝말잇기",
    "ß",
    "ẞ",
    "ΣΊΣΥΦΟΣ",
    "ς",
    "ﬁ",
    "İı",
    "\r\n",
    "\r",
    "\n",
    "\n\r",
    "\r\r\n",
    "\ufeff",
    "\u2028",
    "\x85",
    "\x0b",
    "\x0c",
    "\x01\x1f\x7f",
    '"',
    "\\",
    "\u202e",
    "\u3000",
    " ",
    "\t",
    "red",
    "Blue",
    "# red",
    "title: blue",
    "---\n",
    "```\n",
    "x" * 40,
    "\u0301" * 40,
]

pieces = st.sampled_from(PIECES)
texts = st.lists(st.one_of(pieces, pieces, st.text(max_size=8)), max_size=60).map("".join)
"""Short texts, of everything."""


@st.composite
def long_texts(draw: st.DrawFn) -> str:
    """Texts of several replies, up to 64 KiB: a few pieces, repeated."""
    parts = draw(st.lists(st.tuples(texts, st.integers(1, 200)), min_size=1, max_size=6))
    text = "".join(part * count for part, count in parts).replace("\0", "")
    return text.encode()[:65536].decode(errors="ignore")
