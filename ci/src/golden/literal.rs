//! Values that a case binds: `@with 1, 'text', null, unset, [1, 2], raw 0x00ff` to bytes.
//!
//! Grammar: CQL's literals for the types that a case binds as values. Every other type is bound by its bytes, with
//! `raw`, and so are values that no client library would send.
//!
//! ```text
//! [1, 2]          list, vector of elements with a fixed size         {1, 2}    set         {'a': 1}    map
//! (1, 'x')        tuple, or user type with its fields in order       12345     also a timestamp in ms, a time in ns
//! ```
//!
//! 1. PREPARE tells the type of each marker, and a value is read by it. A value after the last marker is read as a text
//!    if it is quoted, and as an int if not.
//! 2. Fields that a tuple or a user type lacks at its end are not written.
//! 3. What cannot be read is an error of the suite. What can be read is not judged: the case asks the server to do
//!    that.
//!
//! Not here: the lines of a case (`suite.rs`), bytes to text (`kind.rs`).

use super::kind::{Kind, Scalar};

/// One bound value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// A value in its wire form.
    Bytes(Vec<u8>),
    /// The value is null.
    Null,
    /// Leave the column as it is.
    Unset,
}

/// The values of a `@with` line for markers of these kinds.
pub(super) fn parse(text: &str, kinds: &[Kind]) -> Result<Vec<Bound>, String> {
    let mut parser = Parser { rest: text };
    let mut values = Vec::new();
    while !parser.at_end() {
        // More values than markers is what a case may be about.
        let extra = if parser.rest.starts_with('\'') { Scalar::Text } else { Scalar::Int };
        let kind = kinds.get(values.len()).cloned().unwrap_or(Kind::Scalar(extra));
        values.push(parser.bound(&kind)?);
        if !parser.at_end() {
            parser.expect(',')?;
        }
    }
    Ok(values)
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn skip_blank(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn at_end(&mut self) -> bool {
        self.skip_blank();
        self.rest.is_empty()
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_blank();
        let rest = self.rest.strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, token: char) -> Result<(), String> {
        let found = self.eat(token.encode_utf8(&mut [0; 4]));
        found.then_some(()).ok_or_else(|| format!("`{token}` expected before {:?}", self.rest))
    }

    /// The characters up to one that ends a bare value.
    fn word(&mut self) -> &str {
        self.skip_blank();
        let end = self.rest.find([',', ']', '}', ')', ' ']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn bound(&mut self, kind: &Kind) -> Result<Bound, String> {
        Ok(match self.rest.trim_start() {
            rest if rest.starts_with("null") => {
                self.word();
                Bound::Null
            }
            rest if rest.starts_with("unset") => {
                self.word();
                Bound::Unset
            }
            _ => Bound::Bytes(self.value(kind)?),
        })
    }

    fn value(&mut self, kind: &Kind) -> Result<Vec<u8>, String> {
        if self.eat("raw") {
            return blob(self.word());
        }
        match kind {
            Kind::Scalar(scalar) => self.scalar(*scalar),
            Kind::Sequence(name, of) => {
                let (open, close) = if *name == "list" { ('[', "]") } else { ('{', "}") };
                self.expect(open)?;
                let (mut count, mut parts) = (0i32, Vec::new());
                while !self.eat(close) {
                    put_part(self.bound(of)?, &mut parts);
                    count += 1;
                    self.eat(",");
                }
                Ok([&count.to_be_bytes()[..], &parts].concat())
            }
            Kind::Map(key, value) => {
                self.expect('{')?;
                let (mut count, mut parts) = (0i32, Vec::new());
                while !self.eat("}") {
                    put_part(self.bound(key)?, &mut parts);
                    self.expect(':')?;
                    put_part(self.bound(value)?, &mut parts);
                    count += 1;
                    self.eat(",");
                }
                Ok([&count.to_be_bytes()[..], &parts].concat())
            }
            Kind::Tuple(kinds) => self.fields(&kinds.iter().collect::<Vec<_>>()),
            Kind::Udt(_, fields) => {
                self.fields(&fields.iter().map(|(_, kind)| kind).collect::<Vec<_>>())
            }
            Kind::Vector(of, _) if of.vector_bytes().is_some() => {
                self.expect('[')?;
                let mut bytes = Vec::new();
                while !self.eat("]") {
                    bytes.extend(self.value(of)?);
                    self.eat(",");
                }
                Ok(bytes)
            }
            _ => Err(format!("bind {} with `raw`", kind.name())),
        }
    }

    fn fields(&mut self, kinds: &[&Kind]) -> Result<Vec<u8>, String> {
        self.expect('(')?;
        let mut bytes = Vec::new();
        for kind in kinds {
            if self.eat(")") {
                return Ok(bytes);
            }
            put_part(self.bound(kind)?, &mut bytes);
            self.eat(",");
        }
        self.expect(')')?;
        Ok(bytes)
    }

    fn scalar(&mut self, scalar: Scalar) -> Result<Vec<u8>, String> {
        if matches!(scalar, Scalar::Text | Scalar::Ascii) {
            return self.text().map(String::into_bytes);
        }
        let word = self.word();
        let bad = |_| format!("{word:?} is no value to bind here");
        Ok(match scalar {
            Scalar::Blob => blob(word)?,
            Scalar::Boolean => vec![u8::from(word == "true")],
            Scalar::Tinyint => word.parse::<i8>().map_err(bad)?.to_be_bytes().to_vec(),
            Scalar::Smallint => word.parse::<i16>().map_err(bad)?.to_be_bytes().to_vec(),
            Scalar::Int => word.parse::<i32>().map_err(bad)?.to_be_bytes().to_vec(),
            Scalar::Bigint | Scalar::Timestamp | Scalar::Time => {
                word.parse::<i64>().map_err(bad)?.to_be_bytes().to_vec()
            }
            Scalar::Float => word
                .parse::<f32>()
                .map_err(|error| format!("{word}: {error}"))?
                .to_be_bytes()
                .to_vec(),
            Scalar::Double => word
                .parse::<f64>()
                .map_err(|error| format!("{word}: {error}"))?
                .to_be_bytes()
                .to_vec(),
            Scalar::Uuid | Scalar::Timeuuid => blob(&format!("0x{}", word.replace('-', "")))?,
            _ => return Err(format!("bind {word} with `raw`")),
        })
    }

    fn text(&mut self) -> Result<String, String> {
        self.expect('\'')?;
        let mut text = String::new();
        loop {
            let end = self.rest.find('\'').ok_or("a text without an end")?;
            text.push_str(&self.rest[..end]);
            self.rest = &self.rest[end + 1..];
            if !self.rest.starts_with('\'') {
                return Ok(text);
            }
            text.push('\'');
            self.rest = &self.rest[1..];
        }
    }
}

/// A length and the bytes; a null has the length -1, and unset has -2, which the protocol gives no element.
fn put_part(bound: Bound, out: &mut Vec<u8>) {
    match bound {
        Bound::Bytes(bytes) => {
            out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
            out.extend_from_slice(&bytes);
        }
        Bound::Null => out.extend_from_slice(&(-1i32).to_be_bytes()),
        Bound::Unset => out.extend_from_slice(&(-2i32).to_be_bytes()),
    }
}

fn blob(word: &str) -> Result<Vec<u8>, String> {
    let digits = word.strip_prefix("0x").ok_or_else(|| format!("{word:?}: 0x expected"))?;
    if !digits.is_ascii() || digits.len() % 2 != 0 {
        return Err(format!("{word:?} is no blob"));
    }
    let pairs = (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16));
    pairs.collect::<Result<_, _>>().map_err(|error| format!("{word:?}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_values_becomes_bytes() {
        let int = || Kind::Scalar(Scalar::Int);
        let list = Kind::Sequence("list", Box::new(Kind::Scalar(Scalar::Tinyint)));
        let kinds = [int(), Kind::Scalar(Scalar::Text), list, int(), int(), int()];
        let values = parse("-1, 'it''s, so', [1, 2], null, unset, raw 0x00ff", &kinds).unwrap();
        let bytes = |bytes: &[u8]| Bound::Bytes(bytes.to_vec());
        assert_eq!(values[0], bytes(&[255; 4]));
        assert_eq!(values[1], bytes(b"it's, so"));
        assert_eq!(values[2], bytes(&[0, 0, 0, 2, 0, 0, 0, 1, 1, 0, 0, 0, 1, 2]));
        assert_eq!(values[3..], [Bound::Null, Bound::Unset, bytes(&[0, 255])]);
        for bad in ["x", "1 2", "'open", "raw 0xf", "raw 12"] {
            assert!(parse(bad, &kinds[..1]).is_err(), "{bad}");
        }
    }
}
