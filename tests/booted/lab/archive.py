"""Which Debian archive an image is built from: the one that this machine's own apt is configured with.

apt reads its sources itself (`apt-get indextargets`), so both formats and every option of sources.list(5) count, and
no archive is named here. Security updates are used if the machine's apt uses them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.booted.lab.trouble import LabError, must

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
_PASSED_ON = re.compile(r"^Acquire::(https?::(Proxy|CaInfo|CaPath)|Check-Valid-Until)\b.* \"[^\"]+\";$", re.IGNORECASE)


def sources(suite: str, apt_options: Sequence[str] = ()) -> list[str]:
    """Lines of sources.list(5) for `suite`; `LabError` if apt knows no Debian archive."""
    # Without Release files as well: on a fresh machine `apt-get update` did not run yet.
    show = ["indextargets", "--no-release-info", "--format", "$(REPO_URI)"]
    listed = must(["apt-get", *apt_options, *show]).split()
    uris = list(dict.fromkeys(uri.rstrip("/") for uri in listed))
    main = [uri for uri in uris if uri.endswith("/debian")]
    security = [uri for uri in uris if uri.endswith("/debian-security")]
    if not main:
        raise LabError("apt's sources name no Debian archive (a URI that ends in /debian); see sources.list(5)")
    options = f"[signed-by={KEYRING}]"
    lines = [f"deb {options} {main[0]} {suite} main", f"deb {options} {main[0]} {suite}-updates main"]
    return lines + [f"deb {options} {uri} {suite}-security main" for uri in security[:1]]


def transport() -> list[str]:
    """apt's settings of this machine for proxies and trusted certificates, as lines of apt.conf(5)."""
    lines = must(["apt-config", "dump", "Acquire"]).splitlines()
    return [line for line in lines if _PASSED_ON.match(line)]
