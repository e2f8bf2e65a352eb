// A client of groupcast's message bus for Node, over a plain socket (docs/bus.md). Lists travel as CSTREAMs, which need
// no parsing but of lengths. A list is an array, an integer a BigInt, a float a number, a string a string, bytes a
// Buffer; the other kinds of items have classes below.

import net from "node:net";

export class Sym {
  constructor(name) {
    this.name = name;
  }
}

export class Character {
  constructor(name) {
    this.name = name;
  }
}

export class Quoted {
  constructor(mark, item) {
    this.mark = mark;
    this.item = item;
  }
}

export class Dotted {
  constructor(items, tail) {
    this.items = items;
    this.tail = tail;
  }
}

export class BusError extends Error {
  constructor(code, column, text) {
    super(`${code} (column ${column}): ${text}`);
    this.code = code;
    this.column = column;
  }
}

export class Bus {
  #socket;
  #input = Buffer.alloc(0);
  // What came behind `#input`, and how many bytes of the message that is coming are still missing.
  #pieces = [];
  #missing = 0;
  #events = [];
  #receivers = [];
  #commands = [];
  #lines = null;
  #end = null;
  #messageMax = Infinity;

  // A connection to the bus at IP:PORT or unix:PATH.
  static async connect(address) {
    const bus = new Bus();
    const colon = address.lastIndexOf(":");
    bus.#socket = address.startsWith("unix:")
      ? net.connect(address.slice(5))
      : net.connect({ host: address.slice(0, colon), port: Number(address.slice(colon + 1)), noDelay: true });
    const greeting = bus.#expect(false);
    bus.#socket.on("data", (data) => bus.#take(data));
    bus.#socket.on("error", (error) => bus.#ended(error));
    bus.#socket.on("close", () => bus.#ended(new Error("the connection ended without a word")));
    const [word, , name] = words(await greeting);
    if (word !== "bus") throw new Error("this is no bus");
    bus.name = name;
    const [, info] = await Promise.all([bus.command("syntax cstream"), bus.command("info")]);
    const max = info.find((it) => it.startsWith("message-max="));
    if (max) bus.#messageMax = Number(max.slice(12));
    return bus;
  }

  // Says a command of one line; the words behind `ok`, or the lines of its reply.
  async command(line) {
    if (/[\r\n]/.test(line)) throw new Error("a command is one line");
    this.#socket.write(line + "\n");
    return this.#answer(/^(clients|help)\b/.test(line));
  }

  // With `ring`, the domain and all below it have an order of their own.
  accept(tag, domain, { ring = false } = {}) {
    return this.command(`accept ${quote(tag)} ${quote(domain)}${ring ? " ring" : ""}`);
  }

  ping(tag, domain) {
    return this.command(`ping ${quote(tag)} ${quote(domain)}`);
  }

  // Sends a list, a text or bytes; done when it is accepted. The bus would end the connection at one that is too long.
  async send(tag, domain, message) {
    const isList = Array.isArray(message) || message instanceof Dotted;
    const data = isList ? dumps(message) : Buffer.from(message);
    if (data.length > this.#messageMax) {
      const text = `the message has ${data.length} bytes, at most ${this.#messageMax} are allowed: split it`;
      throw new BusError("too-long", 0, text);
    }
    const head = `msg ${quote(tag)} ${quote(domain)} ${isList ? "cstream" : "raw"} ${data.length}\n`;
    this.#socket.write(Buffer.concat([Buffer.from(head), data, Buffer.from("\n")]));
    return this.#answer(false);
  }

  // The next message: {tag, domains, syntax, data, value}; `value` is its list, or undefined. Views and gaps are {view: words}.
  receive() {
    if (this.#events.length) return Promise.resolve(this.#events.shift());
    if (this.#end) return Promise.reject(this.#end);
    return new Promise((done, failed) => this.#receivers.push({ done, failed }));
  }

  // Leaves, once all that was sent is carried out.
  close() {
    return new Promise((done) => {
      this.#socket.once("close", done);
      this.#socket.write("quit\n");
      this.#expect(false).catch(() => {});
    });
  }

  #expect(hasLines) {
    if (this.#end) return Promise.reject(this.#end);
    return new Promise((done, failed) => this.#commands.push({ hasLines, done, failed }));
  }

  async #answer(hasLines) {
    const reply = await this.#expect(hasLines);
    if (Array.isArray(reply)) return reply;
    const [word, ...rest] = reply.split(" ");
    if (word === "ok") return words(reply).slice(1);
    throw new BusError(rest[0], Number(rest[1]), rest.slice(2).join(" "));
  }

  #take(data) {
    this.#pieces.push(data);
    this.#missing -= data.length;
    if (this.#missing > 0) return;
    this.#input = Buffer.concat([this.#input, ...this.#pieces.splice(0)]);
    for (let end; (end = this.#input.indexOf(10)) >= 0; ) {
      const line = this.#input.toString("utf8", 0, end);
      let behind = end + 1;
      if (line.startsWith("msg ")) {
        const length = Number(line.slice(line.lastIndexOf(" ") + 1));
        behind += length + 1;
        this.#missing = behind - this.#input.length;
        if (this.#missing > 0) return;
        this.#event(message(line, Buffer.from(this.#input.subarray(end + 1, behind - 1))));
      } else if (/^(view|left|gap) /.test(line)) {
        this.#event({ view: words(line) });
      } else if (line.startsWith("closed ")) {
        this.#ended(new Error(line));
      } else if (!this.name || /^(ok|error)?( |$)/.test(line)) {
        // What a newer bus says of itself is for newer programs.
        this.#line(line);
      }
      this.#input = this.#input.subarray(behind);
    }
  }

  #line(line) {
    if (this.#lines) {
      this.#lines.rows.push(words(line));
      if (--this.#lines.missing === 0) {
        this.#commands.shift().done(this.#lines.rows);
        this.#lines = null;
      }
    } else if (this.#commands[0]?.hasLines && /^ok [1-9]/.test(line)) {
      this.#lines = { rows: [], missing: Number(line.slice(3)) };
    } else {
      this.#commands.shift()?.done(line);
    }
  }

  #event(event) {
    const receiver = this.#receivers.shift();
    if (receiver) receiver.done(event);
    else this.#events.push(event);
  }

  #ended(error) {
    this.#end ??= error;
    for (const waiting of [...this.#commands.splice(0), ...this.#receivers.splice(0)]) waiting.failed(this.#end);
  }
}

function message(line, data) {
  const [, tag, domains, ...options] = line.match(/(?:"(?:[^"\\]|\\.)*"|[^ "])+/g);
  const marks = options.slice(0, -1);
  const sender = marks.find((it) => it.startsWith("from="));
  const syntax = marks.find((it) => !it.startsWith("from=")) ?? "cstream";
  let value;
  if (syntax === "cstream") {
    try {
      value = loads(data);
    } catch {
      // Its sender, which was no client of the bus, said what is not so. This must not end the program.
    }
  }
  return {
    tag: unquote(tag),
    domains: domains.match(/"(?:[^"\\]|\\.)*"|[^,"]+/g).map(unquote),
    sender: sender && unquote(sender.slice(5)),
    syntax,
    data,
    value,
  };
}

