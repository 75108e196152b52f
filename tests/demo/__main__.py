"""`make demo`: the whole product before the reader's eyes, on a private Hub in a temporary home."""

from __future__ import annotations

import io
import os
import sys

import anyio
from tests.demo import documents
from tests.demo.over_mcp import converse
from tests.demo.stage import BIN, NotAsToldError, Stage, heading, tell

DECISIONS = "projects/shop/decisions.md"
INCIDENTS = "projects/shop/incidents.md"
RUNBOOK = "运维/部署手册.md"


def main() -> int:
    # The texts are UTF-8 whatever the locale of the caller.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")
    with Stage() as stage:
        try:
            perform(stage)
        except NotAsToldError as error:
            tell(f"\nThe demo stopped: {error}")
            return 1
    how_to_go_on()
    return 0


def perform(stage: Stage) -> None:
    heading("A private Hub")
    tell(f"It runs as you, in {stage.home}, and is removed at the end.\n")
    tell(f"$ export AMUX_HOME={stage.home}")
    stage.start_hub()
    stage.run("amux status", answer="memory", show=30)
    tell("Memory is off until you switch it on. The Hub takes the setting when it starts:\n")
    stage.run("amux memory search deploy", status=7, answer="amux system config set memory.enabled true")
    stage.run("amux system config set memory.enabled true", answer="memory.enabled")
    stage.stop_hub()
    stage.start_hub()
    tell("")

    heading("Remember")
    stage.write("decisions.md", documents.DECISIONS)
    stage.write("manual.md", documents.RUNBOOK)
    stage.write("memory.md", documents.MEMORY)
    stage.write("incidents.md", documents.incident_log())
    stage.run("cat manual.md", show=20)
    absent = "--expected-revision absent"
    stage.run(f"amux memory upsert MEMORY.md --file memory.md {absent}", answer="saved")
    stage.run(f"amux memory upsert {DECISIONS} --file decisions.md {absent}", answer="saved")
    stage.run(f"amux memory upsert {RUNBOOK} --file manual.md {absent}", answer="saved")
    stage.run(f"amux memory upsert {INCIDENTS} --file incidents.md {absent}", answer="saved")
    stage.run("amux memory list", answer="4 documents")

    heading("Search, in English and Chinese")
    stage.run("amux memory search PGBOUNCER advisory", answer=DECISIONS)
    stage.run("amux memory search 用户身份", answer=RUNBOOK)
    stage.run("amux memory search 回滚 previous", answer=f"(?s){RUNBOOK}.*{DECISIONS}")

    heading("Read a document that is longer than one answer")
    first = stage.run(f"amux memory show {INCIDENTS}", answer="cut: go on with --offset")
    offset = first.rsplit("--offset ", 1)[1].split()[0]
    stage.run(f"amux memory show {INCIDENTS} --offset {offset}", answer="nothing of this document was cut off")
    tell(f"`amux memory export {INCIDENTS}` writes it whole, byte for byte.")
    if stage.capture("amux", "memory", "export", INCIDENTS) != documents.incident_log().encode():
        raise NotAsToldError("the export differs from what was saved")

    heading("Correct it, with the revision that was read")
    read = stage.revision(stage.run(f"amux memory show {DECISIONS}", show=18))
    stage.write("decisions.md", documents.CORRECTED)
    correct = f"amux memory upsert {DECISIONS} --file decisions.md --expected-revision"
    saved = stage.run(f"{correct} {read}", answer="saved")

    heading("Meet a conflict")
    tell("The same command again, as somebody would run it who had read the old text:\n")
    stage.run(f"{correct} {read}", status=4, answer="nothing was written")
    tell("For a program, the answer carries the revision that is there:\n")
    refused = stage.run(f"{correct} {read} --json", status=4, answer='"code":"conflict"')
    if f'"observed_revision":"{stage.revision(saved)}"' not in refused:
        raise NotAsToldError("the conflict does not name the revision that is there")
    stored = (stage.home / "memory" / "global" / DECISIONS).read_text(encoding="utf-8")
    if stored != documents.CORRECTED:
        raise NotAsToldError("the document is not what was saved")
    tell("What is stored is an ordinary file:\n")
    stage.run(f"grep -n Thursday {stage.home}/memory/global/{DECISIONS}", answer="Thursday")

    heading("The same memory through MCP, with the official Python client")
    tell("An agent starts `amux mcp` and speaks MCP with it:\n")
    anyio.run(converse, stage, documents.incident_log())

    heading("Forget")
    listed = stage.run("amux memory show projects/shop/customers.md", answer="Lindqvist")
    forget = "amux memory forget projects/shop/customers.md --expected-revision"
    stage.run(f"{forget} {stage.revision(listed)}", answer="forgot")
    stage.run("amux memory search Lindqvist", answer="0 found")
    stage.stop_hub()


def how_to_go_on() -> None:
    here = os.path.relpath(BIN)
    heading("That was all of it. To go on")
    steps = {
        "Start your own Hub, in ~/.local/state/amux:": f"{here}/amux-hub &",
        "Switch memory on, then stop it and start it again:": f"{here}/amux system config set memory.enabled true",
        "Give it to Claude Code (docs/how-to/ has Codex and others):": (
            f"claude mcp add --scope user amux -- {BIN}/amux mcp"
        ),
        "Step by step, ten minutes:": "docs/tutorial.md",
    }
    for what, command in steps.items():
        tell(f"  {what}\n      {command}")
    tell("\nThe Hub of this demo and its home are gone. What stays: .venv and build/ in this checkout")
    tell("(`make clean` removes them), and pip's cache, ~/.cache/pip.")


if __name__ == "__main__":
    sys.exit(main())
