"""A copy of something shared at every member of a domain, which the agreed order keeps equal.

Every member applies the same edits in the same order to its own copy; nobody is the server. Two things need more than
that: a member that comes later has no copy, and after a cut of the network each side has gone on with its own. Both are
one case here. When a view adds somebody, all members say how many edits their copies have had (``have``), the one with
the most sends its copy (``copy``), and all take it over. Where several have had as many, it is the one whose private
name is the smallest. A member that says nothing, as it only listens, is left out when somebody has waited long enough
(``decide``): that too is a place in the order. Edits that are delivered between the view and the copy wait, and are
then made to that copy by all. So the copies are equal again, and what was edited on the other side of the cut is out of
the shared copy: it is kept as ``superseded``, and the user is told.

``Replica`` does no input or output: deliveries and views go in, and what is to be sent and to be told comes out.
``Member`` is a replica at a bus.
"""

from __future__ import annotations

import hashlib
import selectors
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from groupcast_bus import Bus, Closed, Event, Message, Symbol, View

#: Edits that may wait for a copy; it is the same at all members, and so is what is left out.
WAITING_MAX = 100_000
#: Seconds for which a member waits for a copy before it asks all to do without those that say nothing.
PATIENCE = 5.0
#: Lines for the user that are kept.
NOTES_MAX = 100


class Shared(Protocol):
    """What is shared. None of these may fail, whatever a stranger has sent, and all depend on what was given only."""

    def apply(self, edit: list[Any]) -> None:
        """Make an edit, if it can be made."""

    def dump(self) -> list[Any]:
        """All of it, as a list that can be sent."""

    def load(self, items: list[Any]) -> None:
        """Be what ``dump`` said."""


class Replica:
    """One member's copy."""

    def __init__(self, name: str, nick: str, shared: Shared) -> None:
        self.nick, self.shared = nick, shared
        #: The edits that the copy has had; less than 0 while there is none.
        self.edits = -1
        #: What is to be sent to the domain: tag and list.
        self.to_send: deque[tuple[str, list[Any]]] = deque()
        #: Lines for the user.
        self.notes: deque[str] = deque(maxlen=NOTES_MAX)
        #: What this copy was before another was taken over.
        self.superseded: list[Any] | None = None
        self.nicks: dict[str, str] = {}
        self._waiting: list[list[Any]] = []
        self.connected(name)

    def connected(self, name: str) -> None:
        """Begin with the private name ``name``, or go on with a new one after the connection was lost."""
        self.name = name
        self.members: set[str] = set()
        #: Those that have seen all that this one has.
        self._together: set[str] = set()
        self._round: str | None = None
        self._haves: dict[str, int] = {}
        self._copier: str | None = None
        self._apply_waiting()

    @property
    def is_settled(self) -> bool:
        """Whether there is a copy that is everybody's."""
        return bool(self.members) and self._round is None

    def handle(self, event: Event) -> None:
        """Take the next delivery or view."""
        if isinstance(event, View):
            self._view(event)
        elif isinstance(event, Message) and isinstance(event.value, list) and event.sender is not None:
            self._message(event.tag, event.value, event.sender)

    def decide(self) -> None:
        """Call it when there has been no copy for a while: those that say nothing are left out."""
        if self._round is not None:
            self.to_send.append(("decide", [self._round, self._copier or "", self.nick]))

    def _view(self, view: View) -> None:
        members = set(view.members)
        if view.kind == "transitional":
            self._together = self._together & members
            return
        new, gone = members - self._together, self.members - members
        self.members = self._together = members
        self._tell_view(view, gone)
        if new and members != {self.name}:
            self._begin(members)
        elif self._round is not None:
            self._haves = {name: edits for name, edits in self._haves.items() if name in members}
            if self._copier not in members:
                self._copier = None
            self._choose()
        elif self.edits < 0:
            self.edits = 0

    def _begin(self, members: set[str]) -> None:
        """All say what they have."""
        # What waited for a copy that did not come is made to the own one, as everybody does.
        self._apply_waiting()
        self._haves, self._copier = {}, None
        self._round = hashlib.sha256(" ".join(sorted(members)).encode()).hexdigest()[:16]
        self.to_send.append(("have", [self._round, self.edits, self.nick]))

    def _message(self, tag: str, value: list[Any], sender: str) -> None:
        if tag == "edit":
            if self._round is None:
                self._apply(value)
            elif len(self._waiting) < WAITING_MAX:
                self._waiting.append(value)
        elif self._round is None or sender not in self.members or len(value) != 3 or value[0] != self._round:
            return
        elif tag == "decide" and value[1] == (self._copier or ""):
            self._haves.pop(self._copier or "", None)
            self._copier = None
            self._choose(of_all=False)
        elif tag == "have" and isinstance(value[1], int) and sender not in self._haves:
            self._haves[sender] = value[1]
            self.nicks[sender] = str(value[2])[:40]
            self._choose()
        elif (
            tag == "copy" and sender == self._copier and value[1] == self._haves[sender] and isinstance(value[2], list)
        ):
            self._take_over(value[1], value[2])

    def _apply_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        if self.edits >= 0:
            for edit in waiting:
                self._apply(edit)

    def _apply(self, edit: list[Any]) -> None:
        self.shared.apply(edit)
        self.edits += 1

    def _choose(self, of_all: bool = True) -> None:
        """Once all have said what they have: whose copy it will be. All see the same, and choose the same."""
        if self._copier is None and self._haves and (not of_all or set(self._haves) == self.members):
            self._copier = min(self._haves, key=lambda name: (-self._haves[name], name))
            if self._copier == self.name:
                self.to_send.append(("copy", [self._round, self.edits, self.shared.dump()]))

    def _take_over(self, edits: int, items: list[Any]) -> None:
        mine = self.shared.dump()
        if self.edits >= 0 and mine != items:
            self.superseded = mine
            whose = self.nicks.get(self._copier or "", "somebody")
            self.notes.append(f"the copy of {whose} is taken over ({edits} edits); yours had {self.edits}")
        self.shared.load(items)
        self.edits, self._round, self._copier = max(edits, 0), None, None
        self._apply_waiting()

    def _tell_view(self, view: View, gone: set[str]) -> None:
        def names(of: set[str]) -> str:
            return ", ".join(sorted(self.nicks.get(name, name) for name in of))

        why = "the network has changed" if view.cause == "network" else view.cause
        self.notes.append(f"view ({why}): {names(self.members)}" + (f"; without {names(gone)}" if gone else ""))
        self.nicks = {name: nick for name, nick in self.nicks.items() if name in self.members}


