"""The running Hub: start, serve, reload, drain.

Promises: READY is sent when every socket serves; TERM and INT stop accepting, answer what runs, tell what comes
`shutting_down`, and end with status 0 within `timeouts.drain`; HUP puts in force what may change while it runs
and leaves everything as it is when a file is wrong. Nothing blocks the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import importlib
import logging
import os
import shlex
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from asyncvarlink import VarlinkInterfaceRegistry

from amux import __version__
from amux.errors import EXIT_USAGE, AmuxError
from amux_hub import config as configuration
from amux_hub import interfaces, logs, sockets
from amux_hub.administration import Administration, Host
from amux_hub.admission import Admission, Limits
from amux_hub.audit import Audit
from amux_hub.config import KEYS, Config, ConfigError
from amux_hub.home import private_directory
from amux_hub.identity import OwnerIdentity
from amux_hub.memory import Memory
from amux_hub.notify import Notifier
from amux_hub.people import HostIdentity, People
from amux_hub.recheck import KnownIdentity, Recheck
from amux_hub.registry import Registry
from amux_hub.sessions import Sessions
from amux_hub.sockets import Listening
from amux_hub.store import Store
from amux_hub.verdicts import Verdicts
from amux_hub.wire import reply
from amux_hub.wire.accept import Connection, Listener
from amux_hub.wire.server import VarlinkServer
from amux_hub.wire.transport import Timeouts

if TYPE_CHECKING:
    from amux_hub.mcp.server import McpServer

_log = logging.getLogger(__name__)
SYSTEM_SOCKET = "/run/amux/hub.sock"
_SWITCH_SECONDS = 0.0005
"""How long a search may keep the interpreter while the loop has something to do: under a flood of searches, what
others wait for a call is a few dozen times this."""
_THREADS_SECONDS = 2.0
"""How long a write that the drain did not wait for may still take, before the process ends without it."""


class Service:
    """Everything that lives as long as the process. Made before the loop runs: making it may block."""

    def __init__(self, config: Config, notifier: Notifier) -> None:
        """Raises AmuxError where the home, the lock or a socket cannot be had."""
        self._notifier = notifier
        self._listening: list[Listening] = []
        given = sockets.given()
        if config.system and (missing := [name for name in sockets.NAMES if name not in given]):
            raise AmuxError(
                "invalid_argument",
                f"a system Hub takes its sockets from systemd, and {', '.join(missing)} did not come: start it with "
                "systemctl start amux-hub, or run amux-hub without --system for a Hub of your own",
            )
        own = {name: path for name in sockets.NAMES if name not in given and (path := config[f"sockets.{name}"])}
        if not os.path.lexists(config["home"]):  # a Hub that must not start leaves no new home behind
            for path in own.values():
                sockets.refuse_served(path)
        private_directory(config["home"], "home")
        self._store = Store(config["home"], config["limits.cache_bytes"], config["limits.free_bytes"])
        try:
            for name in sockets.NAMES:
                if name in given:
                    self._listening.append(given[name])
                elif name in own:
                    self._listening.append(sockets.listen(name, own[name]))
        except BaseException:
            self._close_sockets()
            self._store.close()
            raise
        self._audit = Audit() if config.system else None
        self._memory = Memory(self._store, config["memory.enabled"], self._audit)
        self._sessions = Sessions(config["home"], self._memory, self._audit)
        self._admission = Admission(Limits())
        self._timeouts = Timeouts()
        self._connections: set[Connection] = set()
        self._running: dict[str, Any] = dict(config.values())
        self._host = self._people(config)
        self._identity: KnownIdentity = (
            OwnerIdentity(isolation=config["isolation"]) if self._host is None else self._host.identity
        )
        administration = Administration(
            self._store, self._sessions, self._connections, isolation=config["isolation"], host=self._host
        )
        self._shared = interfaces.Shared(
            config, self._running, self._memory, self._admission, administration, self._sessions
        )
        self._varlink = VarlinkServer(self._interfaces, self._admission, self._timeouts)
        self._mcp: McpServer | None = None
        self._mcp_tasks: set[asyncio.Task[None]] = set()
        self._listeners: list[Listener] = []
        self._stop = asyncio.Event()
        self._hurry = asyncio.Event()
        self._reloading = asyncio.Lock()
        self._apply(config)

    def _people(self, config: Config) -> Host | None:
        """How a system Hub knows the accounts of the host; a private Hub has its owner alone."""
        if self._audit is None:
            return None
        running = self._running

        def people() -> People:
            return People(running["identity.aliases"], frozenset(running["identity.services"]))

        registry = Registry(config["home"])
        identity = HostIdentity(
            registry,
            Verdicts(self._verdict_seconds),
            isolation=config["isolation"],
            people=people,
            seconds=self._verdict_seconds,
            audit=self._audit,
        )
        return Host(registry, identity, self._audit)

    def _verdict_seconds(self) -> float:
        return float(self._running["identity.verdict_seconds"])

    def run(self) -> int:
        """Serve until TERM or INT; the exit status."""
        sys.setswitchinterval(_SWITCH_SECONDS)
        try:
            return asyncio.run(self._main())
        finally:
            self._close_sockets()

    def _interfaces(self, connection: Connection, admin: bool) -> VarlinkInterfaceRegistry:
        return interfaces.for_connection(self._shared, connection, admin=admin)

    def _close_sockets(self) -> None:
        while self._listening:
            self._listening.pop().close()

    # Starting

    async def _main(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop)
        loop.add_signal_handler(signal.SIGHUP, self._asked_to_reload)
        self._notifier.watch()
        self._varlink.sweep()
        watching = asyncio.ensure_future(self._watch_people())
        stopped = asyncio.ensure_future(self._stop.wait())
        starting = asyncio.ensure_future(self._serve())
        await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            self._ready()
        await stopped
        starting.cancel()
        watching.cancel()
        return await self._drain()

    async def _watch_people(self) -> None:
        """Each second: connections that live on, and refusals that were counted."""
        recheck = Recheck(self._identity, self._connections, self._verdict_seconds)
        while True:
            await asyncio.sleep(1)
            if self._host is not None:
                self._host.audit.tick()
            recheck.look()

    async def _serve(self) -> None:
        """hub.sock and admin.sock at once; mcp.sock when its library, a second's work, is loaded."""
        for listening in self._listening:
            if listening.name != "mcp":
                begin = functools.partial(self._varlink.begin, admin=listening.name == "admin")
                self._listen(listening, begin, reply.encode_failure)
        for listening in self._listening:
            if listening.name == "mcp":
                module = await asyncio.to_thread(importlib.import_module, "amux_hub.mcp.server")
                self._mcp = module.McpServer(self._memory, self._admission, self._timeouts)
                self._listen(listening, self._begin_mcp, module.McpServer.refusal)
        # What is alive now lives as long as the process: the collector need not look at it again.
        gc.collect()
        gc.freeze()

    def _listen(
        self,
        listening: Listening,
        begin: Callable[[socket.socket, Connection], object],
        refusal: Callable[[AmuxError], bytes],
    ) -> None:
        listener = Listener(
            listening.name, listening.socket, self._identity, self._admission, begin, refusal, self._connections
        )
        listener.start()
        self._listeners.append(listener)

    def _begin_mcp(self, connected: socket.socket, connection: Connection) -> None:
        task = asyncio.get_running_loop().create_task(self._serve_mcp(connected, connection))
        self._mcp_tasks.add(task)
        task.add_done_callback(self._mcp_tasks.discard)

    async def _serve_mcp(self, connected: socket.socket, connection: Connection) -> None:
        assert self._mcp is not None
        try:
            await self._mcp.serve(connected, connection)
        except Exception:  # noqa: BLE001 - a mistake of ours must not end more than this connection
            fields = {"uid": connection.peer.uid, "pid": connection.peer.pid}
            _log.exception("an MCP connection failed", extra={"amux": fields})
        finally:
            connected.close()
            connection.release()

    def _ready(self) -> None:
        self._notifier.ready()
        self._notifier.status(f"serving {self._where()}")
        running = self._shared.running
        fields = {"version": __version__, "home": running["home"], "memory_enabled": running["memory.enabled"]}
        if self._notifier.present or logs.is_journal():
            _log.info("serving %s", self._where(), extra={"amux": fields})
        else:
            with contextlib.suppress(OSError):  # a terminal that went away or a full disk is no reason not to serve
                sys.stderr.write("\n".join(self._greeting()) + "\n")
                sys.stderr.flush()

    def _where(self) -> str:
        return next((one.path for one in self._listening if one.name == "hub"), "no hub.sock")

    def _greeting(self) -> list[str]:
        """What a person at a terminal needs to know."""
        home, where = self._shared.running["home"], self._where()
        lines = [f"amux-hub {__version__} serves {home} at {where}; stop it with Ctrl-C"]
        usual = os.path.join(configuration.runtime_directory(self._shared.config.env, str(home)), "hub.sock")
        expected = configuration.runtime_directory(
            self._shared.config.env, configuration.default_home(self._shared.config.env)
        )
        if os.path.exists(SYSTEM_SOCKET) or os.path.join(expected, "hub.sock") != where or usual != where:
            lines.append(f"to use this Hub: export AMUX_HUB={shlex.quote(where)}")
        if self._shared.running["memory.enabled"]:
            lines.append("try: amux memory list")
        else:
            lines.append(
                "memory is off: amux system config set memory.enabled true, then stop this and run amux-hub again"
            )
        return lines

    # Reloading

    def _apply(self, config: Config) -> None:
        """Put in force what may change while the Hub runs: log level, limits, timeouts."""
        logs.set_level(config["log.level"])
        _assign(self._admission.limits, "limits", config)
        _assign(self._admission.limits, "timeouts", config)
        _assign(self._timeouts, "timeouts", config)
        self._store.set_limits(config["limits.cache_bytes"], config["limits.free_bytes"])
        self._admission.resize()
        running = self._shared.running
        running.update({name: config[name] for name, key in KEYS.items() if key.reload})

    def _asked_to_reload(self) -> None:
        task = asyncio.get_running_loop().create_task(self._reload())
        self._reload_task = task

    async def _reload(self) -> None:
        async with self._reloading:
            self._notifier.reloading()
            try:
                config = await self._shared.configured()
            except ConfigError as error:
                for problem in error.problems:
                    _log.error("configuration not reloaded: %s", problem)
            else:
                self._shared.config = config
                self._apply(config)
                if self._host is not None:
                    self._host.identity.forget()
                waiting = [name for name in KEYS if config[name] != self._shared.running[name]]
                _log.info("configuration reloaded", extra={"amux": {"needs_restart": ",".join(waiting) or "nothing"}})
            self._notifier.ready()

    # Stopping

    def _asked_to_stop(self) -> None:
        """The first TERM or INT drains, a second one does not wait."""
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def _drain(self) -> int:
        self._notifier.stopping()
        _log.info("stopping")
        for listener in self._listeners:
            listener.stop()
        self._close_sockets()
        self._admission.drain()
        draining = [asyncio.ensure_future(self._varlink.drain())]
        if self._mcp is not None:
            draining.append(asyncio.ensure_future(self._mcp.drain()))
        draining += self._mcp_tasks
        hurry = asyncio.ensure_future(self._hurry.wait())
        waiting = asyncio.ensure_future(asyncio.wait(draining))
        await asyncio.wait(
            [waiting, hurry], timeout=float(self._shared.running["timeouts.drain"]), return_when=asyncio.FIRST_COMPLETED
        )
        if not waiting.done():
            left = self._varlink.abort() + len(self._mcp_tasks)
            _log.warning("stopping without having answered %d connections", left)
        for task in (hurry, waiting, *draining):
            task.cancel()
        await asyncio.gather(*draining, return_exceptions=True)
        return await self._end_store()

    async def _end_store(self) -> int:
        """Wait for what runs in threads, give up the lock."""
        closing = asyncio.ensure_future(asyncio.to_thread(self._close_files))
        done, _ = await asyncio.wait([closing], timeout=_THREADS_SECONDS)
        if not done:
            _log.error("stopping although a file operation does not end")
            logging.shutdown()
            os._exit(1)  # the interpreter would wait for the thread
        if self._host is not None:
            self._host.identity.close()
            self._host.audit.tick()
        self._store.close()
        return 0

    def _close_files(self) -> None:
        self._memory.close()
        self._sessions.close()


def _assign(target: object, section: str, config: Config) -> None:
    """Set the attributes of `target` that are settings of this section."""
    for name in KEYS:
        attribute = name.removeprefix(section + ".")
        if attribute != name and hasattr(target, attribute):
            setattr(target, attribute, config[name])


def main(file: str | None, env: Mapping[str, str], *, system: bool) -> int:
    """Run the Hub: the exit status. Errors that stop it are one line each on standard error."""
    os.umask(0o077)
    notifier = Notifier()
    try:
        config = configuration.load(file, env, system=system)
        logs.setup(config["log.level"], env)
        service = Service(config, notifier)
    except ConfigError as error:
        for problem in error.problems:
            sys.stderr.write(f"amux-hub: {problem}\n")
        return EXIT_USAGE
    except AmuxError as error:
        sys.stderr.write(f"amux-hub: {error.message}\n")
        return 1
    return service.run()
