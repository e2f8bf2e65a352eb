//! The functions of the header for what was received.
#![allow(unsafe_code, reason = "the names of the functions are exported")]

use crate::abi::{Bytes, ListHandle, MessageHandle, Out, Report, SyntaxCode, run};
use crate::error::{Code, Error};
use crate::handles::{self, Object};
use crate::message::{Event, Message};

/// What it is.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_message_event(
    message: MessageHandle,
    event: Out<Event>,
    error: Out<Report>,
) -> Code {
    run(error, || {
        let event = event.need("the place for the event")?;
        event.set(handles::message(message.0)?.event);
        Ok(())
    })
}

/// The tag of a delivery.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_message_tag(
    message: MessageHandle,
    tag: Out<Bytes>,
    error: Out<Report>,
) -> Code {
    run(error, || bytes(message, tag, Message::tag))
}

/// The sender of a delivery.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_message_sender(
    message: MessageHandle,
    sender: Out<Bytes>,
    error: Out<Report>,
) -> Code {
    run(error, || bytes(message, sender, Message::sender))
}

/// The bytes of a delivery.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_message_data(
    message: MessageHandle,
    data: Out<Bytes>,
    error: Out<Report>,
) -> Code {
    run(error, || bytes(message, data, Message::data))
}

/// How many domains or words there are.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_message_words(
    message: MessageHandle,
    count: Out<usize>,
    error: Out<Report>,
) -> Code {
    run(error, || {
        let count = count.need("the place for the count")?;
        count.set(handles::message(message.0)?.words());
        Ok(())
    })
}

/// A domain or word.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_message_word(
    message: MessageHandle,
    index: usize,
    word: Out<Bytes>,
    error: Out<Report>,
) -> Code {
    run(error, || bytes(message, word, |it| it.word(index)))
}

/// The syntax of a delivery.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_message_syntax(
    message: MessageHandle,
    syntax: Out<SyntaxCode>,
    error: Out<Report>,
) -> Code {
    run(error, || {
        let syntax = syntax.need("the place for the syntax")?;
        syntax.set(SyntaxCode::of(handles::message(message.0)?.syntax()?));
        Ok(())
    })
}

/// The list that a delivery is.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_message_list(
    message: MessageHandle,
    list: Out<ListHandle>,
    error: Out<Report>,
) -> Code {
    run(error, || {
        let list = list.need("the place for the list")?;
        list.give_list(handles::message(message.0)?.list()?);
        Ok(())
    })
}

/// Frees a message.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_message_free(message: MessageHandle, error: Out<Report>) -> Code {
    run(error, || {
        handles::remove(message.0, "message", |it| matches!(it, Object::Message(_)))
    })
}

/// Gives bytes of a message, which stay while its handle does.
fn bytes(
    message: MessageHandle,
    place: Out<Bytes>,
    of: impl FnOnce(&Message) -> Result<&[u8], Error>,
) -> Result<(), Error> {
    let place = place.need("the place for the text")?;
    let message = handles::message(message.0)?;
    place.set(Bytes::of(of(&message)?));
    Ok(())
}
