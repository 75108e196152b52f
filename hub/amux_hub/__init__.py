"""amux_hub: the service. It imports of `amux` the contract modules alone: `errors`, `limits`, `tools`."""

from amux import __version__

__all__ = ["__version__"]
