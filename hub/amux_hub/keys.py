"""Every key of hub.yaml: one table, from which checks, defaults and documentation come.

Promises: what stands here is all that can be set; docs/reference/settings.md is checked against it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

Value = bool | int | float | str | Mapping[str, str] | tuple[str, ...]
_MIB = 1024 * 1024
_TYPE_NAMES = {
    bool: "true or false",
    int: "a whole number",
    float: "a number of seconds",
    str: "a text",
    dict: "a mapping of account names to principals, each 1 to 255 bytes without : / or control characters",
    tuple: "a list of account names",
}
_NAME = re.compile(r"[^:/\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


@dataclass(frozen=True)
class Key:
    """One setting. `minimum` and `maximum` are inclusive. `reload`: HUP puts a change in force.

    `default` is None for a path that is derived from the environment; `derived` then says how.
    """

    name: str
    kind: type[bool] | type[int] | type[float] | type[str] | type[dict[str, str]] | type[tuple[str, ...]]
    default: Value | None
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    path: bool = False
    reload: bool = False
    savable: bool = False
    derived: str = ""
    system: Value | None = None
    """The default of a system Hub, where that is another."""

    def wanted(self) -> str:
        """What a right value looks like, for an error message."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.path:
            return "an absolute path" + (", or '' for no such socket" if self.allows_empty else "")
        if self.minimum is not None and self.maximum is not None:
            return f"{_TYPE_NAMES[self.kind]} from {_plain(self.minimum)} to {_plain(self.maximum)}"
        return _TYPE_NAMES[self.kind]

    @property
    def allows_empty(self) -> bool:
        return self.name in {"sockets.mcp", "sockets.admin"}

    def accepts(self, value: object) -> bool:
        """Whether `value`, as YAML or JSON gave it, may stand here. A boolean is never a number."""
        if isinstance(value, bool) or self.kind is bool:
            return self.kind is bool and isinstance(value, bool)
        if self.kind is str:
            return isinstance(value, str) and self._accepts_text(value)
        if self.kind in (dict, tuple):
            return isinstance(value, dict if self.kind is dict else list | tuple) and self.wrong_entry(value) is None
        if not isinstance(value, int) and not (self.kind is float and isinstance(value, float)):
            return False
        return (self.minimum is None or value >= self.minimum) and (self.maximum is None or value <= self.maximum)

    def wrong_entry(self, value: object) -> str | None:
        """The first entry of a list or mapping that may not stand in it, in words."""
        if isinstance(value, dict):
            for name, principal in value.items():
                if not _is_name(name) or not _is_name(principal):
                    return f"{name!r}: {principal!r}"
                if principal in value and value[principal] != principal:
                    return f"{name}: {principal}, which is itself another's alias"
        if isinstance(value, list | tuple):
            return next((repr(name) for name in value if not _is_name(name)), None)
        return None

    def _accepts_text(self, text: str) -> bool:
        if self.choices:
            return text in self.choices
        if self.path:
            return (text == "" and self.allows_empty) or (text.startswith("/") and text.isprintable())
        return True


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else f"{number:g}"


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None and len(value.encode()) <= 255


def _seconds(name: str, default: float, doc: str, maximum: float = 3600) -> Key:
    return Key(f"timeouts.{name}", float, default, doc, minimum=0.05, maximum=maximum, reload=True)


def _limit(name: str, default: int, doc: str, minimum: int, maximum: int, system: int | None = None) -> Key:
    return Key(f"limits.{name}", int, default, doc, minimum=minimum, maximum=maximum, reload=True, system=system)


KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        Key(
            "home",
            str,
            None,
            "Directory that holds the memory, `settings.yaml` and everything else the Hub keeps. It "
            "belongs to the Hub's account with mode 0700; a missing one is created, one with other "
            "permissions is refused.",
            path=True,
            derived="`$AMUX_HOME`, without it `~/.local/state/amux`; of a system Hub `/var/lib/amux`",
            system="/var/lib/amux",
        ),
        Key(
            "isolation",
            bool,
            False,
            "Whether every person has a memory of their own (`principal:<id>`). Without it there is one "
            "memory, `global`, that all of them share. A private Hub runs without, a system Hub with it unless this "
            "says `false`; memory never moves between the two by itself.",
            system=True,
        ),
        Key(
            "identity.aliases",
            dict,
            {},
            "Of a system Hub: accounts that are not a principal of their own but further accounts of the principal "
            "named, as in `{ann-admin: ann}`. Their memory is that principal's.",
            reload=True,
        ),
        Key(
            "identity.services",
            tuple,
            (),
            "Of a system Hub: accounts with a UID below `UID_MIN` of login.defs(5), or one that systemd lends to "
            "services, which may have a memory all the same. All others of these are refused.",
            reload=True,
        ),
        Key(
            "identity.verdict_seconds",
            float,
            60.0,
            "Of a system Hub: seconds for which what was found out about an account holds: its name, the host's PAM "
            "verdict, its principal. Then all of it is asked again, for connections that live on too.",
            minimum=1,
            maximum=3600,
            reload=True,
        ),
        Key(
            "memory.enabled",
            bool,
            False,
            "The switch of the whole memory. While it is off, every operation on memory is refused and "
            "every file is kept. `amux system config set memory.enabled true` saves it; it is in force "
            "after the Hub was started again.",
            savable=True,
        ),
        Key(
            "log.level",
            str,
            "info",
            "How much the Hub logs. `debug` adds one record for each connection and call. Memory text, "
            "queries and paths of documents are logged at no level.",
            choices=("debug", "info", "warning", "error"),
            reload=True,
        ),
        Key(
            "sockets.hub",
            str,
            None,
            "Where the command line connects (Varlink). Unused when the service manager passes a socket of "
            "the name `hub`.",
            path=True,
            derived="`$XDG_RUNTIME_DIR/amux/hub.sock`, without that variable `run/hub.sock` in the home; of a "
            "system Hub `/run/amux/hub.sock`",
            system="/run/amux/hub.sock",
        ),
        Key(
            "sockets.mcp",
            str,
            None,
            "Where `amux mcp` connects (MCP, one JSON message a line). Empty: MCP is not served, and its "
            "library is never loaded. Unused when the service manager passes a socket of the name `mcp`.",
            path=True,
            derived="`mcp.sock` beside `hub.sock`",
        ),
        Key(
            "sockets.admin",
            str,
            None,
            "Where `amux system config` connects (Varlink). Empty: not served. Unused when the service "
            "manager passes a socket of the name `admin`.",
            path=True,
            derived="`admin.sock` beside `hub.sock`",
        ),
        _limit(
            "connections_per_uid",
            128,
            "Open connections of one UID, over all sockets. One more is answered `limit_exceeded` and closed.",
            1,
            65536,
        ),
        _limit(
            "connections",
            4096,
            "Open connections in total. One more is answered `busy` and closed. The process needs about as "
            "many file descriptors: `LimitNOFILE=` or `ulimit -n`.",
            1,
            65536,
        ),
        _limit(
            "requests_per_uid",
            16,
            "Requests of one UID that run at the same time. Further ones wait up to `timeouts.request_wait`, "
            "then `busy`.",
            1,
            1024,
        ),
        _limit(
            "rate_per_uid",
            0,
            "Requests a second of one UID, sustained; twice as many may come at once after a pause. Further ones wait "
            "up to `timeouts.request_wait`, then `busy`. 0 is no limit.",
            0,
            1_000_000,
            system=1000,
        ),
        _limit(
            "input_bytes_per_uid",
            16 * _MIB,
            "Bytes that the Hub holds of one UID's messages that are not complete yet, over all its connections. The "
            "connection that would bring more is answered `limit_exceeded` and closed.",
            _MIB,
            1 << 40,
        ),
        _limit(
            "free_bytes",
            32 * _MIB,
            "Free space to keep on the disk, in bytes. Writes that would leave less are refused with "
            "`storage_full`; reads and deletes are not.",
            0,
            1 << 50,
        ),
        _limit(
            "cache_bytes",
            256 * _MIB,
            "Memory for the search cache over all scopes, in bytes. What was used least recently leaves first.",
            0,
            1 << 40,
        ),
        _seconds(
            "first_frame",
            5.0,
            "Seconds until a new connection must have sent its first whole message. Then it is answered "
            "`protocol_error` and closed.",
        ),
        _seconds(
            "frame",
            10.0,
            "Seconds from the first byte of a later message to its end. Then it is answered `protocol_error` "
            "and closed.",
        ),
        _seconds("idle", 300.0, "Seconds without a call after which a Varlink connection is closed.", 86400),
        _seconds("write", 10.0, "Seconds for a client to take a reply. Then its connection is dropped."),
        _seconds("request_wait", 10.0, "Seconds that a request waits for its turn before it is answered `busy`."),
        _seconds(
            "drain",
            20.0,
            "Seconds that a stopping Hub gives running requests. Keep it under the service manager's "
            "`TimeoutStopSec=`.",
        ),
    )
}
"""Every key, in the order in which documentation shows them."""
