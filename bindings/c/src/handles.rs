//! Every object that the library has given out, by its handle.
//!
//! A handle is a number that counts up: none is given twice, so one that was freed is known for
//! that however long ago it was. An object that is freed while another thread uses it lives until
//! that call has ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::builder::Builder;
use crate::bus::Bus;
use crate::error::{Code, Error};
use crate::list::List;
use crate::message::Message;
use crate::socket::Stop;

/// Something that has a handle.
#[derive(Clone)]
pub(crate) enum Object {
    /// A connection, and what ends the waiting of the thread that has its lock.
    Bus(Arc<Mutex<Bus>>, Stop),
    Message(Arc<Message>),
    List(Arc<List>),
    Builder(Arc<Mutex<Builder>>),
}

/// All of them, and the handle that was given last.
struct Table {
    objects: BTreeMap<u64, Object>,
    last: u64,
}

static TABLE: Mutex<Table> = Mutex::new(Table {
    objects: BTreeMap::new(),
    last: 0,
});

/// Locks `mutex`. A panic ends the process, so nobody sees what one has left behind a poisoned
/// lock.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps `object`; its handle.
pub(crate) fn add(object: Object) -> u64 {
    let mut table = lock(&TABLE);
    table.last += 1;
    let handle = table.last;
    table.objects.insert(handle, object);
    handle
}

/// Forgets the object of `handle`, if it is of the kind that `is_kind` says.
pub(crate) fn remove(
    handle: u64,
    what: &str,
    is_kind: impl FnOnce(&Object) -> bool,
) -> Result<(), Error> {
    let mut table = lock(&TABLE);
    if !table.objects.get(&handle).is_some_and(is_kind) {
        return Err(unknown(handle, what));
    }
    let object = table.objects.remove(&handle);
    // Nobody waits for the table while the object is dropped.
    drop(table);
    drop(object);
    Ok(())
}

fn get<T>(handle: u64, what: &str, of: impl FnOnce(Object) -> Option<T>) -> Result<T, Error> {
    let object = lock(&TABLE).objects.get(&handle).cloned();
    object.and_then(of).ok_or_else(|| unknown(handle, what))
}

fn unknown(handle: u64, what: &str) -> Error {
    let text = match handle {
        0 => format!("the {what} is null"),
        _ => format!("the {what} was freed, or it is none"),
    };
    Error::new(Code::Handle, text)
}

pub(crate) fn bus(handle: u64) -> Result<Arc<Mutex<Bus>>, Error> {
    get(handle, "connection", |object| match object {
        Object::Bus(bus, _) => Some(bus),
        _ => None,
    })
}

/// The connection, and what ends the waiting of the thread that has its lock.
pub(crate) fn bus_to_close(handle: u64) -> Result<(Arc<Mutex<Bus>>, Stop), Error> {
    get(handle, "connection", |object| match object {
        Object::Bus(bus, stop) => Some((bus, stop)),
        _ => None,
    })
}

pub(crate) fn message(handle: u64) -> Result<Arc<Message>, Error> {
    get(handle, "message", |object| match object {
        Object::Message(message) => Some(message),
        _ => None,
    })
}

pub(crate) fn list(handle: u64) -> Result<Arc<List>, Error> {
    get(handle, "list", |object| match object {
        Object::List(list) => Some(list),
        _ => None,
    })
}

pub(crate) fn builder(handle: u64) -> Result<Arc<Mutex<Builder>>, Error> {
    get(handle, "builder", |object| match object {
        Object::Builder(builder) => Some(builder),
        _ => None,
    })
}
