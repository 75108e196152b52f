"""io.amux.Admin: settings and people, for administrators, on admin.sock alone."""

# No postponed annotations: asyncvarlink reads them when the class is made.
import asyncio
import logging
import typing

from asyncvarlink import VarlinkInterface, varlinkmethod

from amux.errors import AmuxError
from amux_hub import settings
from amux_hub.config import KEYS, Config, ConfigError
from amux_hub.identity import Caller
from amux_hub.interfaces.people import PeopleMethods
from amux_hub.interfaces.shared import Shared, shortened
from amux_hub.wire.accept import Connection

_log = logging.getLogger(__name__)


class _Setting(typing.TypedDict):
    key: str
    value: str
    running: str
    source: str
    pinned: bool
    savable: bool
    restart_needed: bool


class Setting(_Setting, total=False):
    saved: str


class DescribedSetting(Setting):
    default: str
    wanted: str
    description: str


class ListReply(typing.TypedDict):
    settings: list[Setting]


class AdminInterface(PeopleMethods, VarlinkInterface, name="io.amux.Admin"):
    """Settings of the Hub, and its principals. Values of settings are text, as a person types them: "true", "0.5".

    `running` is what is in force, `value` what the files say now, `source` the file that decides it, or
    "default". `saved` is what settings.yaml says, if anything. A setting in hub.yaml is `pinned`. A text that is
    too long for the answer is cut and ends in "…"; `amux-hub check-config` shows it whole.
    """

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self._administration = shared.administration

    @varlinkmethod
    async def ListSettings(self) -> ListReply:  # noqa: N802 - the wire's name
        """Every setting."""
        await self._administrator()
        config = await self._configured()
        return {"settings": shortened([self._setting(config, key) for key in KEYS])}

    @varlinkmethod
    async def GetSetting(self, *, key: str) -> DescribedSetting:  # noqa: N802
        """One setting, with its default, the values that it takes and what it means."""
        known = settings.known(key)
        await self._administrator()
        config = await self._configured()
        described: DescribedSetting = {
            **self._setting(config, key),
            "default": known.derived or settings.shown(config.default(key)),
            "wanted": known.wanted(),
            "description": known.doc,
        }
        return shortened([described])[0]

    @varlinkmethod
    async def SetSetting(self, *, key: str, value: str) -> Setting:  # noqa: N802
        """Save a setting to settings.yaml. Forbidden where it is not savable or hub.yaml pins it."""
        settings.known(key)
        caller = await self._administrator()
        async with self._shared.saving:
            config = await self._configured()
            await asyncio.to_thread(settings.save, config, key, value)
        fields = {"uid": caller.uid, "key": key, "value": value}
        _log.info("setting saved", extra={"amux": fields})
        self._administration.told("set", caller, key=key, value=value)
        return shortened([self._setting(await self._configured(), key)])[0]

    async def _administrator(self) -> Caller:
        caller = await self._connection.caller()
        if not caller.administrator:
            raise AmuxError("forbidden", f"UID {caller.uid} is no administrator of this Hub: ask one", uid=caller.uid)
        return caller

    async def _configured(self) -> Config:
        try:
            return await self._shared.configured()
        except ConfigError as error:
            problem = error.problems[0]
            raise AmuxError("storage_io", f"{problem}: correct the file", file=problem.file) from error

    def _setting(self, config: Config, key: str) -> Setting:
        running, configured = self._shared.running[key], config[key]
        setting: Setting = {
            "key": key,
            "running": settings.shown(running),
            "value": settings.shown(configured),
            "source": config.source(key),
            "pinned": key in config.pinned,
            "savable": KEYS[key].savable,
            "restart_needed": running != configured,
        }
        if key in config.saved:
            setting["saved"] = settings.shown(config.saved[key])
        return setting
