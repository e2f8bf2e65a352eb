//! The functions of the header for a connection.
#![allow(unsafe_code, reason = "the names of the functions are exported")]

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use crate::abi::{
    BusHandle, Bytes, Data, Item, ListHandle, MessageHandle, Out, Report, SyntaxCode, Text, Texts,
    duration, run,
};
use crate::api_list;
use crate::builder::Builder;
use crate::bus::Bus;
use crate::error::{Code, Error};
use crate::handles::{self, Object, lock};
use crate::list::{Kind, List};
use crate::words::{self, quoted};

/// Connects to the bus of a daemon.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_connect(
    address: Text,
    timeout_ms: c_int,
    bus: Out<BusHandle>,
    error: Out<Report>,
) -> Code {
    run(error, || {
        let bus = bus.need("the place for the connection")?;
        let connected = Bus::connect(&address.get("the address")?, duration(timeout_ms))?;
        let stop = connected.stop();
        let object = Object::Bus(Arc::new(Mutex::new(connected)), stop);
        bus.set(BusHandle(handles::add(object)));
        Ok(())
    })
}

/// Connects anew, and says again what was set.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_reconnect(bus: BusHandle, timeout_ms: c_int, error: Out<Report>) -> Code {
    run(error, || {
        lock(&*handles::bus(bus.0)?).reconnect(duration(timeout_ms))
    })
}

/// Leaves, and frees the handle in any case.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_close(bus: BusHandle, timeout_ms: c_int, error: Out<Report>) -> Code {
    run(error, || {
        let (object, stop) = handles::bus_to_close(bus.0)?;
        stop.set();
        let left = lock(&object).quit(duration(timeout_ms));
        handles::remove(bus.0, "connection", |it| matches!(it, Object::Bus(..)))?;
        left
    })
}

/// The file descriptor to poll.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_fd(bus: BusHandle, fd: Out<c_int>, error: Out<Report>) -> Code {
    run(error, || {
        let fd = fd.need("the place for the descriptor")?;
        fd.set(-1);
        let none = || Error::new(Code::Connection, "there is no connection");
        fd.set(lock(&*handles::bus(bus.0)?).fd().ok_or_else(none)?);
        Ok(())
    })
}

/// The private name.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_name(bus: BusHandle, name: Out<Bytes>, error: Out<Report>) -> Code {
    run(error, || {
        let name = name.need("the place for the name")?;
        name.set(Bytes::of(lock(&*handles::bus(bus.0)?).name()));
        Ok(())
    })
}

/// How long commands wait for their replies.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_set_timeout(bus: BusHandle, timeout_ms: c_int, error: Out<Report>) -> Code {
    run(error, || {
        lock(&*handles::bus(bus.0)?).set_reply_within(duration(timeout_ms));
        Ok(())
    })
}

/// Any command but messages and the end.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_command(
    bus: BusHandle,
    line: Text,
    reply: Out<ListHandle>,
    error: Out<Report>,
) -> Code {
    run(error, || {
        reply.set(ListHandle::default());
        let said = lock(&*handles::bus(bus.0)?).say(&line.get("the command")?)?;
        let mut list = Builder::open()?;
        for line in &said {
            list.put(&groupcast_lmbl::Token::Open)?;
            words_into(&mut list, line)?;
            list.put(&groupcast_lmbl::Token::Close)?;
        }
        give(list, reply)
    })
}

/// Takes the messages to a domain.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_accept(bus: BusHandle, tag: Text, domain: Text, error: Out<Report>) -> Code {
    run(error, || about(bus, "accept", tag, domain).map(|_| ()))
}

/// Takes the messages to a domain, in an order of its own.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_accept_ring(
    bus: BusHandle,
    tag: Text,
    domain: Text,
    error: Out<Report>,
) -> Code {
    run(error, || {
        let (tag, domain) = (tag.get("the tag")?, domain.get("the domain")?);
        let line = format!("accept {} {} ring", quoted(&tag), quoted(&domain));
        lock(&*handles::bus(bus.0)?).say(&line).map(|_| ())
    })
}

