"""The whiteboard in two real browsers: browsers.py CHROMIUM DIRECTORY [TIMES].

Two daemons, a whiteboard's program at each, and a headless Chromium (Debian's package ``chromium``) at each of those.
In both pages at once 100 strokes are drawn and erased by events of the pointer; then the pictures of the two pages are
compared, byte by byte of their PNGs, which lie in DIRECTORY. Not a part of the tests: it takes a browser, and seconds.
The program ``groupcast`` is that of the environment variable GROUPCAST, or of the PATH. Whatever happens, a signal too,
no browser, daemon or directory of a run stays behind.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from whiteboard import TEXT, frame, read_frame

HERE = Path(__file__).parent
WITHIN = 120.0

#: Draws or erases COUNT times, with pauses in which the other page does too, by a generator seeded with SEED.
PLAY = """
(async (seed, count) => {
  const random = (below) => { seed = (seed * 48271) % 2147483647; return seed % below; };
  const board = document.getElementById("board");
  const event = (kind, x, y) => board.dispatchEvent(new PointerEvent(kind, {
    clientX: board.getBoundingClientRect().left + board.clientLeft + x,
    clientY: board.getBoundingClientRect().top + board.clientTop + y,
    pointerId: 1, buttons: 1, bubbles: true,
  }));
  board.setPointerCapture = () => {};
  for (let done = 0; done < count; done += 1) {
    const erases = random(4) === 0 && strokes.length > 0;
    document.querySelector(`input[value=${erases ? "eraser" : "pen"}]`).checked = true;
    document.getElementById("colour").value = "#" + (0x1000000 + random(0x1000000)).toString(16).slice(1);
    document.getElementById("width").value = 1 + random(20);
    const at = erases ? strokes[random(strokes.length)].slice(4, 6) : [random(800), random(600)];
    event("pointerdown", ...at);
    for (let move = 0; move < 5 && !erases; move += 1) event("pointermove", random(800), random(600));
    event("pointerup", ...at);
    await new Promise((go) => setTimeout(go, random(20)));
  }
  return strokes.length;
})(SEED, COUNT)
"""


class Browser:
    """A headless Chromium with one page, spoken to by its DevTools protocol."""

    def __init__(self, program: str, address: str, directory: Path) -> None:
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=900,800"]
        options += ["--remote-debugging-port=0", f"--user-data-dir={directory}", "--no-first-run"]
        options += ["--disable-breakpad", "--disable-crash-reporter"]
        self._directory = directory
        directory.mkdir()
        self.process = subprocess.Popen(
            [program, *options, address],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "TMPDIR": str(directory)},
        )
        try:
            self._open(address)
        except BaseException:
            self.close()
            raise

    def _open(self, address: str) -> None:
        """Wait for the page, and connect to it."""
        directory = self._directory

        def listens() -> bool:
            if (code := self.process.poll()) is not None:
                sys.exit(f"the browser has ended with {code} before it listened")
            return port_file.exists() and port_file.read_text().count("\n") > 0

        port_file = directory / "DevToolsActivePort"
        until("the browser listens", listens)
        port = int(port_file.read_text().splitlines()[0])
        pages: list[Any] = []

        def has_page() -> bool:
            pages[:] = [page for page in self._pages(port) if page["url"].startswith(address)]
            return bool(pages)

        until("the browser shows the page", has_page)
        path = pages[0]["webSocketDebuggerUrl"].partition(f":{port}")[2]
        self._socket = socket.create_connection(("127.0.0.1", port), WITHIN)
        self._file = self._socket.makefile("rb")
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self._socket.sendall(f"{head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {'A' * 22}==\r\n\r\n".encode())
        while self._file.readline().strip():
            pass
        self._number = 0

    def ask(self, method: str, **parameters: object) -> Any:
        """Send a command; its result comes with ``result``."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        self._socket.sendall(frame(TEXT, json.dumps(message).encode(), b"\1\2\3\4"))
        return self._number

    def result(self, number: int) -> Any:
        """What a command has come to."""
        while True:
            got = read_frame(self._file, masked=False, length_max=1 << 28)
            assert got is not None, "the browser has gone"
            message = json.loads(got[1])
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]

    def run(self, script: str) -> Any:
        """The value of a script in the page."""
        result = self.result(self.ask("Runtime.evaluate", expression=script, returnByValue=True))
        return result["result"].get("value")

    def picture(self) -> bytes:
        """A PNG of the canvas as it is on the screen."""
        script = "(({x, y, width, height}) => ({x, y, width, height}))(board.getBoundingClientRect())"
        clip = {**self.run(script), "scale": 1}
        return base64.b64decode(self.result(self.ask("Page.captureScreenshot", format="png", clip=clip))["data"])

    def close(self) -> None:
        """End it: a browser is many processes, of which some leave its process group."""

        def all_gone() -> bool:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.poll()
            found = processes_with(str(self._directory))
            for one in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)
            return self.process.returncode is not None and not found

        until("the browser is gone", all_gone)

    def _pages(self, port: int) -> list[Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN)
        connection.request("GET", "/json/list")
        pages: list[Any] = json.loads(connection.getresponse().read())
        connection.close()
        return pages


