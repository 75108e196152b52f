"""From a UID to a verdict; runs in the child of its own that `server` forked, since everything it calls may block.

Promises: `allow` only if the service file is fit, the name service knows the UID, and the whole account stack of the
service `amux` answered PAM_SUCCESS for that name.
"""

from __future__ import annotations

from typing import NamedTuple

from amux_pam import libpam, names, service_file

ALLOW, UNAVAILABLE, DENIED, UNKNOWN = "allow", "unavailable", "denied", "unknown_account"

CLASSES = {0: ALLOW, 12: "must_change", 13: "expired", 27: "password_expired"}
"""Numbers of pam_acct_mgmt(3) that have a class of their own."""

NO_ANSWER = frozenset({1, 2, 3, 4, 5, 9, 14, 18, 19, 24, 26, 28, 29, 31})
"""Numbers by which a stack says that it could not decide (of _pam_types.h: OPEN_ERR, SYMBOL_ERR, SERVICE_ERR,
SYSTEM_ERR, BUF_ERR, AUTHINFO_UNAVAIL, SESSION_ERR, NO_MODULE_DATA, CONV_ERR, TRY_AGAIN, ABORT, MODULE_UNKNOWN,
BAD_ITEM, INCOMPLETE). Whatever stands in neither table is a refusal."""

WORDS = frozenset({*CLASSES.values(), DENIED, UNKNOWN, UNAVAILABLE})


class Verdict(NamedTuple):
    """`word` is the answer; `detail` and `name` are for the audit alone."""

    word: str
    detail: str = ""
    name: str = ""


def judge(uid: int) -> Verdict:
    """The verdict on `uid`, with its reason."""
    try:
        service_file.check()
        name = names.name_of(uid)
    except (service_file.UnfitError, names.LookupFailedError) as error:
        return Verdict(UNAVAILABLE, str(error))
    except names.AmbiguousError as error:
        return Verdict(DENIED, str(error))
    if name is None:
        return Verdict(UNKNOWN, "the name service knows no such UID")
    readable = name.decode("utf-8", "backslashreplace")
    try:
        conversation = libpam.Conversation(service_file.SERVICE.encode(), name)
    except libpam.PamError as error:
        return Verdict(UNAVAILABLE, str(error), readable)
    code = conversation.account()
    conversation.end(code)
    word = CLASSES.get(code) or (UNAVAILABLE if code in NO_ANSWER else DENIED)
    return Verdict(word, f"PAM answered {code}", readable)
