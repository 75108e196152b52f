"""The plan of the adapter for Pi: instructions merged, the record named, nothing of the user's dropped."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from amux.errors import AmuxError
from amux.launch import known, protocol
from amux.launch.agent import Request, Tool

PI = known.find("pi")
TEXT = protocol.of(PI)
NATIVE = "0b3d8a92-7a3e-4f0e-9d8e-3f6d1d6a4a11"


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    for made in ("home/.pi/agent", "checkout/.pi"):
        (tmp_path / made).mkdir(parents=True)
    home, checkout = str(tmp_path / "home"), str(tmp_path / "checkout")
    return Request("/opt/pi", (), {}, checkout, home, TEXT, Tool(("amux",), ("AMUX_RUN",)), True, False, None)


def planned(request: Request, *arguments: str) -> tuple[str, str, list[str]]:
    """The record, the instructions, and the rest of the command line."""
    argv = list(PI.plan(replace(request, arguments=arguments)).argv)
    assert argv[0] == request.program
    assert argv[1] == "--session"
    assert argv[3] == "--append-system-prompt"
    return argv[2], argv[4], argv[5:]


def test_the_protocol_alone(request_: Request) -> None:
    assert planned(request_)[1:] == (TEXT, [])


def test_arguments_arrive_whole_and_in_order(request_: Request) -> None:
    given = ("--model", "sonnet", "-p", "say --append-system-prompt", "@file", "--thinking", "high", "")
    assert planned(request_, *given)[2] == list(given)


def test_the_users_append_file_is_merged(request_: Request) -> None:
    own = Path(request_.home, ".pi/agent/APPEND_SYSTEM.md")
    own.write_bytes("\ufeffBe brief.\r\n部署\n".encode())
    assert planned(request_)[1] == f"Be brief.\r\n部署\n\n\n{TEXT}"
    Path(request_.directory, ".pi/APPEND_SYSTEM.md").write_text("Of the project.")
    assert planned(request_)[1] == f"Of the project.\n\n{TEXT}"  # as Pi chooses


def test_the_users_options_are_merged_as_pi_reads_them(request_: Request) -> None:
    """They come before APPEND_SYSTEM.md, which Pi then does not read; a value that names a file is its content."""
    Path(request_.home, ".pi/agent/APPEND_SYSTEM.md").write_text("not this")
    Path(request_.directory, "rules.md").write_text("From a file.")
    given = ("--append-system-prompt", "Be brief.", "-p", "hi", "--append-system-prompt", "rules.md")
    assert planned(request_, *given)[1:] == (f"Be brief.\n\nFrom a file.\n\n{TEXT}", ["-p", "hi"])


def test_a_value_is_no_option(request_: Request) -> None:
    given = ("--model", "--append-system-prompt", "--system-prompt", "-c")
    assert PI.conflict(given) is None
    assert planned(request_, *given)[2] == list(given)


def test_instructions_that_cannot_be_passed_on_are_an_error(request_: Request) -> None:
    own = Path(request_.home, ".pi/agent/APPEND_SYSTEM.md")
    own.write_text("x" * (96 * 1024 + 1))
    with pytest.raises(AmuxError) as refused:
        PI.plan(request_)
    assert refused.value.code == "limit_exceeded"
    own.unlink()
    for plant in (os.mkdir, os.mkfifo):
        plant(own)
        with pytest.raises(AmuxError) as refused:
            PI.plan(request_)
        assert refused.value.code == "invalid_argument"
        own.rmdir() if own.is_dir() else own.unlink()


@pytest.mark.parametrize(
    "arguments",
    [("--continue",), ("-p", "-c"), ("--model", "x", "--resume"), ("-r",), ("--session", "x"), ("--fork", "x"),
     ("install", "npm:x"), ("list",)],
)  # fmt: skip
def test_other_conversations_are_not_adopted(arguments: tuple[str, ...]) -> None:
    assert PI.conflict(arguments) in arguments


@pytest.mark.parametrize("arguments", [(), ("-p", "please continue"), ("--model", "-c"), ("do", "install", "it")])
def test_a_new_conversation_may_say_what_it_wants(arguments: tuple[str, ...]) -> None:
    assert PI.conflict(arguments) is None


def test_each_conversation_has_a_record_of_its_own(request_: Request) -> None:
    first, second = PI.plan(request_), PI.plan(request_)
    assert first.native != second.native
    assert PI.native.fullmatch(str(first.native))
    record = Path(first.argv[2])
    assert record.name.endswith(f"_{first.native}.jsonl")
    place = "--" + request_.directory.lstrip("/").replace("/", "-") + "--"
    assert record.parent == Path(request_.home, ".pi/agent/sessions", place)


def test_a_resumed_conversation_is_found_wherever_it_is(request_: Request, tmp_path: Path) -> None:
    resumed = replace(request_, native=NATIVE, resume=True)
    elsewhere = Path(request_.home, ".pi/agent/sessions/--srv-shop--", f"2026-01-01T00-00-00-000Z_{NATIVE}.jsonl")
    assert planned(resumed)[0].endswith(f"_{NATIVE}.jsonl")  # it had not got as far as a record
    elsewhere.parent.mkdir(parents=True)
    elsewhere.write_text("{}\n")
    assert planned(resumed)[0] == str(elsewhere)
    own = tmp_path / "checkout" / "my [records]"
    own.mkdir()
    (own / f"x_{NATIVE}.jsonl").write_text("{}\n")
    assert planned(resumed, "--session-dir", "my [records]")[0] == str(own / f"x_{NATIVE}.jsonl")


def test_records_stand_where_pi_keeps_them(request_: Request) -> None:
    Path(request_.home, ".pi/agent/settings.json").write_text('{"sessionDir": "~/records"}')
    assert Path(planned(request_)[0]).parent == Path(request_.home, "records")
    named = replace(request_, environment={"PI_CODING_AGENT_SESSION_DIR": "/srv/records"})
    assert Path(planned(named)[0]).parent == Path("/srv/records")
    assert Path(planned(named, "--session-dir", "/mine")[0]).parent == Path("/mine")
    Path(request_.home, ".pi/agent/settings.json").write_text("no")
    assert "/.pi/agent/sessions/" in planned(request_)[0]


def test_without_a_record_there_is_no_id(request_: Request) -> None:
    plan = PI.plan(replace(request_, arguments=("--no-session", "-p", "hi")))
    assert plan.native is None
    assert list(plan.argv) == ["/opt/pi", "--append-system-prompt", TEXT, "--no-session", "-p", "hi"]


@pytest.mark.parametrize("arguments", [("--no-tools",), ("-nbt",), ("--tools", "read,grep"), ("-t", "read")])
def test_a_launch_without_a_shell_is_warned_of(request_: Request, arguments: tuple[str, ...]) -> None:
    assert PI.plan(replace(request_, arguments=arguments)).notices
    assert not PI.plan(replace(request_, arguments=("--tools", "read,bash"))).notices
