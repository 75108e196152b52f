"""The budget of a reply: 8,192 bytes of compact JSON, not ASCII-escaped, its envelope included."""

from __future__ import annotations

import json
from collections.abc import Mapping

from amux import limits

# {"parameters":…} and the terminating NUL.
_ENVELOPE = len('{"parameters":}') + 1
PARAMETERS_BYTES = limits.REPLY_BYTES - _ENVELOPE
"""What the parameters object of one reply may take."""

Reply = dict[str, object]

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def size(reply: Mapping[str, object] | list[object]) -> int:
    """Bytes of a value as compact JSON."""
    return len(_encode(reply).encode())
