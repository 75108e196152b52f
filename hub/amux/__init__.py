"""amux: the command-line tool of amux-hub.

Runs as the calling user, imports the standard library (and click off the hot path), never `amux_hub`.
"""

__version__ = "0.1.0"
