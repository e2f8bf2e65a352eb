"""Copies over a network that is cut and joined, in any order that the bus may deliver in."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pytest
from groupcast_bus import Message, View

from replica import Replica


class Words:
    """What is shared: words, in the order in which they were added."""

    def __init__(self) -> None:
        self.words: list[Any] = []

    def apply(self, edit: list[Any]) -> None:
        self.words += edit

    def dump(self) -> list[Any]:
        return list(self.words)

    def load(self, items: list[Any]) -> None:
        self.words = list(items)


class Network:
    """Each part of the network has an order of messages and views; everybody takes them when it likes."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.parts: list[set[str]] = [set()]
        self.replicas: dict[str, Replica] = {}
        self.waiting: dict[str, deque[Message | View]] = {}
        self.silent: set[str] = set()

    def join(self, name: str, silent: bool = False) -> None:
        part = self.random.choice(self.parts)
        part.add(name)
        self.waiting[name] = deque()
        if silent:
            self.silent.add(name)
        else:
            self.replicas[name] = Replica(name, f"nick of {name}", Words())
        self._view(part, "regular", "join", name)

    def leave(self, name: str) -> None:
        part = self._part(name)
        part.remove(name)
        self.silent.discard(name)
        self.replicas.pop(name, None)
        del self.waiting[name]
        self._view(part, "regular", "leave", name)

    def split(self) -> None:
        """Cut one part in two, or join two."""
        if len(self.parts) > 1 and self.random.random() < 0.5:
            one, two = self.random.sample(range(len(self.parts)), 2)
            for index in (one, two):
                self._view(self.parts[index], "transitional", "network", "")
            joined = self.parts[one] | self.parts[two]
            self.parts = [part for index, part in enumerate(self.parts) if index not in (one, two)] + [joined]
            self._view(joined, "regular", "network", "")
        else:
            whole = self.parts.pop(self.random.randrange(len(self.parts)))
            side = {name for name in sorted(whole) if self.random.random() < 0.5}
            for part in (side, whole - side):
                self._view(part, "transitional", "network", "")
                self._view(part, "regular", "network", "")
                self.parts.append(part)

    def heal(self) -> None:
        while len(self.parts) > 1:
            self.split()

    def send(self, name: str, tag: str, value: list[Any]) -> None:
        for other in sorted(self._part(name)):
            self.waiting[other].append(Message(tag, ("d",), b"", value, "sexp", name))

    def step(self) -> bool:
        """Somebody takes what is next for it; whether there was something."""
        names = [name for name, events in self.waiting.items() if events]
        if not names:
            return False
        name = self.random.choice(names)
        event = self.waiting[name].popleft()
        if (replica := self.replicas.get(name)) is not None:
            replica.handle(event)
            self.flush(name)
        return True

    def flush(self, name: str) -> None:
        replica = self.replicas[name]
        while replica.to_send:
            self.send(name, *replica.to_send.popleft())

    def settle(self) -> None:
        """Everybody takes everything, and those that wait for a copy lose patience."""
        while True:
            while self.step():
                pass
            unsettled = [name for name, replica in self.replicas.items() if not replica.is_settled]
            if not unsettled:
                return
            for name in unsettled:
                self.replicas[name].decide()
                self.flush(name)

    def _part(self, name: str) -> set[str]:
        return next(part for part in self.parts if name in part)

    def _view(self, part: set[str], kind: str, cause: str, who: str) -> None:
        for name in sorted(part):
            self.waiting[name].append(View("d", kind, cause, who, tuple(sorted(part))))


def words(replica: Replica) -> list[Any]:
    return replica.shared.dump()


@pytest.mark.parametrize("seed", range(100))
def test_copies_are_equal_once_the_network_is_whole(seed: int) -> None:
    network = Network(seed)
    pick = network.random
    for number in range(400):
        chance = pick.random()
        names = sorted(network.replicas)
        if chance < 0.02 and len(network.waiting) < 8:
            network.join(f"c{number}", silent=pick.random() < 0.2)
        elif chance < 0.03 and names:
            network.leave(pick.choice(names))
        elif chance < 0.05:
            network.split()
        elif chance < 0.06 and names:
            name = pick.choice(names)
            network.replicas[name].decide()
            network.flush(name)
        elif chance < 0.3 and names:
            name = pick.choice(names)
            network.send(name, "edit", [f"{name}/{number}"])
        else:
            network.step()
    network.join("last")
    network.heal()
    network.settle()
    copies = [words(replica) for replica in network.replicas.values()]
    assert all(copy == copies[0] for copy in copies)
    assert len({replica.edits for replica in network.replicas.values()}) == 1
    # And they stay so.
    network.send("last", "edit", ["after"])
    network.settle()
    assert all(words(replica) == [*copies[0], "after"] for replica in network.replicas.values())


def test_a_newcomer_gets_the_copy_and_what_comes_after_it() -> None:
    network = Network(1)
    network.join("al")
    network.settle()
    network.send("al", "edit", ["one"])
    network.settle()
    network.join("bo")
    network.send("al", "edit", ["two"])
    network.settle()
    assert words(network.replicas["bo"]) == ["one", "two"]
    assert network.replicas["bo"].edits == 2
    assert network.replicas["bo"].superseded is None


def test_after_a_cut_the_copy_with_more_edits_is_taken_over_and_the_user_is_told() -> None:
    network = Network(2)
    for name in ("al", "bo"):
        network.join(name)
    network.settle()
    network.parts = [{"al"}, {"bo"}]
    for part in network.parts:
        network._view(part, "transitional", "network", "")
        network._view(part, "regular", "network", "")
    network.send("al", "edit", ["of al"])
    for word in ("of bo", "too"):
        network.send("bo", "edit", [word])
    network.settle()
    network.heal()
    network.settle()
    al, bo = network.replicas["al"], network.replicas["bo"]
    assert words(al) == words(bo) == ["of bo", "too"]
    assert (al.superseded, bo.superseded) == (["of al"], None)
    told = list(al.notes)
    assert "view (the network has changed): nick of al; without nick of bo" in told
    assert told[-1] == "the copy of nick of bo is taken over (2 edits); yours had 1"


def test_who_says_nothing_is_left_out_after_a_while() -> None:
    network = Network(3)
    network.join("listener", silent=True)
    network.join("al")
    while network.step():
        pass
    assert not network.replicas["al"].is_settled
    network.settle()
    network.send("al", "edit", ["one"])
    network.settle()
    assert words(network.replicas["al"]) == ["one"]


def test_what_is_no_message_of_ours_does_nothing() -> None:
    replica = Replica("al", "al", Words())
    replica.handle(View("d", "regular", "join", "bo", ("al", "bo")))
    for tag in ("have", "copy", "decide", "other"):
        values: list[list[Any]] = [
            [],
            [1],
            ["x", 1, []],
            [replica._round, "x", 5],
            [replica._round, [], "x"],
            [[], [], []],
        ]
        for value in values:
            for sender in ("bo", "stranger"):
                replica.handle(Message(tag, ("d",), b"", value, "sexp", sender))
    assert not replica.is_settled
    assert replica.nicks == {}
