"""Daemons for the tests, on loopback. The program is that of the environment variable GROUPCAST."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

#: How long anything may take: a loaded machine is no fault.
WITHIN = 120.0


def until(what: str, holds: Callable[[], object]) -> None:
    end = time.monotonic() + WITHIN
    while not holds():
        assert time.monotonic() < end, f"not within {WITHIN} s: {what}"
        time.sleep(0.01)


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Daemons:
    """Daemons that know each other, each with a bus at a Unix socket."""

    def __init__(self, program: str, directory: Path) -> None:
        self._program, self._directory = program, directory
        self._multicast = f"239.192.79.77:{free_port()}"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> str:
        """Start one; the address of its bus."""
        bus = self._directory / f"{name}.bus"
        command = [self._program, "daemon", "--insecure", "--name", name, "--multicast", self._multicast]
        command += ["--listen", f"127.0.0.1:{free_port()}", "--socket", str(self._directory / f"{name}.sock")]
        with (self._directory / f"{name}.err").open("wb") as log:
            daemon = subprocess.Popen([*command, "--bus", f"unix:{bus}"], stderr=log)
        self._running[name] = daemon
        until(f"{name} listens", lambda: bus.exists() or self._has_ended(name))
        return f"unix:{bus}"

    def signal(self, name: str, number: signal.Signals) -> None:
        self._running[name].send_signal(number)

    def stop(self) -> None:
        for daemon in self._running.values():
            daemon.kill()
            daemon.wait()

    def _has_ended(self, name: str) -> bool:
        assert self._running[name].poll() is None, (self._directory / f"{name}.err").read_text()
        return False


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Daemons]:
    program = os.environ.get("GROUPCAST") or shutil.which("groupcast")
    if program is None:
        pytest.skip("there is no groupcast here")
    running = Daemons(program, tmp_path)
    yield running
    running.stop()
