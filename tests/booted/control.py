"""`Control`: the administrator's machine, which reaches a booted one over ssh with Ansible and the suite of tests/host.

Ansible stands in an environment of its own, made once from ansible/requirements.lock; nothing else needs it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import TracebackType

from tests.booted.lab import enter
from tests.booted.lab.machine import ROOT, Done, Machine
from tests.runner import env

ANSIBLE = ROOT / "ansible"
SECONDS = 180.0

SSH = """\
Host lab
  HostName {address}
  HostKeyAlias lab
Host *
  User {user}
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile none
  StrictHostKeyChecking yes
  BatchMode yes
  LogLevel ERROR
  ControlPath {folder}/master
"""


@cache
def programs() -> Path:
    """The directory with ansible-playbook, ansible-lint and the pytest that has testinfra."""
    interpreter = os.path.realpath(sys.executable)  # that of a test run is gone after it
    directory = env.base_directory() / env.shared_name(interpreter, env.HOST_LOCK)
    return env.locked(directory, interpreter, env.HOST_LOCK).parent


def variables(home: Path) -> list[str]:
    """A command prefix: an environment in which none of the caller's own settings of ssh or Ansible count."""
    own = {"PATH": f"{programs()}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8"}
    kept = {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}
    given = {**kept, **own, "ANSIBLE_CONFIG": str(ANSIBLE / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    return ["env", "-i", *(f"{name}={value}" for name, value in given.items())]


class Play:
    """What a run of ansible-playbook against one host came to."""

    def __init__(self, done: Done) -> None:
        self.output = done.stdout + done.stderr
        counts = re.search(r"^lab +: (.*)$", done.stdout, re.MULTILINE)
        assert counts, self.output
        words = dict(re.findall(r"(\w+)=(\d+)", counts.group(1)))
        self.failed = int(words["failed"]) + int(words["unreachable"])
        assert (done.returncode == 0) == (self.failed == 0), self.output
        self.changed: list[str] = []
        title = ""
        for line in done.stdout.splitlines():
            if found := re.match(r"(?:TASK|RUNNING HANDLER) \[(?:amux_hub : )?(.*)\] \*+$", line):
                title = found.group(1)
            elif line.startswith("changed:") and self.changed[-1:] != [title]:
                self.changed.append(title)
        """The names of the tasks and handlers that changed something, in their order."""
        assert len(self.changed) == int(words["changed"]), self.output


class Control:
    """A key of its own, the machine's host key, and one ssh connection that all commands share."""

    def __init__(self, machine: Machine, folder: Path, user: str = "root") -> None:
        """`folder` is empty and has a short path, for a socket; `user`, if not root, may use sudo."""
        self.machine, self.folder, self.user = machine, folder, user
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "key")], check=True)
        (home,) = machine.run("sh", "-c", 'getent passwd "$0" | cut -d: -f6', user).stdout.split()
        machine.run("install", "-d", "-m", "0700", "-o", user, "-g", user, f"{home}/.ssh")
        machine.put(folder / "key.pub", f"{home}/.ssh/authorized_keys", 0o600, f"{user}:{user}")
        machine.run("systemctl", "start", "ssh.service")
        host_key = machine.get("/etc/ssh/ssh_host_ed25519_key.pub").decode()
        (folder / "known_hosts").write_text(f"lab,{machine.address} {host_key}")
        text = SSH.format(address=machine.address, user=user, folder=folder)
        (folder / "ssh_config").write_text(text)
        ssh = ["ssh", "-F", str(folder / "ssh_config")]
        master = [*enter.outside(machine.supervisor.pid), *ssh, "-o", "ControlMaster=yes", "-N", "lab"]
        self._master = subprocess.Popen(master, stdin=subprocess.DEVNULL)
        asked = [*ssh, "-O", "check", "lab"]
        machine.wait(
            "an ssh connection", lambda: subprocess.run(asked, capture_output=True, check=False).returncode == 0
        )

    def __enter__(self) -> Control:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self._master.terminate()
        self._master.wait()

    def run(self, *command: str, check: bool = True) -> Done:
        """A command on the administrator's machine."""
        whole = [*variables(self.folder), f"ANSIBLE_SSH_ARGS=-F {self.folder}/ssh_config", *command]
        return self.machine.outside("env", "-C", str(ROOT), *whole, check=check, seconds=SECONDS)

    def play(self, playbook: str, *options: str, **role: object) -> Play:
        """A playbook of ansible/ on the machine, with variables of the role."""
        values = {"ansible_host": self.machine.address, "ansible_user": self.user, **role}
        inventory = self.folder / "inventory.yml"
        inventory.write_text(json.dumps({"amux_hubs": {"hosts": {"lab": values}}}))
        path = str(ANSIBLE / playbook)
        return Play(self.run("ansible-playbook", "--inventory", str(inventory), path, *options, check=False))

    def suite(self, *options: str) -> Done:
        """The suite of tests/host against the machine."""
        host = f"--hosts=ssh://{self.user}@{self.machine.address}?controlpersist=0"
        return self.run(
            *("pytest", "-p", "no:cacheprovider", "--color=no", "-v", "tests/host"),
            *(host, f"--ssh-config={self.folder}/ssh_config", f"--basetemp={self.folder}/pytest", *options),
            check=False,
        )
