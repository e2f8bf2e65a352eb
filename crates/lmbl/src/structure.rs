//! What holds of every message: lists are closed, dots and quotes stand where they may, and there
//! is one item at the top.

use crate::{Error, Fault, Limits};

/// Where a reader is in the lists of a message.
#[derive(Debug)]
pub(crate) struct Structure {
    levels: Vec<Level>,
    items: usize,
    /// The item at the top is complete.
    complete: bool,
    limits: Limits,
}

/// A list that is open, or a quote whose item has not ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Level {
    /// A list without items so far.
    Empty,
    /// A list with some.
    Items,
    /// A list after its dot.
    Dot,
    /// A list with the item after its dot.
    Last,
    /// A quote or the like.
    Mark,
}

impl Structure {
    pub(crate) fn new(message: &[u8], limits: Limits) -> Result<Self, Error> {
        if message.len() > limits.bytes {
            return Err(Error::new(Fault::TooLong, limits.bytes));
        }
        Ok(Self {
            levels: Vec::new(),
            items: 0,
            complete: false,
            limits,
        })
    }

    /// Whether the item at the top is complete: only blanks may follow.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// The item at `at` is whole.
    pub(crate) fn atom(&mut self, at: usize) -> Result<(), Error> {
        self.begin(at)?;
        self.end();
        Ok(())
    }

    /// A list begins at `at`.
    pub(crate) fn open(&mut self, at: usize) -> Result<(), Error> {
        self.begin(at)?;
        self.push(Level::Empty, at)
    }

    /// A quote or the like stands at `at`.
    pub(crate) fn mark(&mut self, at: usize) -> Result<(), Error> {
        self.begin(at)?;
        self.push(Level::Mark, at)
    }

    /// A dot stands at `at`.
    pub(crate) fn dot(&mut self, at: usize) -> Result<(), Error> {
        match self.levels.last_mut() {
            Some(level @ Level::Items) => *level = Level::Dot,
            _ => return Err(Error::new(Fault::Dot, at)),
        }
        Ok(())
    }

    /// A list ends at `at`.
    pub(crate) fn close(&mut self, at: usize) -> Result<(), Error> {
        match self.levels.last() {
            Some(Level::Empty | Level::Items | Level::Last) => {}
            Some(Level::Dot) => return Err(Error::new(Fault::Dot, at)),
            Some(Level::Mark) | None => return Err(Error::new(Fault::Close, at)),
        }
        self.levels.pop();
        self.end();
        Ok(())
    }

    /// The message ends at `at`.
    pub(crate) fn finish(&self, at: usize) -> Result<(), Error> {
        match self.complete {
            true => Ok(()),
            false => Err(Error::new(Fault::Unclosed, at)),
        }
    }

    fn begin(&mut self, at: usize) -> Result<(), Error> {
        if self.complete {
            return Err(Error::new(Fault::Rest, at));
        }
        if self.levels.last() == Some(&Level::Last) {
            return Err(Error::new(Fault::Dot, at));
        }
        self.items += 1;
        match self.items > self.limits.items {
            true => Err(Error::new(Fault::Items, at)),
            false => Ok(()),
        }
    }

    fn push(&mut self, level: Level, at: usize) -> Result<(), Error> {
        if self.levels.len() >= self.limits.depth {
            return Err(Error::new(Fault::Depth, at));
        }
        self.levels.push(level);
        Ok(())
    }

    /// An item has ended, and with it the quotes before it.
    fn end(&mut self) {
        while self.levels.pop_if(|level| *level == Level::Mark).is_some() {}
        match self.levels.last_mut() {
            Some(level @ Level::Dot) => *level = Level::Last,
            Some(level) => *level = Level::Items,
            None => self.complete = true,
        }
    }
}
