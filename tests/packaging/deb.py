"""What a test looks at in a built package, read by dpkg-deb(1)."""

from __future__ import annotations

import io
import subprocess
import tarfile
from functools import cached_property
from pathlib import Path

MODULES = "usr/lib/amux/site-packages"


class Deb:
    """One package; nothing of it is installed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def field(self, name: str) -> str:
        """A field of its control file."""
        return self._ask("--field", name).decode().strip()

    @cached_property
    def members(self) -> dict[str, tarfile.TarInfo]:
        """Path without a leading slash → member, of what it installs."""
        return {member.name.removeprefix("./"): member for member in self._installed.getmembers() if member.name != "."}

    @cached_property
    def control(self) -> dict[str, bytes]:
        """Its control files."""
        with tarfile.open(fileobj=io.BytesIO(self._ask("--ctrl-tarfile"))) as archive:
            files = [(member, archive.extractfile(member)) for member in archive.getmembers()]
            return {member.name.removeprefix("./"): file.read() for member, file in files if file is not None}

    def read(self, name: str) -> bytes:
        """The bytes of one installed file."""
        file = self._installed.extractfile(self.members[name])
        assert file is not None
        return file.read()

    def unpack(self, target: Path) -> None:
        """Everything that it installs, below `target`."""
        subprocess.run(["dpkg-deb", "--extract", str(self.path), str(target)], check=True)

    @cached_property
    def _installed(self) -> tarfile.TarFile:
        return tarfile.open(fileobj=io.BytesIO(self._ask("--fsys-tarfile")))

    def _ask(self, option: str, *more: str) -> bytes:
        command = ["dpkg-deb", option, str(self.path), *more]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
