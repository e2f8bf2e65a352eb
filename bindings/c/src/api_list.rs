//! The functions of the header for lists.
#![allow(unsafe_code, reason = "the names of the functions are exported")]

use std::ffi::c_int;
use std::sync::{Arc, Mutex};

use groupcast_lmbl::Token;

use crate::abi::{
    Buffer, BuilderHandle, Bytes, Data, Item, ListHandle, Out, Report, SyntaxCode, Text, run,
};
use crate::builder::Builder;
use crate::error::{Code, Error};
use crate::handles::{self, Object, lock};
use crate::list::{Kind, List, Place};

/// Reads a text as a list.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_parse(
    syntax: c_int,
    data: Data,
    len: usize,
    list: Out<ListHandle>,
    error: Out<Report>,
) -> Code {
    run(error, || {
        let list = list.need("the place for the list")?;
        let syntax = SyntaxCode::meant(syntax)?;
        list.give_list(List::read(&data.get(len, "the text")?, syntax)?);
        Ok(())
    })
}

/// Frees a list.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_list_free(list: ListHandle, error: Out<Report>) -> Code {
    run(error, || {
        handles::remove(list.0, "list", |it| matches!(it, Object::List(_)))
    })
}

/// The list as an item.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_root(list: ListHandle, item: Out<Item>, error: Out<Report>) -> Code {
    run(error, || {
        let item = item.need("the place for the item")?;
        handles::list(list.0)?;
        item.set(item_at(list.0, Place::ROOT));
        Ok(())
    })
}

/// What an item is.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_kind_of(item: Item, kind: Out<Kind>, error: Out<Report>) -> Code {
    run(error, || {
        let kind = kind.need("the place for the kind")?;
        let (list, place) = place(item)?;
        kind.set(list.kind(place)?);
        Ok(())
    })
}

/// The first item of a list.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_first(item: Item, first: Out<Item>, error: Out<Report>) -> Code {
    run(error, || step(item, first, List::first))
}

/// A list without its first item.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_rest(item: Item, rest: Out<Item>, error: Out<Report>) -> Code {
    run(error, || step(item, rest, List::rest))
}

/// How many items a list has.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_length(item: Item, length: Out<usize>, error: Out<Report>) -> Code {
    run(error, || {
        let length = length.need("the place for the length")?;
        let (list, place) = place(item)?;
        length.set(list.len(place)?);
        Ok(())
    })
}

/// The bytes of an atom.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_text(item: Item, text: Out<Bytes>, error: Out<Report>) -> Code {
    run(error, || {
        let text = text.need("the place for the text")?;
        let (list, place) = place(item)?;
        text.set(Bytes::of(list.atom(place)?));
        Ok(())
    })
}

/// The value of an integer.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_integer(item: Item, value: Out<i64>, error: Out<Report>) -> Code {
    run(error, || {
        let value = value.need("the place for the value")?;
        let (list, place) = place(item)?;
        value.set(list.integer(place)?);
        Ok(())
    })
}

/// The value of a number.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_float(item: Item, value: Out<f64>, error: Out<Report>) -> Code {
    run(error, || {
        let value = value.need("the place for the value")?;
        let (list, place) = place(item)?;
        value.set(list.float(place)?);
        Ok(())
    })
}

/// The mark of a quoted item, and the item.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_quoted(
    item: Item,
    mark: Out<Bytes>,
    inner: Out<Item>,
    error: Out<Report>,
) -> Code {
    run(error, || {
        mark.set(Bytes::default());
        let inner = inner.need("the place for the item")?;
        let (list, place) = place(item)?;
        let (text, behind) = list.quoted(place)?;
        mark.set(Bytes::of(text));
        inner.set(item_at(item.list, behind));
        Ok(())
    })
}

/// Writes an item as a text.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_write(
    item: Item,
    syntax: c_int,
    buffer: Buffer,
    size: usize,
    length: Out<usize>,
    error: Out<Report>,
) -> Code {
    run(error, || {
        length.set(0);
        let missing = || Error::argument("say whether to write sexp or cstream");
        let syntax = SyntaxCode::meant(syntax)?.ok_or_else(missing)?;
        let (list, place) = place(item)?;
        let text = list.write(place, syntax)?;
        length.set(text.len());
        match buffer.put(size, &text) {
            true => Ok(()),
            false => Err(Error::new(Code::Range, "the memory is too small")),
        }
    })
}

/// Begins to write a list.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_build(builder: Out<BuilderHandle>, error: Out<Report>) -> Code {
    run(error, || {
        let builder = builder.need("the place for the builder")?;
        let object = Object::Builder(Arc::new(Mutex::new(Builder::new())));
        builder.set(BuilderHandle(handles::add(object)));
        Ok(())
    })
}