def processes_with(word: str) -> list[int]:
    """The processes, but those that have ended, whose command line holds a word."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word.encode() in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return found


def until(what: str, holds: Any) -> None:
    """Wait until it holds."""
    end = time.monotonic() + WITHIN
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {WITHIN} s: {what}")
        time.sleep(0.05)


def program(name: str, hint: str) -> str:
    """Where a program is; without it there is nothing to do."""
    path = shutil.which(name)
    if path is None:
        sys.exit(f"there is no program {name}: {hint}")
    return path


@contextlib.contextmanager
def whiteboards(directory: Path) -> Iterator[list[str]]:
    """Two daemons and a whiteboard's program at each; where the pages are."""
    groupcast = program(os.environ.get("GROUPCAST") or "groupcast", "set GROUPCAST to its path")
    with contextlib.ExitStack() as ports:
        found = [ports.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) for _ in range(3)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        first, second, group = (one.getsockname()[1] for one in found)
    multicast = f"239.192.79.77:{group}"
    running: list[subprocess.Popen[str]] = []
    pages = []
    try:
        for number, listen in enumerate((f"127.0.0.1:{first}", f"127.0.0.1:{second}")):
            bus = directory / f"h{number}.bus"
            command = [groupcast, "daemon", "--insecure", "--name", f"h{number}", "--listen", listen]
            command += [
                "--multicast",
                multicast,
                "--socket",
                str(directory / f"h{number}.sock"),
                "--bus",
                f"unix:{bus}",
            ]
            running.append(subprocess.Popen(command, stderr=subprocess.DEVNULL, text=True))
            until("the daemon listens", bus.exists)
            command = [sys.executable, str(HERE / "whiteboard.py"), f"unix:{bus}", "board.d", f"u{number}"]
            environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
            board = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
            running.append(board)
            assert board.stdout is not None
            while not (line := board.stdout.readline()).startswith("http://"):
                assert line, "the whiteboard's program has ended"
            pages.append(line.strip())
        yield pages
    finally:
        for process in reversed(running):
            process.kill()
            process.wait()


def play(chromium: str, directory: Path, seed: int) -> None:
    """Draw in two browsers at once, and compare their pictures."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, whiteboards(Path(scratch)) as addresses:
        browsers = []
        try:
            for number, address in enumerate(addresses):
                browsers.append(Browser(chromium, address, Path(scratch) / f"browser{number}"))
            for browser in browsers:
                until("the page is ready", lambda browser=browser: browser.run("state.textContent") == "ready")
            together = r"/^view .*: [^,]+, [^,]+$/m.test(told.textContent)"
            until("they know each other", lambda: all(browser.run(together) for browser in browsers))
            asked = []
            for number, browser in enumerate(browsers):
                script = PLAY.replace("SEED", str(7919 * seed + number + 1)).replace("COUNT", "100")
                asked.append(browser.ask("Runtime.evaluate", expression=script, awaitPromise=True))
            for browser, number in zip(browsers, asked, strict=True):
                browser.result(number)
            # Each ends with a stroke of its own, behind all that it drew.
            for number, browser in enumerate(browsers):
                browser.run(f"send(['stroke', 'end{number}', '#000000', 3, 5, 5, 50, {20 + 20 * number}])")
            has_both = "strokes.filter(([, id]) => id.startsWith('end')).length === 2"
            until("all has come", lambda: all(browser.run(has_both) for browser in browsers))
            pictures = [browser.picture() for browser in browsers]
            count = browsers[0].run("strokes.length")
        finally:
            for browser in browsers:
                browser.close()
    for number, picture in enumerate(pictures):
        (directory / f"picture-{seed}-{number}.png").write_bytes(picture)
    if pictures[0] != pictures[1]:
        sys.exit(f"run {seed}: the pictures differ; they are in {directory}")
    print(f"run {seed}: equal, {count} strokes are left of 202 drawn or erased", flush=True)


def main() -> None:
    """Play so many times."""
    if not 3 <= len(sys.argv) <= 4:
        sys.exit("usage: browsers.py CHROMIUM DIRECTORY [TIMES]")
    name, directory, *times = sys.argv[1:]
    chromium = program(name, "install Debian's package `chromium`, or name another Chromium")
    # So that what was started is ended.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    Path(directory).mkdir(parents=True, exist_ok=True)
    for seed in range(1, 1 + int(times[0] if times else 1)):
        play(chromium, Path(directory), seed)


if __name__ == "__main__":
    main()
