//! What crosses the border between C and Rust.
//!
//! The pointers of a caller are wrapped here in types that only C can make: their fields are
//! private, and nothing in Rust constructs one. So what the header asks of a caller is the contract
//! of each `unsafe` block, and there is no other `unsafe` block in this crate. What a caller
//! passes is copied before a function returns; nothing of it is kept.
#![allow(
    unsafe_code,
    reason = "pointers of C are followed here, and nowhere else"
)]

use std::ffi::{CStr, c_char, c_int};
use std::time::Duration;

use crate::error::{Code, Error};
use crate::words::Syntax;

/// A text of the caller: null, or bytes that end with NUL.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Text(*const c_char);

impl Text {
    /// A copy of it. `what` names it in the error if it is null or no UTF-8.
    pub(crate) fn get(self, what: &str) -> Result<String, Error> {
        if self.0.is_null() {
            return Err(Error::argument(format!("{what} is a null pointer")));
        }
        // SAFETY: it is not null, and the header asks for bytes that end with NUL and that nobody
        // changes during the call; the borrow ends in this function.
        let bytes = unsafe { CStr::from_ptr(self.0) }.to_bytes();
        String::from_utf8(bytes.to_vec())
            .map_err(|_| Error::argument(format!("{what} is not UTF-8")))
    }
}

/// Several texts of the caller, of which it says how many.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Texts(*const Text);

impl Texts {
    /// Copies of `count` texts.
    pub(crate) fn get(self, count: usize, what: &str) -> Result<Vec<String>, Error> {
        if self.0.is_null() && count > 0 {
            return Err(Error::argument(format!("{what} is a null pointer")));
        }
        (0..count)
            .map(|index| {
                // SAFETY: it is not null, and the header asks for `count` pointers there.
                let text = unsafe { self.0.add(index).read() };
                text.get(what)
            })
            .collect()
    }
}

/// Bytes of the caller, of which it says how many.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Data(*const u8);

impl Data {
    /// A copy of `len` bytes. It may be null where there are none.
    pub(crate) fn get(self, len: usize, what: &str) -> Result<Vec<u8>, Error> {
        if len == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() || isize::try_from(len).is_err() {
            return Err(Error::argument(format!(
                "{what} is a null pointer, or its length is no length"
            )));
        }
        // SAFETY: it is not null, `len` is not beyond what an object can have, and the header asks
        // for as many bytes that nobody changes during the call; the borrow ends in this function.
        Ok(unsafe { std::slice::from_raw_parts(self.0, len) }.to_vec())
    }
}

/// Memory of the caller for text, of which it says how much.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Buffer(*mut u8);

impl Buffer {
    /// Copies `bytes` and a NUL into it if they fit into `size`; whether they do.
    pub(crate) fn put(self, size: usize, bytes: &[u8]) -> bool {
        if self.0.is_null() || bytes.len() >= size {
            return false;
        }
        // SAFETY: it is not null, the header asks for `size` bytes that may be written and that
        // nothing else uses during the call, and the bytes and the NUL are no more than that.
        unsafe {
            self.0.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            self.0.add(bytes.len()).write(0);
        }
        true
    }
}

/// Where the caller wants a result: null if it does not.
#[repr(transparent)]
#[derive(Debug)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> Out<T> {
    /// Whether the caller does not want it.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl<T: Default> Out<T> {
    /// Checks that the caller wants it, and empties it. `what` names it in the error.
    pub(crate) fn need(self, what: &str) -> Result<Self, Error> {
        if self.0.is_null() {
            return Err(Error::argument(format!("{what} is a null pointer")));
        }
        self.set(T::default());
        Ok(self)
    }

    /// Writes it, if the caller wants it.
    pub(crate) fn set(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: it is not null, and the header asks for memory of this type that may be
            // written and that nothing else uses during the call.
            unsafe { self.0.write(value) };
        }
    }
}

/// `gcb_bytes`: bytes of the library, which the header says how long they stay.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    data: *const u8,
    len: usize,
}

impl Bytes {
    /// A view of `bytes`, which belong to an object that a handle keeps. A NUL must stand behind
    /// them in the same object, so that C can take them as a text.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr(),
            len: bytes.len(),
        }
    }
}

impl Default for Bytes {
    /// The empty text, which nobody has to keep.
    fn default() -> Self {
        Self {
            data: c"".as_ptr().cast(),
            len: 0,
        }
    }
}

/// The bytes of a word in `gcb_error`, with its NUL.
const WORD_LEN: usize = 32;
/// The bytes of a text in `gcb_error`, with its NUL.
const TEXT_LEN: usize = 216;

/// `gcb_error`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Report {
    code: Code,
    column: usize,
    word: [c_char; WORD_LEN],
    text: [c_char; TEXT_LEN],
}

impl Default for Report {
    fn default() -> Self {
        Self {
            code: Code::Ok,
            column: 0,
            word: [0; WORD_LEN],
            text: [0; TEXT_LEN],
        }
    }
}

/// `gcb_bus`: the handle of a connection.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct BusHandle(pub(crate) u64);

/// `gcb_message`: the handle of a message.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct MessageHandle(pub(crate) u64);

/// `gcb_list`: the handle of a list.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct ListHandle(pub(crate) u64);

/// `gcb_builder`: the handle of a list that is being written.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct BuilderHandle(pub(crate) u64);

/// `gcb_item`: a place in a list.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Item {
    pub(crate) list: u64,
    pub(crate) place: u32,
    pub(crate) rest: u32,
}

/// `gcb_syntax`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum SyntaxCode {
    /// Told by the first bytes.
    #[default]
    Any,
    /// S-expressions.
    Sexp,
    /// CSTREAM.
    Cstream,
    /// Neither.
    Raw,
}

impl SyntaxCode {
    pub(crate) fn of(syntax: Syntax) -> Self {
        match syntax {
            Syntax::Sexp => Self::Sexp,
            Syntax::Cstream => Self::Cstream,
            Syntax::Raw => Self::Raw,
        }
    }

    /// The syntax that a caller means by a number; `None` for any.
    pub(crate) fn meant(number: c_int) -> Result<Option<Syntax>, Error> {
        match number {
            0 => Ok(None),
            1 => Ok(Some(Syntax::Sexp)),
            2 => Ok(Some(Syntax::Cstream)),
            3 => Ok(Some(Syntax::Raw)),
            _ => Err(Error::argument("there is no such syntax")),
        }
    }
}

/// Does `work`, and says in `report` how it went.
pub(crate) fn run(report: Out<Report>, work: impl FnOnce() -> Result<(), Error>) -> Code {
    let Err(error) = work() else {
        report.set(Report::default());
        return Code::Ok;
    };
    let mut said = Report {
        code: error.code,
        column: error.column,
        ..Report::default()
    };
    write(&mut said.word, &error.word);
    write(&mut said.text, &error.text);
    report.set(said);
    error.code
}

/// Writes as much of `text` as there is room for, whole characters and a NUL.
fn write(room: &mut [c_char], text: &str) {
    let mut len = text.len().min(room.len() - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    for (place, byte) in room.iter_mut().zip(&text.as_bytes()[..len]) {
        *place = *byte as c_char;
    }
}

/// A number of milliseconds; a negative one, `None`, means as long as it takes.
pub(crate) fn duration(milliseconds: c_int) -> Option<Duration> {
    let count = u64::try_from(milliseconds).ok()?;
    Some(Duration::from_millis(count))
}
