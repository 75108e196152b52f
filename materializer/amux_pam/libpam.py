"""The account call of libpam, pam(3), through ctypes: five functions and one callback.

Promises: no password is asked for or given, a module that wants an answer gets PAM_CONV_ERR, pam_conv(3); memory that
a module frees was allocated by libc. May block and may do anything that a module does: call it in a child.

Not python-pam: its `authenticate` wants a password, and its bindings find libpam by running ldconfig(8), which a
confined root helper should not need to execute; and this is shorter than a check of what it does.
"""

from __future__ import annotations

import ctypes

SONAME = "libpam.so.0"
SUCCESS = 0
BUF_ERR = 5
CONV_ERR = 19
SILENT = 0x8000
ERROR_MSG, TEXT_INFO = 3, 4


class PamError(Exception):
    """libpam cannot be used here."""


class _Message(ctypes.Structure):
    _fields_ = (("style", ctypes.c_int), ("text", ctypes.c_char_p))


class _Response(ctypes.Structure):
    _fields_ = (("text", ctypes.c_char_p), ("code", ctypes.c_int))


_Messages = ctypes.POINTER(ctypes.POINTER(_Message))
_Function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, _Messages, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p)


class _Conversation(ctypes.Structure):
    _fields_ = (("function", _Function), ("data", ctypes.c_void_p))


_libc = ctypes.CDLL(None)
_calloc = _libc.calloc
_calloc.argtypes = [ctypes.c_size_t, ctypes.c_size_t]
_calloc.restype = ctypes.c_void_p


def _converse(count: int, messages: ctypes._Pointer[ctypes._Pointer[_Message]], answers: object, _: object) -> int:
    """Texts are taken and dropped, questions refused. Linux-PAM passes an array of pointers, pam_conv(3)."""
    if any(messages[index].contents.style not in (ERROR_MSG, TEXT_INFO) for index in range(count)):
        return CONV_ERR
    empty = _calloc(count, ctypes.sizeof(_Response))  # the module frees it
    if not empty:
        return BUF_ERR
    ctypes.cast(answers, ctypes.POINTER(ctypes.c_void_p))[0] = empty  # type: ignore[arg-type]
    return SUCCESS


# Kept for the life of the process: libpam holds the pointer, not the object.
_conversation = _Conversation(_Function(_converse), None)


_NAME = b"amux-pam"  # libc holds the pointer, openlog(3)
_LOG_PID, _LOG_AUTHPRIV = 0x01, 10 << 3
_libc.openlog.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_int]


def log_as_amux_pam() -> None:
    """What modules write to the system's log bears this name, not that of the interpreter."""
    _libc.openlog(_NAME, _LOG_PID, _LOG_AUTHPRIV)


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(SONAME)
    except OSError as error:
        raise PamError(f"{SONAME} cannot be loaded ({error}): install libpam0g") from None
    handle = ctypes.c_void_p
    library.pam_start.argtypes = [
        ctypes.c_char_p,
        ctypes.c_char_p,
        ctypes.POINTER(_Conversation),
        ctypes.POINTER(handle),
    ]
    library.pam_acct_mgmt.argtypes = [handle, ctypes.c_int]
    library.pam_end.argtypes = [handle, ctypes.c_int]
    library.pam_prompt.argtypes = [handle, ctypes.c_int, ctypes.POINTER(handle), ctypes.c_char_p]
    return library


class Conversation:
    """One handle of libpam: made, used and ended. `service` and `name` are what PAM is told, and nothing else is."""

    def __init__(self, service: bytes, name: bytes) -> None:
        self._library = _library()
        self._handle = ctypes.c_void_p()
        start = self._library.pam_start(service, name, ctypes.byref(_conversation), ctypes.byref(self._handle))
        if start != SUCCESS or not self._handle:
            raise PamError(f"pam_start answered {start}")

    def account(self) -> int:
        """What pam_acct_mgmt(3) says: one of PAM's own numbers, 0 for yes."""
        return int(self._library.pam_acct_mgmt(self._handle, SILENT))

    def prompt(self, style: int) -> int:
        """Let libpam itself call the conversation function, as a module would, pam_prompt(3)."""
        answer = ctypes.c_void_p()
        return int(self._library.pam_prompt(self._handle, style, ctypes.byref(answer), b"amux-pam tests itself"))

    def end(self, status: int) -> None:
        self._library.pam_end(self._handle, status)


def self_test(service: bytes = b"amux") -> None:
    """Raises `PamError` unless libpam can call back. A text does: of a refused question libpam writes to the log."""
    conversation = Conversation(service, b"root")
    answer = conversation.prompt(TEXT_INFO)
    conversation.end(answer)
    if answer != SUCCESS:
        raise PamError(f"the conversation answered {answer}")
