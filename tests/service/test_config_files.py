"""What the Hub takes for its configuration: regular files of the right owner, nothing of the working directory."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from amux_hub import config
from amux_hub.config import ConfigError


@pytest.mark.parametrize("home", [".", "relative", ""])
def test_n4_a_relative_home_is_the_account_s(home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".config" / "amux").mkdir(parents=True)
    (tmp_path / ".config" / "amux" / "hub.yaml").write_text("nonsense: true\n")
    monkeypatch.chdir(tmp_path)
    own = pwd.getpwuid(os.geteuid()).pw_dir
    assert config.default_file({"HOME": home}) == f"{own}/.config/amux/hub.yaml"
    assert config.default_home({"HOME": home}) == f"{own}/.local/state/amux"
    assert config.default_file({"HOME": str(tmp_path)}) == f"{tmp_path}/.config/amux/hub.yaml"


def refused(file: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        config.load(str(file), {"AMUX_HOME": str(file.parent)})
    return str(caught.value)


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hub.yaml")
    assert "no file" in refused(tmp_path / "hub.yaml")
    assert refused(tmp_path)
    (tmp_path / "device.yaml").symlink_to("/dev/zero")
    assert "no file" in refused(tmp_path / "device.yaml")


def test_a_file_that_everybody_may_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "hub.yaml"
    file.write_text("isolation: false\n")
    file.chmod(0o666)
    assert "mode 0666" in refused(file)
    file.chmod(0o664)
    assert config.load(str(file), {"AMUX_HOME": str(tmp_path)})["isolation"] is False


@pytest.mark.root
def test_a_file_of_somebody_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "hub.yaml"
    file.write_text("isolation: false\n")
    os.chown(file, 12345, 12345)
    assert "owner UID 12345" in refused(file)
    with pytest.raises(ConfigError, match="owner UID 12345"):
        config.load(str(file), {}, system=True)


@pytest.mark.root
def test_a_system_hub_s_file_and_its_directory_are_root_s_alone(tmp_path: Path) -> None:
    directory = tmp_path / "etc"
    directory.mkdir()
    file = directory / "hub.yaml"
    file.write_text(f"home: {tmp_path}\n")
    for path, mode in ((file, 0o664), (file, 0o646), (directory, 0o777)):
        kept = path.stat().st_mode
        path.chmod(mode)
        with pytest.raises(ConfigError, match="no write permission"):
            config.load(str(file), {}, system=True)
        path.chmod(kept)
    assert config.load(str(file), {}, system=True)["isolation"] is True
