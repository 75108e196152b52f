"""The real server elsewhere; run as `python -m tests.materializer.serve FD PARENT ARCHIVE UID_MIN`."""

from __future__ import annotations

import socket
import sys

from amux_materializer.__main__ import prepare
from amux_materializer.audit import Audit
from amux_materializer.place import Place
from amux_materializer.server import Server


def main() -> None:
    fd, parent, archive, uid_min = sys.argv[1:]
    audit = Audit()
    prepare()
    server = Server(socket.socket(fileno=int(fd)), Place(parent), archive, audit, int(uid_min))
    server.sweep()
    server.run()


if __name__ == "__main__":
    main()
