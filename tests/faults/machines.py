"""Machines that share nothing but a network, as namespaces of this one; for root on Linux.

Each has its own network, host name, processes and mounts: a disk in memory, at the same path in all
of them, so that what one writes no other sees. The first process of a machine is its plug: when it
is killed, so is everything on it, and its disk is gone.
"""

import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TOOLS = ("unshare", "nsenter", "ip", "hostname", "mount")
DISK = "size=600m"
SHARED_MEMORY = "size=300m"


def why_not() -> str | None:
    """Why there cannot be such machines here."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "only root can make namespaces"
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        return f"{', '.join(missing)} is not installed"
    probe = ["unshare", "--mount", "--net", "--uts", "--pid", "--fork", "--mount-proc", "true"]
    done = subprocess.run(probe, capture_output=True, text=True)
    return f"namespaces are not allowed here: {done.stderr.strip()}" if done.returncode else None


@dataclass
class Network:
    """A bridge that machines are connected to; this process has the address `gateway`."""

    disk: Path
    """An empty folder; each machine sees its own disk there."""
    name: str = field(default_factory=lambda: f"tm{random.SystemRandom().randrange(10**8):08d}")
    machines: "dict[str, Machine]" = field(default_factory=dict)

    def __enter__(self) -> "Network":
        number = int(self.name[2:])
        self._prefix = f"10.{100 + number % 100}.{number // 100 % 250}"
        self._next = 1
        _run("ip", "link", "add", self.name, "type", "bridge")
        _run("ip", "addr", "add", f"{self.gateway}/24", "dev", self.name)
        _run("ip", "link", "set", self.name, "up")
        return self

    def __exit__(self, *_: object) -> None:
        for machine in list(self.machines.values()):
            machine.kill()
        _run("ip", "link", "del", self.name)

    @property
    def gateway(self) -> str:
        return f"{self._prefix}.254"

    def start(self, name: str) -> "Machine":
        """Switch on a machine, with an empty disk and an address that nobody had before."""
        machine = self.machines[name] = Machine(self, name, f"{self._prefix}.{self._next}")
        self._next += 1
        return machine


class Machine:
    """One machine; `run` starts a program on it."""

    def __init__(self, network: Network, name: str, address: str) -> None:
        self.network = network
        self.name = name
        self.address = address
        disk = network.disk
        begin = (
            f"hostname {name} && mount -t tmpfs -o {DISK} none {disk} && "
            f"mount -t tmpfs -o {SHARED_MEMORY} none /dev/shm && echo ready && exec sleep infinity"
        )
        spaces = ["--mount", "--net", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self._plug = subprocess.Popen(
            ["unshare", *spaces, "sh", "-c", begin], stdout=subprocess.PIPE, text=True
        )
        assert self._plug.stdout is not None
        assert self._plug.stdout.readline() == "ready\n", f"{name} does not start"
        pid = self._plug.pid
        self._first = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0]
        link = f"{network.name}-{address.rpartition('.')[2]}"
        _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        _run("ip", "link", "set", link, "master", network.name, "up")
        for words in (f"addr add {address}/24 dev eth0", "link set eth0 up", "link set lo up"):
            _run(*self._enter, "ip", *words.split())

    @property
    def _enter(self) -> list[str]:
        return ["nsenter", "--target", self._first, "--mount", "--net", "--uts", "--pid", "--"]

    def run(self, words: Sequence[str], environ: dict[str, str], **options) -> subprocess.Popen:
        """Start a program here; its home and its temporary files are on the disk."""
        disk = str(self.network.disk)
        here = {**environ, "HOME": disk, "TMPDIR": disk}
        return subprocess.Popen([*self._enter, *words], env=here, **options)

    def kill(self) -> None:
        """Pull the plug."""
        self.network.machines.pop(self.name, None)
        self._plug.kill()
        self._plug.wait()
        with suppress(OSError):
            self._plug.stdout.close()


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
