"""`amux launch`: an agent under its owner's account, with the Hub's memory and without its own.

Runs as the calling user, on the standard library. `agent` is what an adapter implements (one file each: `pi`,
`codex`, `claude`), `start` puts a launch together, `run` runs it. docs/reference/launch.md lists all that is set.
"""
