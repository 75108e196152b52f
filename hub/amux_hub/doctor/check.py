"""Checks as values, and running them: each in its time, whatever happens in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from amux_hub.doctor.finding import SKIPPED, Finding, Findings, SkippedError, plain
from amux_hub.doctor.host import Host

SECONDS = 20.0


@dataclass(frozen=True)
class Check:
    """`run` adds to the findings and answers one line on what it looked at. It may raise SkippedError."""

    name: str
    run: Callable[[Host, Findings], str]
    seconds: float = SECONDS


@dataclass(frozen=True)
class Result:
    """`summary` is one line; `findings` hold the details."""

    name: str
    outcome: str
    summary: str
    findings: list[Finding] = field(default_factory=list)
    more: list[dict[str, object]] = field(default_factory=list)


def results(checks: Iterable[Check], host: Host) -> Iterator[Result]:
    """One result a check, in order, as soon as it is there."""
    for check in checks:
        yield _result(check, host)


def _result(check: Check, host: Host) -> Result:
    findings = Findings()
    ended: list[tuple[str | None, str]] = []
    thread = threading.Thread(target=lambda: ended.append(_run(check, host, findings)), daemon=True)
    thread.start()
    thread.join(check.seconds)
    if not ended:  # a file system or name service that hangs: the thread is left behind
        findings = Findings()
        findings.problem("late", check.name, f"no end within {check.seconds:g} s", "an answer from the host")
        ended.append((None, "something on this host hangs"))
    outcome, summary = ended[0]
    return Result(check.name, outcome or findings.outcome, plain(summary), findings.kept, findings.more)


def _run(check: Check, host: Host, findings: Findings) -> tuple[str | None, str]:
    try:
        return None, check.run(host, findings)
    except SkippedError as reason:
        return (None if findings.kept else SKIPPED), str(reason)
    except PermissionError as error:
        findings.unseen(str(error.filename or check.name), "this account may not look at it")
        return None, "not all of it could be seen"
    except Exception as error:  # noqa: BLE001 - one check that fails must not hide what the others found
        where = _place(error)
        findings.problem("failed", check.name, f"the check itself failed: {type(error).__name__} at {where}", "", "")
        return None, "the check itself failed: please report it"


def _place(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "?" if trace is None else f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
