//! Both syntaxes against each other: examples, limits, and random structures.

use proptest::prelude::*;

use super::*;

fn sexp(message: &[u8]) -> Result<Vec<u8>, Error> {
    convert(Syntax::Cstream, message, Limits::default())
}

fn cstream(message: &[u8]) -> Result<Vec<u8>, Error> {
    convert(Syntax::Sexp, message, Limits::default())
}

fn fault(message: &str) -> Option<(Fault, usize)> {
    let error = check(Syntax::Sexp, message.as_bytes(), Limits::default()).err()?;
    Some((error.fault, error.at))
}

#[test]
fn each_kind_of_item_has_its_two_forms() {
    for (text, stream) in [
        ("()", "cs[]"),
        ("(plus 1 2)", "cs[y4:plusi1:1i1:2]"),
        ("(a (b) . c)", "cs[y1:a[y1:b].y1:c]"),
        (
            "(Foo pkg:sym :key |odd ) sym| a\\ b 1/3)",
            "cs[y3:Fooy7:pkg:symy4::keyy11:|odd ) sym|y4:a\\ by3:1/3]",
        ),
        (
            "(-18446744073709551616 1.50 6.02e23)",
            "cs[i21:-18446744073709551616f4:1.50f7:6.02e23]",
        ),
        ("(#\\a #\\Space #\\( #\\\\)", "cs[c1:ac5:Spacec1:(c1:\\]"),
        (
            "('a `(b ,c ,@d) #'f #(1 2))",
            "cs[q1:'y1:aq1:`[y1:bq1:,y1:cq2:,@y1:d]q2:#'y1:fq1:#[i1:1i1:2]]",
        ),
        ("(, @a)", "cs[q1:,y2:@a]"),
        ("(\"a\\\"b\\\\c\n\")", "cs[s6:a\"b\\c\n]"),
        ("(#u8(65 66) #u8())", "cs[b2:ABb0:]"),
        (
            "(\u{fc}ber \"\u{fc}\" #\\\u{fc})",
            "cs[y5:\u{fc}bers2:\u{fc}c2:\u{fc}]",
        ),
    ] {
        assert_eq!(
            String::from_utf8(cstream(text.as_bytes()).unwrap()).unwrap(),
            stream
        );
        assert_eq!(sexp(stream.as_bytes()).unwrap(), text.as_bytes());
    }
}

/// A client that is none of the bus may say of any bytes that they are a list.
#[test]
fn what_is_an_item_and_no_list_is_not_converted() {
    for text in [
        &b"x"[..],
        b"",
        b"5",
        b"\"(a)\"",
        b"'(a)",
        b"cs[y1:a]",
        b" (a)",
    ] {
        assert_eq!(
            cstream(text).map_err(|error| error.fault),
            Err(Fault::NoList)
        );
    }
    for stream in [&b"cs"[..], b"", b"csy1:a", b"(a)"] {
        assert_eq!(
            sexp(stream).map_err(|error| error.fault),
            Err(Fault::NoList)
        );
    }
}

#[test]
fn what_is_not_canonical_becomes_so() {
    let text = b"( a;no\n\t\"\\b\" #| x #| y |# |# . ( #u8( 007 ) ) ) ; end";
    let stream = cstream(text).unwrap();
    assert_eq!(sexp(&stream).unwrap(), b"(a \"b\" . (#u8(7)))");
}

