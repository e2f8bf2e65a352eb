//! MBLib: the message bus and its lists for programs in C and C++ (000 chs. 6 and 7).
//!
//! `include/groupcast_bus.h` is what users read; `docs/bus-c.md` says how a program is built with
//! it. Here is what stands behind the header: a connection over a plain socket, and lists over the
//! tokenizer of `groupcast-lmbl`, the same that the bus itself uses.
//!
//! - [`abi`] is what crosses the border: the one module that follows pointers of a caller.
//! - [`api_bus`], [`api_list`] and [`api_message`] are the functions of the header, in safe Rust;
//!   each is a few lines over `bus`, `list`, `builder` and `message`.
//! - `handles` has every object that the library gave out. C holds numbers, not pointers, and no
//!   number is given twice: a handle that is null, freed or of another kind is an error.
//!
//! A panic would be a bug of this library. It ends the process: none crosses into C.

pub mod abi;
pub mod api_bus;
pub mod api_list;
pub mod api_message;
mod builder;
mod bus;
mod error;
mod handles;
mod list;
mod message;
mod said;
mod socket;
mod words;