/// Frees a builder.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_builder_free(builder: BuilderHandle, error: Out<Report>) -> Code {
    run(error, || free(builder))
}

/// A list begins.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_put_open(builder: BuilderHandle, error: Out<Report>) -> Code {
    run(error, || put(builder, &Token::Open))
}

/// A list ends.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_put_close(builder: BuilderHandle, error: Out<Report>) -> Code {
    run(error, || put(builder, &Token::Close))
}

/// The last item of a dotted list follows.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_put_dot(builder: BuilderHandle, error: Out<Report>) -> Code {
    run(error, || put(builder, &Token::Dot))
}

/// A mark for the item that follows.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_put_mark(builder: BuilderHandle, mark: Text, error: Out<Report>) -> Code {
    run(error, || {
        put_with(builder, |list| list.mark(&mark.get("the mark")?))
    })
}

/// An atom of a kind.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_put_atom(
    builder: BuilderHandle,
    kind: c_int,
    data: Data,
    len: usize,
    error: Out<Report>,
) -> Code {
    run(error, || {
        put_with(builder, |list| {
            list.atom(Kind::meant(kind), &data.get(len, "the text")?)
        })
    })
}

/// A symbol.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_put_symbol(builder: BuilderHandle, name: Text, error: Out<Report>) -> Code {
    run(error, || {
        put_with(builder, |list| {
            list.atom(Kind::Symbol, name.get("the symbol")?.as_bytes())
        })
    })
}

/// A string.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_put_string(builder: BuilderHandle, text: Text, error: Out<Report>) -> Code {
    run(error, || {
        put_with(builder, |list| {
            list.atom(Kind::String, text.get("the string")?.as_bytes())
        })
    })
}

/// An integer.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_put_integer(builder: BuilderHandle, value: i64, error: Out<Report>) -> Code {
    run(error, || {
        put_with(builder, |list| {
            list.atom(Kind::Integer, value.to_string().as_bytes())
        })
    })
}

/// A float.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_put_float(builder: BuilderHandle, value: f64, error: Out<Report>) -> Code {
    run(error, || {
        put_with(builder, |list| {
            if !value.is_finite() {
                let text = "a list has no infinite number, and none that is none";
                return Err(Error::argument(text));
            }
            list.atom(Kind::Float, format!("{value:?}").as_bytes())
        })
    })
}

/// An item of another list.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_put_item(builder: BuilderHandle, item: Item, error: Out<Report>) -> Code {
    run(error, || {
        put_with(builder, |builder| {
            let (list, place) = place(item)?;
            let mut done = Ok(());
            list.tokens(place, |token| {
                if done.is_ok() {
                    done = builder.put(&token);
                }
            })?;
            done
        })
    })
}

/// The list that was written; the builder is freed.
#[unsafe(no_mangle)]
pub extern "C" fn gcb_finish(
    builder: BuilderHandle,
    list: Out<ListHandle>,
    error: Out<Report>,
) -> Code {
    run(error, || {
        // It is empty from now on, whatever the builder is; and that is freed without a place, too.
        let list = list.need("the place for the list");
        let object = handles::builder(builder.0)?;
        free(builder)?;
        list?.give_list(lock(&object).finish()?);
        Ok(())
    })
}

/// The list and the place that an item of the caller is.
pub(crate) fn place(item: Item) -> Result<(Arc<List>, Place), Error> {
    let place = Place {
        at: item.place,
        is_rest: item.rest != 0,
    };
    Ok((handles::list(item.list)?, place))
}

fn item_at(list: u64, place: Place) -> Item {
    Item {
        list,
        place: place.at,
        rest: place.is_rest.into(),
    }
}

/// The item that `of` finds from another one.
fn step(
    item: Item,
    out: Out<Item>,
    of: impl FnOnce(&List, Place) -> Result<Place, Error>,
) -> Result<(), Error> {
    let out = out.need("the place for the item")?;
    let (list, place) = place(item)?;
    out.set(item_at(item.list, of(&list, place)?));
    Ok(())
}

fn put(builder: BuilderHandle, token: &Token<'_>) -> Result<(), Error> {
    put_with(builder, |list| list.put(token))
}

/// Has `work` put something; the builder keeps the first error.
fn put_with(
    builder: BuilderHandle,
    work: impl FnOnce(&mut Builder) -> Result<(), Error>,
) -> Result<(), Error> {
    lock(&*handles::builder(builder.0)?).try_put(work)
}

fn free(builder: BuilderHandle) -> Result<(), Error> {
    handles::remove(builder.0, "builder", |it| matches!(it, Object::Builder(_)))
}