// The words of a line, without their quotes.
export function words(line) {
  return (line.match(/"(?:[^"\\]|\\.)*"|[^ "]+/g) ?? []).map(unquote);
}

export function quote(word) {
  const escaped = word.replace(/["\\]/g, "\\$&");
  return `"${escaped.replace(/[\x00-\x1f\x7f]/g, (it) => "\\x" + it.charCodeAt(0).toString(16).padStart(2, "0"))}"`;
}

function unquote(word) {
  if (!word.startsWith('"')) return word;
  const escapes = { n: 10, r: 13, t: 9 };
  const bytes = Buffer.from(word.slice(1, -1));
  const out = [];
  for (let at = 0; at < bytes.length; at++) {
    if (bytes[at] !== 92) out.push(bytes[at]);
    else if (bytes[++at] === 120) {
      out.push(parseInt(bytes.toString("latin1", at + 1, at + 3), 16));
      at += 2;
    } else out.push(escapes[String.fromCharCode(bytes[at])] ?? bytes[at]);
  }
  return Buffer.from(out).toString();
}

// A list as a CSTREAM.
export function dumps(value) {
  const parts = [Buffer.from("cs")];
  const text = (kind, bytes) => {
    const data = Buffer.from(bytes);
    parts.push(Buffer.from(`${kind}${data.length}:`), data);
  };
  const mark = (byte) => parts.push(Buffer.from(byte));
  const put = (item) => {
    if (Array.isArray(item) || item instanceof Dotted) {
      mark("[");
      (Array.isArray(item) ? item : item.items).forEach(put);
      if (item instanceof Dotted) {
        mark(".");
        put(item.tail);
      }
      mark("]");
    } else if (item instanceof Quoted) {
      text("q", item.mark);
      put(item.item);
    } else if (item instanceof Sym) text("y", item.name);
    else if (item instanceof Character) text("c", item.name);
    else if (item instanceof Uint8Array) text("b", item);
    else if (typeof item === "string") text("s", item);
    else if (typeof item === "bigint") text("i", item.toString());
    else if (Number.isFinite(item)) text("f", /[.e]/.test(`${item}`) ? `${item}` : `${item}.0`);
    else throw new TypeError(`${item} is no item of a list`);
  };
  put(value);
  return Buffer.concat(parts);
}

// The list that a CSTREAM is.
export function loads(data) {
  let at = 2;
  const wrong = () => new Error(`this is no CSTREAM: byte ${at}`);
  const text = () => {
    const colon = data.indexOf(":", at);
    const length = Number(data.toString("latin1", at, colon));
    at = colon + 1 + length;
    if (colon < 0 || !(at <= data.length)) throw wrong();
    return data.subarray(colon + 1, at);
  };
  const list = () => {
    const items = [];
    while (data[at] !== 0x5d) {
      if (data[at] === 0x2e) {
        at++;
        const tail = item();
        if (data[at++] !== 0x5d) throw wrong();
        return new Dotted(items, tail);
      }
      items.push(item());
    }
    at++;
    return items;
  };
  const item = () => {
    const kind = String.fromCharCode(data[at++]);
    switch (kind) {
      case "[":
        return list();
      case "q":
        return new Quoted(text().toString(), item());
      case "y":
        return new Sym(text().toString());
      case "c":
        return new Character(text().toString());
      case "s":
        return text().toString();
      case "b":
        return Buffer.from(text());
      case "i":
        return integer(text().toString());
      case "f":
        return Number(text().toString().replace(/[sdfl]/i, "e"));
      default:
        throw wrong();
    }
  };
  if (data.toString("latin1", 0, 3) !== "cs[") throw wrong();
  const value = item();
  if (at !== data.length) throw wrong();
  return value;
}

function integer(text) {
  const digits = BigInt(text.replace(/^[+-]|\.$/g, ""));
  return text.startsWith("-") ? -digits : digits;
}