class Member:
    """A replica at a bus: it is connected again, at the next of the addresses, when the connection is lost."""

    def __init__(
        self, addresses: list[str], domain: str, nick: str, shared: Shared, told: Callable[[str], None] = print
    ) -> None:
        self._addresses, self._domain, self._told = deque(addresses), domain, told
        self.bus = self._connect()
        self.replica = Replica(self.bus.name, nick, shared)
        self._patient_until = time.monotonic() + PATIENCE

    def edit(self, edit: list[Any]) -> None:
        """Send an edit; it is made when it comes back in the order."""
        self._send("edit", edit)

    def step(self, timeout: float | None = None, others: Any = ()) -> list[Any]:
        """Take what has come, or wait for it or until one of ``others`` can be read; those that can."""
        changed = False
        while (event := self._poll()) is not None:
            changed = True
            self.replica.handle(event)
        if self.replica.is_settled:
            self._patient_until = time.monotonic() + PATIENCE
        elif time.monotonic() > self._patient_until:
            self._patient_until = time.monotonic() + PATIENCE
            self.replica.decide()
        while self.replica.to_send:
            changed = True
            self._send(*self.replica.to_send.popleft())
        while self.replica.notes:
            self._told(self.replica.notes.popleft())
        with selectors.DefaultSelector() as selector:
            for one in [self.bus, *others]:
                selector.register(one, selectors.EVENT_READ)
            if not self.replica.is_settled:
                timeout = PATIENCE if timeout is None else min(timeout, PATIENCE)
            ready = selector.select(0 if changed else timeout)
        return [key.fileobj for key, _ in ready if key.fileobj is not self.bus]

    def close(self) -> None:
        """Leave."""
        self.bus.close()

    def _connect(self) -> Bus:
        bus = Bus(self._addresses[0])
        bus.sender(True)
        bus.views(True)
        bus.accept("edit|have|decide|copy", self._domain)
        return bus

    def _poll(self) -> Event | None:
        try:
            return self.bus.poll()
        except Closed as closed:
            self._reconnect(str(closed))
            return None

    def _send(self, tag: str, items: list[Any]) -> None:
        try:
            self.bus.send(tag, self._domain, items)
        except Closed as closed:
            self._reconnect(f"{closed}; the last edit may be lost")

    def _reconnect(self, why: str) -> None:
        self._told(f"the connection is lost: {why}")
        for _ in range(len(self._addresses)):
            self._addresses.rotate(-1)
            try:
                self.bus = self._connect()
            except OSError:
                continue
            self.replica.connected(self.bus.name)
            self.replica.to_send.clear()
            return
        raise ConnectionError(f"no bus answers: {why}")


def text(item: Any) -> str | None:
    """The string that an item is, if it is one."""
    return item if isinstance(item, str) and not isinstance(item, Symbol) else None
