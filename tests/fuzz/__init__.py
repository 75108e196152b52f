"""Fuzzing: what anybody may send, made from a seed. `python -m tests.fuzz.run --help`."""
