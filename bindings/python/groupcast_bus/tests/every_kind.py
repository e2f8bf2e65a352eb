"""Sends every kind of item, and gets it from each of COUNT programs: every_kind.py ADDRESS COUNT."""

import sys
import time

from groupcast_bus import Bus, Character, Dotted, Message, Quoted, Symbol

EVERYTHING = [
    Symbol("plus"),
    [Symbol("|odd ) one|"), Symbol(":key"), []],
    -12345678901234567890123,
    2.5,
    'a "quoted" \\ text\nin lines ü',
    b"\x00\xff\n",
    Character("a"),
    Character("Space"),
    Character("("),
    Quoted("'", Symbol("x")),
    Quoted("#", [1, 2]),
    Dotted((1, 2), Symbol("end")),
]


def main() -> None:
    address, count = sys.argv[1], int(sys.argv[2])
    with Bus(address) as bus:
        bus.accept("*", "kinds", ring=True)
        while len(bus.ping("*", "kinds")) != count:
            time.sleep(0.05)
        bus.send("python", "kinds", EVERYTHING)
        for _ in range(count):
            message = bus.receive(30)
            assert isinstance(message, Message), message
            assert message.syntax == "sexp" and message.value == EVERYTHING, message
            print(f"equal {message.tag}")


if __name__ == "__main__":
    main()
