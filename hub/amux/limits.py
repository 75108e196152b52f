"""The limits of the contract, in bytes unless the name says otherwise. docs/reference/limits.md lists each.

Those that an administrator may set (connections, requests, cache, free space) stand in the Hub's
configuration; these do not change, because clients and protocol texts rely on them.
"""

ENTRY_NAME = "MEMORY.md"
ENTRY_BYTES = 2 * 1024
ENTRY_LINES = 64
DOCUMENT_BYTES = 64 * 1024
READABLE_BYTES = 1024 * 1024
"""A file over DOCUMENT_BYTES that some other program wrote can be read and exported up to this size."""

SCOPE_DOCUMENTS = 1024
SCOPE_BYTES = 16 * 1024 * 1024

PATH_BYTES = 1024
COMPONENT_BYTES = 255
PATH_DEPTH = 16

QUERY_BYTES = 512
QUERY_TERMS = 16
SEARCH_DEFAULT, SEARCH_MAXIMUM = 5, 20
SNIPPET_BYTES = 240
SCAN_FILES = 1024
SCAN_BYTES = 8 * 1024 * 1024
SCAN_MILLISECONDS = 250
SCAN_ENTRIES = 8192
SKIPPED_NAMED = 3

REPLY_BYTES = 8 * 1024
"""One reply or error of the store: the UTF-8 length of the whole reply object as compact JSON."""

PAGE_BYTES = 6 * 1024
"""One page of an MCP result: the UTF-8 length of its text block."""

SESSIONS = 256
"""Launch states kept for one principal; the one used longest ago goes first."""

CONTINUATIONS = 64
CONTINUATION_SECONDS = 600

FRAME_BYTES = 512 * 1024
"""One message of the wire, Varlink or MCP, without its terminator."""

JSON_DEPTH = 16
JSON_VALUES = 1024
"""Values of one message, counted by its commas and opening brackets."""
PREAMBLE_BYTES = 1024
ID_BYTES = 1024
"""The id of an MCP request, if it is a string: each answer repeats it."""
