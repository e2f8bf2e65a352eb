"""Two clients at the buses of two daemons, whose addresses are the arguments: each kind of item there and back."""

import errno
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable

import groupcast_bus
from groupcast_bus import (
    Bus,
    BusError,
    Character,
    Closed,
    Dotted,
    Full,
    Left,
    Message,
    Quoted,
    Symbol,
    TraceEnded,
    View,
    dumps,
    loads,
)

EVERYTHING = [
    Symbol("plus"),
    [Symbol("|odd ) one|"), Symbol(":key"), Symbol("pkg:sym"), []],
    -12345678901234567890123,
    2.5,
    'a "quoted" \\ text\nin lines',
    b"\x00\xff\n",
    Character("Space"),
    Character("("),
    Quoted("'", Symbol("x")),
    Quoted("#", [1, 2]),
    Quoted(",", Symbol("@x")),
    Dotted((1, 2), Symbol("end")),
]


def full() -> None:
    """A bus that sends without an end before it replies, and words that a plain split takes apart."""
    groupcast_bus.KEPT_MAX = 1 << 20
    listener = socket.create_server(("127.0.0.1", 0))

    def play() -> None:
        with listener.accept()[0] as peer, peer.makefile("rb") as lines:
            peer.sendall(b"bus 1 c1@h1\n")
            assert lines.readline() == b"tracefile a_1\n"
            peer.sendall(b'left "a b" forbidden the rules say "no"\nok\ntrace-ended a_1 the disk is full\n')
            assert lines.readline() == b"tracefile off\n"
            peer.sendall(b"ok\n")
            assert lines.readline() == b"views on\n"
            for _ in range(20):
                peer.sendall(b"msg t d raw 100000\n%b\n" % bytes(100000))
            peer.sendall(b"ok\n")
            assert lines.readline() == b"info\n"
            peer.sendall(b'ok name=c1@h1 id="a \\"b" from=on x=\n')
            assert lines.readline() == b"quit\n"
            peer.sendall(b"ok\nclosed bye good-bye\n")

    player = threading.Thread(target=play)
    player.start()
    host, port = listener.getsockname()
    with Bus(f"{host}:{port}", timeout=10) as bus:
        bus.trace("a_1")
        bus.trace(None)
        assert bus.receive() == Left("a b", "forbidden", 'the rules say "no"')
        assert bus.receive() == TraceEnded("a_1", "the disk is full")
        for _ in range(2):
            try:
                bus.views(True)
            except Full:
                assert 1 << 20 < bus._kept < 2 << 20
            else:
                raise AssertionError("it is not full")
        for _ in range(20):
            bus.receive(10)
        assert bus._kept == 0
        assert bus.info() == {"name": "c1@h1", "id": 'a "b', "from": "on", "x": ""}
    player.join()
    listener.close()
    groupcast_bus.KEPT_MAX = 64 << 20


def slow() -> None:
    """A bus that answers late, and takes a long message only when its client reads."""
    length = 8 << 20
    listener = socket.create_server(("127.0.0.1", 0))

    def play() -> None:
        with listener.accept()[0] as peer, peer.makefile("rb") as lines:
            peer.sendall(b"bus 1 c1@h1\n")
            assert lines.readline() == b"info\n"
            time.sleep(0.5)
            peer.sendall(b"ok name=late\n")
            assert lines.readline() == b"clients\n"
            peer.sendall(b'ok 1\n c1@h1 ""\n')
            assert lines.readline() == b"info\n"
            peer.sendall(b"ok message-max=67108864\n")
            assert lines.readline().startswith(b"msg t d raw")
            peer.sendall(b"msg t d raw %d\n%b\n" % (length, bytes(length)))
            assert len(lines.read(length + 1)) == length + 1
            peer.sendall(b"ok\n")
            assert lines.readline() == b"quit\n"
            peer.sendall(b"ok\nclosed bye good-bye\n")

    player = threading.Thread(target=play)
    player.start()
    host, port = listener.getsockname()
    with Bus(f"{host}:{port}", timeout=0.2) as bus:
        try:
            bus.info()
        except TimeoutError:
            pass
        else:
            raise AssertionError("it answered in time")
        time.sleep(0.5)
        bus._timeout = 10
        assert bus.clients() == [["c1@h1", ""]]
        bus.send("t", "d", bytes(length))
        message = bus.receive(10)
        assert isinstance(message, Message)
        assert len(message.data) == length
    player.join()
    listener.close()


