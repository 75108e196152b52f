"""A throw-away Debian with a real systemd as PID 1, in systemd-nspawn. Root and the standard library alone.

`Machine` (machine.py) boots one and runs commands in it; `image.ensure` builds what it boots from, once a recipe;
`python -m tests.booted.lab` (behind `make lab`) is the same for a developer.
"""