#[test]
fn the_end_is_found_behind_every_mark() {
    for mark in ["'", "`", ",", ",@", "#'", "#"] {
        for item in [
            "#\\|", "#\\x|", "#\\#|", "#\\)", "|)|", "#|)|# a", "\")\"", "(a)", "@", ";)\na",
        ] {
            let text = format!("({mark}{item})");
            if cstream(text.as_bytes()).is_ok() {
                let end = Balance::new().feed(text.as_bytes());
                assert_eq!(end, Some(text.len()), "{text}");
            }
        }
    }
    for text in ["(,@#\\#|)", "(,@#|)|# a)", "(, @#\\||)|)", "(,@ @)"] {
        assert!(cstream(text.as_bytes()).is_ok(), "{text}");
        assert_eq!(Balance::new().feed(text.as_bytes()), Some(text.len()));
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    for (text, expected, at) in [
        ("", Fault::NoList, 0),
        ("a", Fault::NoList, 0),
        ("(a", Fault::Unclosed, 2),
        ("(a '", Fault::Unclosed, 4),
        ("(a))", Fault::Rest, 3),
        ("(a) b", Fault::Rest, 4),
        ("(a ')", Fault::Close, 4),
        ("(. a)", Fault::Dot, 1),
        ("(a . )", Fault::Dot, 5),
        ("(a . b c)", Fault::Dot, 7),
        ("(a '. b)", Fault::Dot, 4),
        ("(\"a)", Fault::Unfinished, 1),
        ("(|a)", Fault::Unfinished, 1),
        ("(a #|b)", Fault::Unfinished, 3),
        ("(#u8(256))", Fault::Bytes, 1),
        ("(#u8(1 x))", Fault::Bytes, 1),
        ("(#\\", Fault::Unfinished, 1),
        ("(a\\", Fault::Unfinished, 1),
    ] {
        assert_eq!(fault(text), Some((expected, at)), "{text}");
    }
    for (stream, expected) in [
        ("cs[", Fault::Unclosed),
        ("cs[]]", Fault::Rest),
        ("cs[x1:a]", Fault::Kind),
        ("cs[y01:a]", Fault::Length),
        ("cs[y9:a]", Fault::Length),
        ("cs[y99999999999999999999:a]", Fault::Length),
        ("cs[y:a]", Fault::Length),
        ("cs[y3:a b]", Fault::Text),
        ("cs[y1:1]", Fault::Text),
        ("cs[y1:.]", Fault::Text),
        ("cs[y0:]", Fault::Text),
        ("cs[y3:#\\a]", Fault::Text),
        ("cs[i1:a]", Fault::Text),
        ("cs[c0:]", Fault::Text),
        ("cs[c2:a(]", Fault::Text),
        ("cs[q1:xy1:a]", Fault::Text),
        ("cs[q1:#y1:a]", Fault::Text),
        ("cs[y4:#|x|]", Fault::Text),
    ] {
        assert_eq!(
            sexp(stream.as_bytes()).unwrap_err().fault,
            expected,
            "{stream}"
        );
    }
}

#[test]
fn a_million_levels_and_ten_million_items_are_refused_at_the_limit() {
    let deep = [vec![b'('; 1_000_000], vec![b')'; 1_000_000]].concat();
    assert_eq!(
        check(Syntax::Sexp, &deep, Limits::default()),
        Err(Error::new(Fault::Depth, 1_000))
    );
    let quotes = [&b"("[..], &[b'\''; 1_000_000], b"a)"].concat();
    assert_eq!(
        check(Syntax::Sexp, &quotes, Limits::default()),
        Err(Error::new(Fault::Depth, 1_000))
    );
    let flat = [&b"("[..], &b"a ".repeat(8_000_000), b")"].concat();
    let error = check(Syntax::Sexp, &flat, Limits::default()).unwrap_err();
    assert_eq!((error.fault, error.at), (Fault::Items, 1_999_999));
    let long = [&b"("[..], &b"a ".repeat(10_000_000), b")"].concat();
    let error = check(Syntax::Sexp, &long, Limits::default()).unwrap_err();
    assert_eq!(error.fault, Fault::TooLong);
    let stream = [&b"cs"[..], &vec![b'['; 1_000_000]].concat();
    assert_eq!(sexp(&stream).unwrap_err().fault, Fault::Depth);
}

#[test]
fn as_deep_as_may_be_is_converted() {
    let deep = [vec![b'('; 1_000], vec![b')'; 1_000]].concat();
    let stream = cstream(&deep).unwrap();
    assert_eq!(sexp(&stream).unwrap(), deep);
}

/// A random message in its canonical form: a flat row of tokens that is well-formed.
#[derive(Debug, Clone)]
struct Row(Vec<Piece>);

#[derive(Debug, Clone)]
enum Piece {
    Open,
    Close,
    Dot,
    Mark(Mark),
    Atom(Vec<u8>),
    String(Vec<u8>),
    Bytes(Vec<u8>),
}

impl Row {
    /// The row that the choices make: each adds something that may stand there.
    fn of(choices: Vec<(u8, Piece)>) -> Self {
        let mut row = vec![Piece::Open];
        // For each open list: whether it has items.
        let mut open = vec![false];
        for (how, piece) in choices {
            match how % 8 {
                0 | 1 => {
                    row.push(Piece::Open);
                    open.push(false);
                    continue;
                }
                2 if open.len() > 1 => {
                    row.push(Piece::Close);
                    open.pop();
                }
                3 if open.len() > 1 && open.last() == Some(&true) => {
                    row.extend([Piece::Dot, piece, Piece::Close]);
                    open.pop();
                }
                4 => row.extend([Piece::Mark(Mark::ALL_BUT_VECTOR[how as usize % 5]), piece]),
                5 => {
                    row.extend([Piece::Mark(Mark::Vector), Piece::Open]);
                    open.push(false);
                    continue;
                }
                _ => row.push(piece),
            }
            *open.last_mut().expect("the outermost stays open") = true;
        }
        row.extend(vec![Piece::Close; open.len()]);
        Self(row)
    }

    fn canonical(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = sexp::Writer::new(&mut out);
        for piece in &self.0 {
            writer.put(&match piece {
                Piece::Open => Token::Open,
                Piece::Close => Token::Close,
                Piece::Dot => Token::Dot,
                Piece::Mark(mark) => Token::Mark(*mark),
                Piece::Atom(text) => atom::token(text),
                Piece::String(bytes) => Token::String(Content::Plain(bytes)),
                Piece::Bytes(bytes) => Token::Bytes(Content::Plain(bytes)),
            });
        }
        out
    }
}

impl Mark {
    const ALL_BUT_VECTOR: [Self; 5] = [
        Self::Quote,
        Self::Backquote,
        Self::Unquote,
        Self::Splice,
        Self::Function,
    ];
}

fn pieces() -> impl Strategy<Value = Piece> {
    let odd = prop::sample::select(vec![
        "|a b|", "|(|", "a\\(b", "pkg::x", ":k", "#:g", "#t", "@x", "..", "|\\||z", "1+", "-",
    ]);
    let character =
        prop::sample::select(vec!["#\\a", "#\\(", "#\\\"", "#\\;", "#\\Newline", "#\\|"]);
    prop_oneof![
        "[a-zA-Z*+?][a-zA-Z0-9-]{0,8}".prop_map(|text| Piece::Atom(text.into())),
        "[+-]?[0-9]{1,40}".prop_map(|text| Piece::Atom(text.into())),
        "[0-9]{1,5}\\.[0-9]{1,5}(e-?[0-9]{1,2})?".prop_map(|text| Piece::Atom(text.into())),
        odd.prop_map(|text| Piece::Atom(text.into())),
        character.prop_map(|text| Piece::Atom(text.into())),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Piece::String),
        prop::collection::vec(any::<u8>(), 0..20).prop_map(Piece::Bytes),
    ]
}