def interrupted() -> None:
    """Calls that a signal interrupts: no reply is taken for another one's, and no word stands within a message."""
    length = 64 << 20
    caller = threading.get_ident()
    listener = socket.create_server(("127.0.0.1", 0))
    heard: list[bytes] = []

    def play() -> None:
        with listener.accept()[0] as peer, peer.makefile("rb") as lines:
            peer.sendall(b"bus 1 c1@h1\n")
            heard.append(lines.readline())
            time.sleep(0.2)
            signal.pthread_kill(caller, signal.SIGALRM)
            time.sleep(0.2)
            peer.sendall(b"ok name=late\n")
            heard.append(lines.readline())
            peer.sendall(b'ok 1\n c1@h1 ""\n')
            heard.append(lines.readline())
            peer.sendall(b"ok message-max=67108864\n")
            heard.append(lines.readline())
            time.sleep(0.2)
            signal.pthread_kill(caller, signal.SIGALRM)
            time.sleep(0.2)
            heard.append(lines.read(length + 1).lstrip(b"\0"))
            heard.append(lines.readline())
            peer.sendall(b"ok\nok\nclosed bye good-bye\n")

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    player = threading.Thread(target=play)
    player.start()
    host, port = listener.getsockname()
    before = signal.signal(signal.SIGALRM, stop)
    bus = Bus(f"{host}:{port}", timeout=10)

    def interrupt(call: Callable[[], object]) -> None:
        try:
            call()
        except KeyboardInterrupt:
            return
        raise AssertionError("nothing interrupted it")

    interrupt(bus.info)
    assert bus.clients() == [["c1@h1", ""]]
    interrupt(lambda: bus.send("t", "d", bytes(length)))
    bus.close()
    signal.signal(signal.SIGALRM, before)
    player.join()
    listener.close()
    said = [b"info\n", b"clients\n", b"info\n", b"msg t d raw %d\n" % length, b"\n", b"quit\n"]
    assert heard == said, heard


class Broken(socket.socket):
    """A socket of which the system says that it carries nothing any more."""

    error = 0

    def recv(self, *_: object) -> bytes:
        raise OSError(self.error, os.strerror(self.error))


def gone() -> None:
    """A connection that the system has given up is closed, whatever the system says of it."""
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    for error in (errno.ECONNRESET, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN):

        def play() -> None:
            with listener.accept()[0] as peer, peer.makefile("rb") as lines:
                peer.sendall(b"bus 1 c1@h1\n")
                assert lines.readline() == b"info\n"

        player = threading.Thread(target=play)
        player.start()
        with Bus(f"{host}:{port}", timeout=10) as bus:
            broken = Broken(fileno=bus._socket.detach())
            broken.error = error
            broken.setblocking(False)
            bus._socket = broken
            try:
                bus.info()
            except Closed as closed:
                assert closed.code == "other" and os.strerror(error) in closed.text, closed
            else:
                raise AssertionError(os.strerror(error))
        player.join()
    listener.close()


def threads(address: str) -> None:
    """A second thread is told that it may not, and the first goes on; ``close`` ends what another one waits for."""
    bus = Bus(address, timeout=10)
    bus.accept("*", "threads")
    heard: list[object] = []

    def wait() -> None:
        try:
            while True:
                heard.append(bus.receive(10))
        except Closed as closed:
            heard.append(closed)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)
    for call in (bus.poll, bus.info, bus.clients, lambda: bus.send("t", "threads", "from a second thread")):
        try:
            call()
        except RuntimeError as error:
            assert "another thread" in str(error), error
        else:
            raise AssertionError("two threads were in calls")
    with Bus(address) as other:
        other.send("t", "threads", "goes on")
    began = time.monotonic()
    while not heard and time.monotonic() < began + 10:
        time.sleep(0.01)
    bus.close()
    waiting.join(10)
    assert len(heard) == 2 and isinstance(heard[0], Message) and heard[0].data == b"goes on", heard
    assert isinstance(heard[1], Closed) and heard[1].code == "bye", heard
    bus.close()


def mistakes(first: str, second: str) -> None:
    """What a user does wrongly: where there is no bus, to nobody, too long, and a word that is two lines."""
    for address, error, said in (
        ("unix:/nowhere/bus", FileNotFoundError, "unix:/nowhere/bus"),
        ("127.0.0.1:99999", ValueError, "no address of a bus"),
        (first.removesuffix(".bus") + ".sock", Closed, "is no bus, but where the daemon listens for other clients"),
    ):
        try:
            Bus(address)
        except error as raised:
            assert said in str(raised), raised
        else:
            raise AssertionError(f"{address} was a bus")
    mine, other = socket.socketpair()
    with mine, other:
        other.sendall(b"bus 1 c1@h1\nok\nok\nclosed bye good-bye\n")
        with Bus(f"fd:{mine.fileno()}", timeout=10) as bus:
            bus.views(True)
            assert bus.name == "c1@h1"
    with Bus(second) as bus:
        bus.close()
    for late in (bus.poll, bus.info, lambda: bus.send("t", "d", "late")):
        try:
            late()
        except Closed as closed:
            assert closed.code == "bye" and "this program has closed" in closed.text, closed
        else:
            raise AssertionError("it goes on behind its end")
    with Bus(second) as bus:
        try:
            bus.send("t", [], "5")
        except ValueError as raised:
            assert "one domain at least" in str(raised), raised
        else:
            raise AssertionError("it went to nobody")
        try:
            bus.service("safe\nquit")
        except BusError as raised:
            assert raised.code == "usage", raised
        else:
            raise AssertionError("two commands are a service")
        # It is an error of its call, and the connection goes on.
        most = int(bus.info()["message-max"])
        try:
            bus.send("t", "d", bytes(most + 1))
        except BusError as raised:
            assert raised.code == "too-long" and str(most) in raised.text, raised
        else:
            raise AssertionError("it was taken")
        bus.send("t", "d", "behind it")


