"""Every check, in the order in which a person wants to read them."""

from __future__ import annotations

from amux_hub.doctor import (
    account,
    configuration,
    directories,
    kernel,
    launches,
    pam,
    people,
    registry,
    sockets,
    store,
    units,
    versions,
)
from amux_hub.doctor.check import Check

CHECKS: tuple[Check, ...] = (
    *versions.CHECKS,
    *configuration.CHECKS,
    *account.CHECKS,
    *units.CHECKS,
    *sockets.CHECKS,
    *directories.CHECKS,
    *pam.CHECKS,
    *people.CHECKS,
    *registry.CHECKS,
    *launches.CHECKS,
    *store.CHECKS,
    *kernel.CHECKS,
)
