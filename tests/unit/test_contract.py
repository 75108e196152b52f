"""The numbers that clients and people rely on: changing one is a decision, not an edit (docs/reference/limits.md)."""

from __future__ import annotations

from amux import limits, relay
from amux.endpoint import REFUSED_SECONDS
from amux_hub.keys import KEYS

KIB, MIB = 1024, 1024 * 1024


def test_the_limits_of_the_contract() -> None:
    assert {name: value for name, value in vars(limits).items() if name.isupper()} == {
        "ENTRY_NAME": "MEMORY.md",
        "ENTRY_BYTES": 2 * KIB,
        "ENTRY_LINES": 64,
        "DOCUMENT_BYTES": 64 * KIB,
        "READABLE_BYTES": MIB,
        "SCOPE_DOCUMENTS": 1024,
        "SCOPE_BYTES": 16 * MIB,
        "PATH_BYTES": 1024,
        "COMPONENT_BYTES": 255,
        "PATH_DEPTH": 16,
        "QUERY_BYTES": 512,
        "QUERY_TERMS": 16,
        "SEARCH_DEFAULT": 5,
        "SEARCH_MAXIMUM": 20,
        "SNIPPET_BYTES": 240,
        "SCAN_FILES": 1024,
        "SCAN_BYTES": 8 * MIB,
        "SCAN_MILLISECONDS": 250,
        "SCAN_ENTRIES": 8192,
        "SKIPPED_NAMED": 3,
        "REPLY_BYTES": 8 * KIB,
        "PAGE_BYTES": 6 * KIB,
        "SESSIONS": 256,
        "CONTINUATIONS": 64,
        "CONTINUATION_SECONDS": 600,
        "FRAME_BYTES": 512 * KIB,
        "JSON_DEPTH": 16,
        "JSON_VALUES": 1024,
        "PREAMBLE_BYTES": KIB,
        "ID_BYTES": 1024,
    }


def test_the_defaults_of_the_contract() -> None:
    wanted = {
        "isolation": False,
        "memory.enabled": False,
        "limits.connections_per_uid": 128,
        "limits.connections": 4096,
        "limits.requests_per_uid": 16,
        "limits.free_bytes": 32 * MIB,
        "timeouts.first_frame": 5,
        "identity.verdict_seconds": 60,
    }
    assert {name: KEYS[name].default for name in wanted} == wanted
    assert KEYS["isolation"].system is True
    assert [name for name, key in KEYS.items() if key.savable] == ["memory.enabled"]
    assert not any(KEYS[name].reload for name in ("memory.enabled", "isolation", "home", "sockets.hub"))


def test_how_long_a_client_waits() -> None:
    assert (relay.START_SECONDS, relay.RECONNECT_SECONDS, REFUSED_SECONDS) == (5, 10, 3)
