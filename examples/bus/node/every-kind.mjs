// Sends every kind of item, and gets it from each of COUNT programs: node every-kind.mjs ADDRESS COUNT

import assert from "node:assert/strict";
import { setTimeout } from "node:timers/promises";
import { Bus, Character, Dotted, Quoted, Sym } from "./groupcast-bus.mjs";

const EVERYTHING = [
  new Sym("plus"),
  [new Sym("|odd ) one|"), new Sym(":key"), []],
  -12345678901234567890123n,
  2.5,
  'a "quoted" \\ text\nin lines ü',
  Buffer.from([0, 255, 10]),
  new Character("a"),
  new Character("Space"),
  new Character("("),
  new Quoted("'", new Sym("x")),
  new Quoted("#", [1n, 2n]),
  new Dotted([1n, 2n], new Sym("end")),
];

const [address, count] = process.argv.slice(2);
const bus = await Bus.connect(address);
await bus.accept("*", "kinds", { ring: true });
while ((await bus.ping("*", "kinds")).length !== Number(count)) await setTimeout(50);
await bus.send("node", "kinds", EVERYTHING);
for (let got = 0; got < Number(count); got++) {
  const message = await bus.receive();
  assert.deepEqual(message.value, EVERYTHING, `from ${message.tag}: ${message.data}`);
  console.log(`equal ${message.tag}`);
}
await bus.close();
