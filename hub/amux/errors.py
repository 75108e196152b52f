"""Error codes shared by the command line, the wire and MCP.

A code is stable and crosses every boundary unchanged; the prose beside it may change. Each code has one
Varlink error name (`io.amux.Hub.<CamelCase>`) and one exit status. docs/reference/errors.md explains each.
"""

from __future__ import annotations

INTERFACE = "io.amux.Hub"

# Exit statuses of the command line, docs/reference/errors.md.
EXIT_OK, EXIT_INTERNAL, EXIT_USAGE, EXIT_NOT_FOUND, EXIT_CONFLICT, EXIT_LIMIT = 0, 1, 2, 3, 4, 5
EXIT_REFUSED, EXIT_DISABLED, EXIT_UNAVAILABLE, EXIT_UNCERTAIN, EXIT_STORAGE = 6, 7, 8, 9, 10

CODES: dict[str, int] = {
    "invalid_argument": EXIT_USAGE,
    "invalid_path": EXIT_USAGE,
    "name_twin": EXIT_USAGE,
    "invalid_content": EXIT_USAGE,
    "not_utf8": EXIT_USAGE,
    "unsafe_file": EXIT_REFUSED,
    "not_found": EXIT_NOT_FOUND,
    "conflict": EXIT_CONFLICT,
    "limit_exceeded": EXIT_LIMIT,
    "memory_disabled": EXIT_DISABLED,
    "identity_refused": EXIT_REFUSED,
    "identity_unavailable": EXIT_UNAVAILABLE,
    "binding_required": EXIT_REFUSED,
    "binding_mismatch": EXIT_REFUSED,
    "forbidden": EXIT_REFUSED,
    "storage_full": EXIT_STORAGE,
    "storage_readonly": EXIT_STORAGE,
    "storage_io": EXIT_STORAGE,
    "busy": EXIT_LIMIT,
    "shutting_down": EXIT_UNAVAILABLE,
    "hub_unavailable": EXIT_UNAVAILABLE,
    "outcome_uncertain": EXIT_UNCERTAIN,
    "continuation_expired": EXIT_NOT_FOUND,
    "version_mismatch": EXIT_UNAVAILABLE,
    "protocol_error": EXIT_INTERNAL,
    "internal": EXIT_INTERNAL,
}
"""Every code, and the exit status of a command that ends with it."""

Details = dict[str, "str | int | bool | None"]
"""What a program needs to act on an error: `limit`, `value`, `found`, `path`, `observed_revision`, …"""


class AmuxError(Exception):
    """A refusal or failure with a stable code.

    `message` says what was refused, the value found, the limit or owner, and what to do, in one line.
    `details` carries the same facts for programs; it never holds memory content.
    """

    def __init__(self, code: str, message: str, **details: str | int | bool | None) -> None:
        if code not in CODES:
            raise ValueError(f"unknown error code {code!r}")
        super().__init__(message)
        self.code = code
        self.message = message
        self.details: Details = details

    @property
    def exit_status(self) -> int:
        return CODES[self.code]

    def to_json(self) -> dict[str, object]:
        """The form that the command line and MCP show: `{"error": {"code", "message", "details"}}`."""
        return {"error": {"code": self.code, "message": self.message, "details": self.details}}


def varlink_name(code: str) -> str:
    """`name_twin` → `io.amux.Hub.NameTwin`."""
    return f"{INTERFACE}.{''.join(part.capitalize() for part in code.split('_'))}"


_BY_VARLINK_NAME = {varlink_name(code): code for code in CODES}

# The errors of org.varlink.service, https://varlink.org/Service.
_SERVICE_ERRORS = {
    "org.varlink.service.InvalidParameter": "invalid_argument",
    "org.varlink.service.InterfaceNotFound": "version_mismatch",
    "org.varlink.service.MethodNotFound": "version_mismatch",
    "org.varlink.service.MethodNotImplemented": "version_mismatch",
    "org.varlink.service.PermissionDenied": "forbidden",
    "org.varlink.service.ExpectedMore": "protocol_error",
}


def from_varlink(name: str, parameters: dict[str, object]) -> AmuxError:
    """The error that a Varlink error reply stands for; an unknown name is `protocol_error`."""
    code = _BY_VARLINK_NAME.get(name) or _SERVICE_ERRORS.get(name)
    message = parameters.get("message")
    details = parameters.get("details")
    if code is None:
        return AmuxError("protocol_error", f"the Hub answered an error that this amux does not know: {name}")
    error = AmuxError(code, message if isinstance(message, str) else f"the Hub answered {name} {parameters}")
    if isinstance(details, dict):
        error.details = details
    return error