/// Takes an `accept` back.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_reject(bus: BusHandle, tag: Text, domain: Text, error: Out<Report>) -> Code {
    run(error, || about(bus, "reject", tag, domain).map(|_| ()))
}

/// Gives the client a name.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_id(bus: BusHandle, name: Text, error: Out<Report>) -> Code {
    run(error, || {
        let line = format!("id {}", quoted(&name.get("the name")?));
        lock(&*handles::bus(bus.0)?).say(&line).map(|_| ())
    })
}

/// Who would get a message.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_ping(
    bus: BusHandle,
    tag: Text,
    domain: Text,
    names: Out<ListHandle>,
    error: Out<Report>,
) -> Code {
    run(error, || {
        let names = names.need("the place for the names")?;
        let reply = about(bus, "ping", tag, domain)?;
        let mut list = Builder::open()?;
        words_into(&mut list, reply.first().map_or("", String::as_str))?;
        give(list, names)
    })
}

/// Sends a list.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_send(
    bus: BusHandle,
    tag: Text,
    domain: Text,
    item: Item,
    error: Out<Report>,
) -> Code {
    run(error, || {
        let object = handles::bus(bus.0)?;
        let (tag, domain) = (tag.get("the tag")?, domain.get("the domain")?);
        let mut bus = lock(&object);
        let (list, place) = api_list::place(item)?;
        if list.kind(place)? != Kind::List {
            return Err(Error::kind("a message is a list, and this item is none"));
        }
        let syntax = bus.syntax();
        bus.send(&tag, &[domain], syntax, &list.write(place, syntax)?)
    })
}

/// Sends bytes to several domains.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_send_data(
    bus: BusHandle,
    tag: Text,
    domains: Texts,
    count: usize,
    syntax: c_int,
    data: Data,
    len: usize,
    error: Out<Report>,
) -> Code {
    run(error, || {
        let object = handles::bus(bus.0)?;
        let tag = tag.get("the tag")?;
        let domains = domains.get(count, "a domain")?;
        let missing = || Error::argument("say whether the message is sexp, cstream or raw");
        let syntax = SyntaxCode::meant(syntax)?.ok_or_else(missing)?;
        let data = data.get(len, "the message")?;
        lock(&object).send(&tag, &domains, syntax, &data)
    })
}

/// The next message or view.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_receive(
    bus: BusHandle,
    timeout_ms: c_int,
    message: Out<MessageHandle>,
    error: Out<Report>,
) -> Code {
    run(error, || {
        let message = message.need("the place for the message")?;
        let received = lock(&*handles::bus(bus.0)?).receive(duration(timeout_ms))?;
        message.set(MessageHandle(handles::add(Object::Message(
            received.into(),
        ))));
        Ok(())
    })
}

/// A command about a tag and a domain.
fn about(bus: BusHandle, name: &str, tag: Text, domain: Text) -> Result<Vec<String>, Error> {
    let object = handles::bus(bus.0)?;
    let (tag, domain) = (tag.get("the tag")?, domain.get("the domain")?);
    let line = format!("{name} {} {}", quoted(&tag), quoted(&domain));
    lock(&object).say(&line)
}

/// Appends the words of a line as strings; the line itself where it is no row of words.
fn words_into(list: &mut Builder, line: &str) -> Result<(), Error> {
    let line = line.strip_prefix(' ').unwrap_or(line);
    let Some(words) = words::read(line) else {
        return list.atom(Kind::String, line.as_bytes());
    };
    let mut words = words.iter();
    words.try_for_each(|word| list.atom(Kind::String, word.as_bytes()))
}

/// Ends the list, and gives the caller its handle.
fn give(mut list: Builder, place: Out<ListHandle>) -> Result<(), Error> {
    list.put(&groupcast_lmbl::Token::Close)?;
    place.give_list(list.finish()?);
    Ok(())
}

impl Out<ListHandle> {
    /// Keeps `list`, if the caller wants it.
    pub(crate) fn give_list(self, list: List) {
        if !self.is_null() {
            self.set(ListHandle(handles::add(Object::List(Arc::new(list)))));
        }
    }
}
