//! Reads the words of a line, and writes words.

use groupcast_core::text::is_visible;

/// Why the bus refuses a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    code: &'static str,
    /// The column in the line, from 1; 0: no place.
    column: usize,
    text: String,
}

impl Refusal {
    pub(super) fn new(code: &'static str, column: usize, text: impl Into<String>) -> Self {
        Self {
            code,
            column,
            text: text.into(),
        }
    }

    /// The reply.
    pub(super) fn line(&self) -> Vec<u8> {
        let text = super::one_line(&self.text);
        format!("error {} {} {text}\n", self.code, self.column).into_bytes()
    }
}

/// A word of a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Word {
    pub(super) text: String,
    /// The column at which it begins, from 1.
    pub(super) column: usize,
    pub(super) quoted: bool,
}

/// Reads the words of a line from the front.
#[derive(Clone, Debug)]
pub(super) struct Words<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a [u8]) -> Self {
        Self { line, at: 0 }
    }

    /// The offset of the rest of the line, behind blanks.
    pub(super) fn rest_at(&mut self) -> usize {
        while matches!(self.line.get(self.at), Some(b' ' | b'\t')) {
            self.at += 1;
        }
        self.at
    }

    /// The rest of the line.
    fn rest(&self) -> &'a [u8] {
        &self.line[self.at..]
    }

    /// Skips `text`, if it comes next behind blanks; returns whether it does.
    pub(super) fn skip(&mut self, text: &[u8]) -> bool {
        self.rest_at();
        let comes = self.rest().starts_with(text);
        if comes {
            self.at += text.len();
        }
        comes
    }

    /// The column at which the next word begins, from 1.
    pub(super) fn column(&mut self) -> usize {
        self.rest_at() + 1
    }

    /// The next word, if there is one.
    pub(super) fn next(&mut self) -> Result<Option<Word>, Refusal> {
        if self.rest_at() == self.line.len() {
            return Ok(None);
        }
        let word = self.item(false)?;
        match self.line.get(self.at) {
            None | Some(b' ' | b'\t') => Ok(Some(word)),
            Some(_) => Err(self.refuse("a blank must follow the closing quote")),
        }
    }

    /// The next word, which has to be there; `what` names it in the refusal.
    pub(super) fn need(&mut self, what: &str) -> Result<Word, Refusal> {
        let column = self.column();
        self.next()?
            .ok_or_else(|| Refusal::new("usage", column, format!("{what} is missing")))
    }

    /// The next words, with commas between and no blanks; a comma belongs to a word only in quotes.
    pub(super) fn list(&mut self, what: &str) -> Result<Vec<Word>, Refusal> {
        let column = self.column();
        if self.at == self.line.len() {
            return Err(Refusal::new("usage", column, format!("{what} is missing")));
        }
        let mut words = vec![self.item(true)?];
        while self.line.get(self.at) == Some(&b',') {
            self.at += 1;
            words.push(self.item(true)?);
        }
        match self.line.get(self.at) {
            None | Some(b' ' | b'\t') => Ok(words),
            Some(_) => Err(self.refuse("a comma or a blank must follow the closing quote")),
        }
    }

    /// Checks that the line ends here.
    pub(super) fn end(&mut self) -> Result<(), Refusal> {
        match self.rest_at() == self.line.len() {
            true => Ok(()),
            false => Err(Refusal::new(
                "usage",
                self.at + 1,
                "there are words too many",
            )),
        }
    }

    fn refuse(&self, text: &str) -> Refusal {
        Refusal::new("word", self.at + 1, text)
    }

    /// Reads the word that begins here. In a list a bare word ends before a comma.
    fn item(&mut self, in_list: bool) -> Result<Word, Refusal> {
        let column = self.at + 1;
        let quoted = self.line.get(self.at) == Some(&b'"');
        let bytes = match quoted {
            true => self.quoted()?,
            false => self.bare(in_list)?.to_vec(),
        };
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let column = if quoted { column } else { column + at };
            Refusal::new("word", column, "a word is UTF-8: this byte is none of it")
        })?;
        let unseen = text.char_indices().find(|(_, letter)| !is_visible(*letter));
        if let Some((at, letter)) = unseen.filter(|_| !quoted) {
            let text = format!("a bare word has no {letter:?}: it cannot be seen");
            return Err(Refusal::new("word", column + at, text));
        }
        Ok(Word {
            text,
            column,
            quoted,
        })
    }

    fn bare(&mut self, in_list: bool) -> Result<&'a [u8], Refusal> {
        let start = self.at;
        while let Some(byte) = self.line.get(self.at) {
            match byte {
                b' ' | b'\t' => break,
                b',' if in_list => break,
                b'"' => return Err(self.refuse("a quote stands at the beginning of a word")),
                _ => self.at += 1,
            }
        }
        Ok(&self.line[start..self.at])
    }

    fn quoted(&mut self) -> Result<Vec<u8>, Refusal> {
        let open = self.at;
        self.at += 1;
        let mut bytes = Vec::new();
        loop {
            let Some(byte) = self.line.get(self.at).copied() else {
                return Err(Refusal::new("word", open + 1, "this quote is not closed"));
            };
            match byte {
                b'"' => {
                    self.at += 1;
                    return Ok(bytes);
                }
                b'\\' => bytes.push(self.escape()?),
                0..=8 | 10..=31 | 127 => {
                    return Err(self.refuse("a control character is written as an escape"));
                }
                byte => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
    }

    fn escape(&mut self) -> Result<u8, Refusal> {
        let (byte, len) = match &self.line[self.at..] {
            [b'\\', b'n', ..] => (b'\n', 2),
            [b'\\', b'r', ..] => (b'\r', 2),
            [b'\\', b't', ..] => (b'\t', 2),
            [b'\\', byte @ (b'"' | b'\\'), ..] => (*byte, 2),
            [b'\\', b'x', high, low, ..] => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                let (Some(high), Some(low)) = (digit(high), digit(low)) else {
                    return Err(self.refuse("two hexadecimal digits follow \\x"));
                };
                ((high * 16 + low) as u8, 4)
            }
            _ => return Err(self.refuse("an escape is \\\" \\\\ \\n \\r \\t or \\xHH")),
        };
        self.at += len;
        Ok(byte)
    }

    /// The bytes of the one quoted word that the rest of the line is, if it is that: any bytes, as
    /// it need not be text.
    pub(super) fn quoted_rest(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        let mut ahead = self.clone();
        if ahead.line.get(ahead.rest_at()) != Some(&b'"') {
            return Ok(None);
        }
        let bytes = ahead.quoted()?;
        Ok((ahead.rest_at() == ahead.line.len()).then_some(bytes))
    }
}

/// Appends `word` as a bare word if it can be one, else in quotes. In a list a comma needs quotes.
pub fn write_word(out: &mut String, word: &str, in_list: bool) {
    let is_plain = |letter: char| is_visible(letter) && !letter.is_whitespace() && letter != '"';
    let needs_quotes = word.is_empty()
        || !word.chars().all(is_plain)
        || in_list && word.contains(',')
        || word.starts_with('#');
    if !needs_quotes {
        return out.push_str(word);
    }
    out.push('"');
    for letter in word.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            letter if letter.is_control() => {
                let mut bytes = [0; 4];
                for byte in letter.encode_utf8(&mut bytes).bytes() {
                    out.push_str(&format!("\\x{byte:02x}"));
                }
            }
            letter => out.push(letter),
        }
    }
    out.push('"');
}
