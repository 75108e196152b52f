"""Checks of a host that has amux-hub, for its administrator: `pytest tests/host --hosts=ssh://root@HOST`."""
