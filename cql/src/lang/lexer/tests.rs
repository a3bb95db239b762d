//! Texts and the tokens they must become.

use super::*;

fn kinds(text: &str) -> Vec<(Kind, &str)> {
    let tokens = tokens(text).unwrap();
    tokens[..tokens.len() - 1].iter().map(|t| (t.kind, t.text(text))).collect()
}

fn one(text: &str) -> Kind {
    let found = kinds(text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].1, text);
    found[0].0
}

#[test]
fn single_tokens_are_told_apart() {
    for (text, kind) in [
        ("abc_1", Kind::Ident),
        ("SELECT", Kind::Word(Keyword::Select)),
        ("\"A\"\"b\"", Kind::QuotedName),
        ("'it''s'", Kind::String),
        ("$$it's$$", Kind::String),
        ("0", Kind::Integer),
        ("-12", Kind::Integer),
        ("1.", Kind::Float),
        ("-1.5e-3", Kind::Float),
        ("1E10", Kind::Float),
        ("NaN", Kind::Float),
        ("-infinity", Kind::Float),
        ("True", Kind::Boolean),
        ("0xCAFE", Kind::Hex),
        ("0x", Kind::Hex),
        ("123e4567-e89b-12d3-a456-426614174000", Kind::Uuid),
        ("aaaaaaaa-e89b-12d3-a456-426614174000", Kind::Uuid),
        ("1y2mo3w4d5h6m7s8ms9us10ns", Kind::Duration),
        ("5µs", Kind::Duration),
        ("-3D", Kind::Duration),
        ("P1Y2M3DT4H5M6S", Kind::Duration),
        ("PT5M", Kind::Duration),
        ("-P2W", Kind::Duration),
        ("P0001-02-03T04:05:06", Kind::Duration),
        ("P1YD", Kind::Ident),
        ("PT", Kind::Ident),
        ("..", Kind::Range),
        ("!=", Kind::NotEqual),
        ("-=", Kind::MinusEqual),
    ] {
        assert_eq!(one(text), kind, "{text}");
    }
}

#[test]
fn contents_lose_their_quotes() {
    for (text, content) in [
        ("'it''s'", "it's"),
        ("$$it's$$", "it's"),
        ("\"A\"\"b\"", "A\"b"),
        ("''", ""),
        ("Ab", "Ab"),
    ] {
        assert_eq!(tokens(text).unwrap()[0].content(text), content);
    }
}

#[test]
fn neighbours_are_separated() {
    use Kind::*;
    let found: Vec<Kind> = kinds("m[1..2]=a-3--x\n+ b/*c*/-d // e").iter().map(|t| t.0).collect();
    assert_eq!(
        found,
        [
            Ident,
            LeftBracket,
            Integer,
            Range,
            Integer,
            RightBracket,
            Equal,
            Ident,
            Integer,
            Plus,
            Ident,
            Minus,
            Ident
        ]
    );
}

#[test]
fn broken_text_is_refused_with_a_place() {
    for (text, opening) in [
        ("a = 'abc", "line 1:8 mismatched character '<EOF>' expecting '''"),
        ("a $ b", "line 1:3 mismatched character ' ' expecting '$'"),
        ("SELECT é", "line 1:7 no viable alternative at character 'é'"),
        ("a\n /* b", "line 2:5 mismatched character '<EOF>' expecting '*'"),
        ("a \0", "line 1:2 no viable alternative at character '\\0'"),
    ] {
        let message = tokens(text).unwrap_err().to_string();
        assert!(message.starts_with(opening), "{message}");
    }
}
