"""The tests of amux-hub. `tests.harness` and the like are imported by this name; test folders need no __init__."""
