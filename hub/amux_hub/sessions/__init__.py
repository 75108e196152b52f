"""Launch state: what the Hub remembers of each conversation that `amux launch` began. Never content."""

from amux_hub.sessions.record import Session
from amux_hub.sessions.sessions import Sessions

__all__ = ["Session", "Sessions"]
