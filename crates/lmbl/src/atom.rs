//! Atoms of an S-expression: where one ends, and which kind it is of.

use crate::{Error, Fault, Token};

/// Whether `byte` stands between items.
pub(crate) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Whether `byte` ends an atom.
pub(crate) const fn is_delimiter(byte: u8) -> bool {
    is_blank(byte) || matches!(byte, b'(' | b')' | b'"' | b'\'' | b'`' | b',' | b';')
}

/// Where the atom ends that begins at `at`, which is no delimiter.
pub(crate) fn end_of(bytes: &[u8], at: usize) -> Result<usize, Error> {
    if bytes[at..].starts_with(b"#\\") {
        return end_of_character(bytes, at);
    }
    let mut here = at;
    while let Some(byte) = bytes.get(here) {
        match byte {
            b'\\' if here + 1 < bytes.len() => here += 2,
            b'\\' => return Err(Error::new(Fault::Unfinished, at)),
            b'|' => here = end_of_bars(bytes, here)?,
            byte if is_delimiter(*byte) => break,
            _ => here += 1,
        }
    }
    Ok(here)
}

/// A character is the byte after `#\`, whatever it is, and what follows up to a delimiter.
fn end_of_character(bytes: &[u8], at: usize) -> Result<usize, Error> {
    let first = at + 2;
    if first >= bytes.len() {
        return Err(Error::new(Fault::Unfinished, at));
    }
    let rest = bytes[first + 1..].iter();
    Ok(first + 1 + rest.take_while(|byte| !is_delimiter(**byte)).count())
}

/// Behind the second of two bars, of which the first stands at `at`.
fn end_of_bars(bytes: &[u8], at: usize) -> Result<usize, Error> {
    let mut here = at + 1;
    loop {
        match bytes.get(here) {
            Some(b'|') => return Ok(here + 1),
            Some(b'\\') => here += 2,
            Some(_) => here += 1,
            None => return Err(Error::new(Fault::Unfinished, at)),
        }
    }
}

/// The token that an atom of this text is. The text is not empty.
pub(crate) fn token(text: &[u8]) -> Token<'_> {
    if text == b"." {
        Token::Dot
    } else if let Some(name) = text.strip_prefix(b"#\\") {
        Token::Character(name)
    } else if is_integer(text) {
        Token::Integer(text)
    } else if is_float(text) {
        Token::Float(text)
    } else {
        Token::Symbol(text)
    }
}

/// Behind the sign, if there is one.
fn unsigned(text: &[u8]) -> &[u8] {
    match text {
        [b'+' | b'-', rest @ ..] => rest,
        text => text,
    }
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// `12`, `-12`, `12.`
fn is_integer(text: &[u8]) -> bool {
    let text = unsigned(text);
    let count = digits(text);
    count > 0 && matches!(&text[count..], b"" | b".")
}

/// `1.5`, `.5`, `1e9`, `1.5d-3`
fn is_float(text: &[u8]) -> bool {
    let text = unsigned(text);
    let whole = digits(text);
    let (fraction, rest) = match text[whole..].strip_prefix(b".") {
        Some(rest) => (digits(rest), &rest[digits(rest)..]),
        None => (0, &text[whole..]),
    };
    if whole + fraction == 0 {
        return false;
    }
    match rest {
        // Without an exponent it needs a fraction.
        [] => fraction > 0,
        [letter, exponent @ ..] => {
            let exponent = unsigned(exponent);
            let is_marker = matches!(
                letter.to_ascii_lowercase(),
                b'e' | b's' | b'd' | b'f' | b'l'
            );
            is_marker && !exponent.is_empty() && digits(exponent) == exponent.len()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_told_from_symbols() {
        for integer in ["0", "-12", "+7", "12.", "18446744073709551616"] {
            assert_eq!(
                token(integer.as_bytes()),
                Token::Integer(integer.as_bytes())
            );
        }
        for float in ["1.5", ".5", "-.5e3", "1e9", "6.02E+23", "1d0", "1.e3"] {
            assert_eq!(token(float.as_bytes()), Token::Float(float.as_bytes()));
        }
        for symbol in [
            "+", "-", "...", "1+", "1/3", "e5", "1e", "1.5x", "-.", ".e5", "1e+",
        ] {
            assert_eq!(token(symbol.as_bytes()), Token::Symbol(symbol.as_bytes()));
        }
        assert_eq!(token(b"."), Token::Dot);
        assert_eq!(token(b"#\\("), Token::Character(b"("));
    }
}
