"""The Varlink interfaces that clients see, and the place where an interface is added.

`hub.sock` serves `io.amux.Hub`, `io.amux.Memory` and `io.amux.Session`; `admin.sock` adds `io.amux.Admin`.
Both describe themselves through `org.varlink.service`; the documentation's wire page is `describe()`.
"""

from __future__ import annotations

from asyncvarlink import VarlinkInterfaceRegistry
from asyncvarlink.serviceinterface import VarlinkServiceInterface

from amux import __version__
from amux_hub.interfaces.admin import AdminInterface
from amux_hub.interfaces.hub import HubInterface
from amux_hub.interfaces.memory import MemoryInterface
from amux_hub.interfaces.session import SessionInterface
from amux_hub.interfaces.shared import Shared
from amux_hub.wire.accept import Connection

__all__ = ["Shared", "describe", "for_connection"]

_SERVED = (HubInterface, MemoryInterface, SessionInterface, AdminInterface, VarlinkServiceInterface)
_PUBLIC = ("io.amux.Hub", "io.amux.Memory", "io.amux.Session")


def for_connection(shared: Shared, connection: Connection, *, admin: bool) -> VarlinkInterfaceRegistry:
    """What one connection may call. The instances know their connection, and so who is calling."""
    registry = VarlinkInterfaceRegistry()
    registry.register_interface(HubInterface(shared, connection, _PUBLIC))
    registry.register_interface(MemoryInterface(shared, connection))
    registry.register_interface(SessionInterface(shared, connection))
    if admin:
        registry.register_interface(AdminInterface(shared, connection))
    registry.register_interface(
        VarlinkServiceInterface("amux-hub", "amux-hub", __version__, "", registry, comments=True)
    )
    return registry


def describe() -> dict[str, str]:
    """The description of every interface, as `GetInterfaceDescription` answers it."""
    return {interface.name: interface.render_interface_description() for interface in _SERVED}