proptest! {
    #[test]
    fn back_and_forth_is_the_identity_on_the_canonical_form(
        choices in prop::collection::vec((any::<u8>(), pieces()), 0..60),
    ) {
        let text = Row::of(choices).canonical();
        let stream = cstream(&text).map_err(|error| TestCaseError::fail(format!("{error}")))?;
        prop_assert_eq!(check(Syntax::Cstream, &stream, Limits::default()), Ok(()));
        let back = sexp(&stream).map_err(|error| TestCaseError::fail(format!("{error}")))?;
        prop_assert_eq!(&back, &text);
        prop_assert_eq!(cstream(&back), Ok(stream));
    }

    #[test]
    fn the_end_is_found_however_the_list_is_cut(
        choices in prop::collection::vec((any::<u8>(), pieces()), 0..30),
        rest in ".{0,20}",
        piece in 1usize..20,
    ) {
        let text = Row::of(choices).canonical();
        let whole = [&text[..], rest.as_bytes()].concat();
        let mut balance = Balance::new();
        let mut end = None;
        for (index, piece_of) in whole.chunks(piece).enumerate() {
            if let Some(at) = balance.feed(piece_of) {
                end = Some(index * piece + at);
                break;
            }
        }
        prop_assert_eq!(end, Some(text.len()));
    }

    #[test]
    fn any_bytes_are_judged_and_a_list_survives_its_way(mut bytes: Vec<u8>, how in 0u8..3) {
        match how {
            0 => bytes.insert(0, b'('),
            1 => bytes.splice(0..0, *b"cs[").for_each(drop),
            _ => {}
        }
        if let Ok(stream) = cstream(&bytes) {
            let back = sexp(&stream).expect("what was written can be read");
            prop_assert_eq!(cstream(&back), Ok(stream));
        }
        if let Ok(text) = sexp(&bytes) {
            prop_assert_eq!(cstream(&text), Ok(bytes));
        }
    }

    #[test]
    fn texts_of_the_alphabet_of_lists_are_judged_alike(text in "[()\"'`,;#|\\\\ .a1u8\n\\[\\]:@]{0,40}") {
        let text = format!("({text}");
        if let Ok(stream) = cstream(text.as_bytes()) {
            let back = sexp(&stream).expect("what was written can be read");
            prop_assert_eq!(cstream(&back), Ok(stream));
            let end = Balance::new().feed(text.as_bytes());
            let end = end.expect("a list that can be read has an end");
            prop_assert_eq!(check(Syntax::Sexp, &text.as_bytes()[..end], Limits::default()), Ok(()));
        }
    }
}
