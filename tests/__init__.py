"""The tests of amux-hub: `tests.harness` and the like are imported by name; folders need no __init__."""