def main() -> None:
    for value in (EVERYTHING, [], Dotted((Symbol("a"),), [1])):
        assert loads(dumps(value)) == value, value
    for wrong in (Symbol("a b"), Symbol(""), Symbol("12"), Symbol("a)"), Symbol(";x"), Character("a b"), float("nan")):
        try:
            dumps([wrong])
        except ValueError:
            continue
        raise AssertionError(f"{wrong!r} was written")
    for number in (10**5000, -(10**5000) + 1, 7**20000, 10**600, 10**599, 0, -1):
        assert loads(dumps([number])) == [number]
    assert dumps([10**5000])[1:-1] == b"1" + b"0" * 5000
    assert loads("(1. +2 -003)") == [1, 2, -3]
    # The time is that of one look at each byte.
    assert loads("(" + "#| #||# |#" * 100_000 + ")") == []
    assert loads(dumps([Symbol("\udcff"), "\udcff"])) == [Symbol("\udcff"), "\udcff"]
    for text in (
        "(a . b c)",
        "(. a b)",
        "(a . . b)",
        "(a . )",
        "(a) .",
        ". (a)",
        "(a ')",
        "(a) '",
        "(a ' . b)",
        "(a",
        "a)",
        "",
        "a",
        "3",
        '"a list"',
        "'(a)",
    ):
        try:
            read = loads(text)
        except ValueError:
            continue
        raise AssertionError(f"{text!r} was read as {read!r}")
    assert loads("('a . 'b)") == Dotted((Quoted("'", Symbol("a")),), Quoted("'", Symbol("b")))
    for wrong_item in (Quoted("x", 1), Quoted("#", 1), Dotted((), 1)):
        try:
            dumps([wrong_item])
        except ValueError:
            continue
        raise AssertionError(f"{wrong_item!r} was written")
    assert repr([Symbol("a"), "a", Character("a")]) == "[Symbol('a'), 'a', Character('a')]"
    itself: list[object] = []
    itself.append(itself)
    deep: object = []
    for level in range(1_000):
        if level == 999:
            assert dumps(deep) == b"(" * 1_000 + b")" * 1_000
        deep = [deep]
    quoted: object = 1
    for _ in range(1_000):
        quoted = Quoted("'", quoted)
    for endless in (itself, Dotted((1,), itself), deep, [quoted]):
        try:
            dumps(endless)
        except ValueError as error:
            assert "levels" in str(error), error
        else:
            raise AssertionError("it was written")
    full()
    slow()
    interrupted()
    gone()
    threads(sys.argv[1])
    mistakes(sys.argv[1], sys.argv[2])
    with Bus(sys.argv[1]) as al, Bus(sys.argv[2]) as bo:
        bo.sender(True)
        bo.views(True)
        bo.accept("draw|text", "*.d")
        view = bo.receive(10)
        assert isinstance(view, View) and view.members == (bo.name,), view
        al.identify("al.uiuc")
        assert al.ping("draw", "page.d") == [bo.name]
        al.send("draw", ["page.d", "other"], EVERYTHING)
        al.send("none", "page.d", "for nobody")
        al.send("text", "page.d", b"\x00 raw (\n")
        first, second = bo.receive(10), bo.receive(10)
        assert isinstance(first, Message) and isinstance(second, Message)
        assert first.value == EVERYTHING and first.domains == ("page.d", "other"), first
        assert first.sender == "al.uiuc", first
        assert (second.data, second.value, second.syntax) == (b"\x00 raw (\n", None, "raw"), second
        al.send("draw", "page.d", (10**5000, 1))
        long = bo.receive(10)
        assert isinstance(long, Message) and long.value == [10**5000, 1]
        for odd in (None, 5, {"a": 1}, 2.5):
            try:
                al.send("draw", "page.d", odd)  # type: ignore[arg-type]
            except TypeError as error:
                assert "a message is bytes, a text or a list" in str(error), error
            else:
                raise AssertionError(f"{odd!r} was sent")
        # A list of another syntax comes as an S-expression.
        al._command("syntax cstream")
        al._command("msg draw page.d cstream 17\ncs[y1:as1:b.y1:c]")
        third = bo.receive(10)
        assert isinstance(third, Message) and third.value == Dotted((Symbol("a"), "b"), Symbol("c")), third
        for timeout in (0.05, 0):
            try:
                bo.receive(timeout)
            except TimeoutError:
                pass
            else:
                raise AssertionError("nothing was sent")
        assert bo.poll() is None
        al.send("draw", "page.d", "for select")
        while (polled := bo.poll()) is None:
            assert select.select([bo], [], [], 60)[0]
        assert isinstance(polled, Message), polled
        assert polled.data == b"for select"
        try:
            bo.accept("(", "d")
        except BusError as error:
            assert (error.code, error.column) == ("pattern", 8), error
        else:
            raise AssertionError("no regular expression")
        # In the order of their private names, which count the connections before.
        assert {client[1] for client in bo.clients()} == {"al.uiuc", ""}


if __name__ == "__main__":
    main()
