//! `string.find`, `match`, `gmatch` and the parts of `gsub`, over the matcher that counts its steps; and what
//! `prelude.lua` cannot do itself.
//!
//! As Lua 5.4 has them, positions counted from 1 and from the end, but that the text that `gsub` makes is bounded by the
//! memory of the state before it is made. Nothing here calls a function of a body, or a metamethod: `prelude.lua` does
//! that of `gsub`, match by match, where it is counted.

use std::rc::Rc;

use mlua::{Error, Lua, LuaString, MultiValue, Result, Table, Value};

use super::pattern::{Capture, Matcher};
use crate::budget::Budget;
use crate::limits::LUA_MEMORY_BYTES_MAX;

/// Bytes that are special in a pattern.
const SPECIALS: &[u8] = b"^$*+?.([%-";

/// What a match counts for among steps, beside its own, and what each of its captures does: they become values.
const STEPS_PER_MATCH: usize = 20;

/// The functions, by name.
pub(super) fn functions(lua: &Lua, budget: &Rc<Budget>) -> Result<Table> {
    let table = lua.create_table()?;
    let own = budget.clone();
    let find = move |lua: &Lua, (text, pattern, init, plain): FindArguments| {
        let plain = plain.unwrap_or(false);
        Search { lua, budget: &own }.find(&text.as_bytes(), &pattern.as_bytes(), init, plain)
    };
    table.set("find", lua.create_function(find)?)?;
    let own = budget.clone();
    let matched = move |lua: &Lua, (text, pattern, init): MatchArguments| {
        Search { lua, budget: &own }.matched(&text.as_bytes(), &pattern.as_bytes(), init)
    };
    table.set("match", lua.create_function(matched)?)?;
    let own = budget.clone();
    let next_match = move |lua: &Lua, (text, pattern, at, last): NextArguments| {
        Search { lua, budget: &own }.next_match(&text.as_bytes(), &pattern.as_bytes(), at, last)
    };
    table.set("next_match", lua.create_function(next_match)?)?;
    let own = budget.clone();
    let substitute = move |lua: &Lua, (text, pattern, with, most): SubstituteArguments| {
        let search = Search { lua, budget: &own };
        search.substitute(&text.as_bytes(), &pattern.as_bytes(), &with.as_bytes(), most)
    };
    table.set("substitute", lua.create_function(substitute)?)?;
    table.set("attach", lua.create_function(attach)?)?;
    table.set("has_text", lua.create_function(has_text)?)?;
    table.set("check_format", lua.create_function(check_format)?)?;
    Ok(table)
}

/// Gives a table its metatable, or none, unless that which it has is protected.
fn attach(_: &Lua, (table, metatable): (Table, Option<Table>)) -> Result<()> {
    if let Some(old) = table.metatable()
        && old.raw_get::<bool>("is_protected")?
    {
        return Err(Error::runtime("cannot change a protected metatable"));
    }
    table.set_metatable(metatable)
}

/// Whether a table has a text of its own: any other would be its address.
fn has_text(_: &Lua, table: Table) -> Result<bool> {
    let Some(metatable) = table.metatable() else { return Ok(false) };
    Ok(!metatable.raw_get::<Value>("__tostring")?.is_nil())
}

/// Refuses a format of `string.format` that shows addresses.
fn check_format(_: &Lua, format: LuaString) -> Result<()> {
    let format = format.as_bytes();
    let mut bytes = format.iter();
    while bytes.any(|byte| *byte == b'%') {
        let conversion =
            bytes.find(|byte| !matches!(byte, b'-' | b'+' | b' ' | b'#' | b'.' | b'0'..=b'9'));
        if conversion == Some(&b'p') {
            return Err(Error::runtime("the conversion '%p' of 'format' is not supported"));
        }
    }
    Ok(())
}

type FindArguments = (LuaString, LuaString, Option<i64>, Option<bool>);
type MatchArguments = (LuaString, LuaString, Option<i64>);
type NextArguments = (LuaString, LuaString, usize, Option<usize>);
type SubstituteArguments = (LuaString, LuaString, LuaString, Option<i64>);

/// The first byte of a search, counted from 0; `None` behind the text.
fn start(init: Option<i64>, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let at = match init.unwrap_or(1) {
        0 => 0,
        at if at > 0 => at - 1,
        back if back < -length => 0,
        back => length + back,
    };
    usize::try_from(at).ok().filter(|_| at <= length)
}

struct Search<'s> {
    lua: &'s Lua,
    budget: &'s Budget,
}

impl Search<'_> {
    fn find(
        &self,
        text: &[u8],
        pattern: &[u8],
        init: Option<i64>,
        plain: bool,
    ) -> Result<MultiValue> {
        let nothing = || Ok(MultiValue::from_iter([Value::Nil]));
        let Some(from) = start(init, text.len()) else { return nothing() };
        let position = |at: usize| Value::Integer(at as i64);
        if plain || !pattern.iter().any(|byte| SPECIALS.contains(byte)) {
            let Some(at) = self.find_plain(&text[from..], pattern)? else { return nothing() };
            let at = from + at;
            return Ok(MultiValue::from_iter([position(at + 1), position(at + pattern.len())]));
        }
        let (matcher, found) = self.first(text, pattern, from)?;
        let Some((at, end)) = found else { return nothing() };
        let mut values = vec![position(at + 1), position(end)];
        if !matcher.captures().is_empty() {
            values.extend(self.captured(&matcher, at, end)?);
        }
        Ok(MultiValue::from_iter(values))
    }

    /// Where `wanted` stands first, each comparison a step for each of its bytes.
    fn find_plain(&self, text: &[u8], wanted: &[u8]) -> Result<Option<usize>> {
        if wanted.is_empty() {
            return Ok(Some(0));
        }
        for (at, window) in text.windows(wanted.len()).enumerate() {
            self.budget.pattern_step().map_err(Error::runtime)?;
            if window[0] == wanted[0] {
                let same = window.iter().zip(wanted).take_while(|(a, b)| a == b).count();
                for _ in 0..same / 64 {
                    self.budget.pattern_step().map_err(Error::runtime)?;
                }
                if same == wanted.len() {
                    return Ok(Some(at));
                }
            }
        }
        Ok(None)
    }

    fn matched(&self, text: &[u8], pattern: &[u8], init: Option<i64>) -> Result<MultiValue> {
        if let Some(from) = start(init, text.len()) {
            let (matcher, found) = self.first(text, pattern, from)?;
            if let Some((at, end)) = found {
                return self.captured(&matcher, at, end);
            }
        }
        Ok(MultiValue::from_iter([Value::Nil]))
    }

    /// The first match from a place on; of a pattern with `^`, at that place.
    fn first<'m>(
        &'m self,
        text: &'m [u8],
        pattern: &'m [u8],
        from: usize,
    ) -> Result<(Matcher<'m>, Option<(usize, usize)>)> {
        let anchored = pattern.strip_prefix(b"^");
        let mut matcher = Matcher::new(text, anchored.unwrap_or(pattern), self.budget);
        let last = if anchored.is_some() { from } else { text.len() };
        for at in from..=last {
            if let Some(end) = matcher.match_at(at).map_err(Error::runtime)? {
                return Ok((matcher, Some((at, end))));
            }
        }
        Ok((matcher, None))
    }

    /// The captures of a match, or all of it if the pattern has none.
    fn captured(&self, matcher: &Matcher<'_>, at: usize, end: usize) -> Result<MultiValue> {
        let steps = STEPS_PER_MATCH * (1 + matcher.captures().len());
        self.budget.take_pattern_steps(steps).map_err(Error::runtime)?;
        if matcher.captures().is_empty() {
            let whole = self.lua.create_string(&matcher.text()[at..end])?;
            return Ok(MultiValue::from_iter([Value::String(whole)]));
        }
        let each = matcher.captures().iter().map(|capture| self.value(matcher, *capture));
        each.collect::<Result<Vec<_>>>().map(MultiValue::from_iter)
    }

    fn value(&self, matcher: &Matcher<'_>, capture: Capture) -> Result<Value> {
        match capture {
            Capture::Text { from, to } => {
                self.lua.create_string(&matcher.text()[from..to]).map(Value::String)
            }
            Capture::Position(at) => Ok(Value::Integer(at as i64 + 1)),
            Capture::Open { .. } => Err(Error::runtime("unfinished capture")),
        }
    }

    /// The next match behind so many bytes, that does not end where the last one did: the bytes before it and up to
    /// its end, and its captures. Nothing, if there is none.
    fn next_match(
        &self,
        text: &[u8],
        pattern: &[u8],
        at: usize,
        last: Option<usize>,
    ) -> Result<MultiValue> {
        let anchored = pattern.strip_prefix(b"^");
        let mut matcher = Matcher::new(text, anchored.unwrap_or(pattern), self.budget);
        let furthest = if anchored.is_some() { at } else { text.len() };
        for at in at..=furthest {
            let end = matcher.match_at(at).map_err(Error::runtime)?;
            if let Some(end) = end.filter(|end| last != Some(*end)) {
                let mut values = self.captured(&matcher, at, end)?;
                values.push_front(Value::Integer(end as i64));
                values.push_front(Value::Integer(at as i64));
                return Ok(values);
            }
        }
        Ok(MultiValue::new())
    }

    /// `gsub` with a text.
    fn substitute(
        &self,
        text: &[u8],
        pattern: &[u8],
        with: &[u8],
        most: Option<i64>,
    ) -> Result<MultiValue> {
        let anchored = pattern.strip_prefix(b"^");
        let mut matcher = Matcher::new(text, anchored.unwrap_or(pattern), self.budget);
        let most = most.map_or(u64::MAX, |most| u64::try_from(most).unwrap_or(0));
        let (mut out, mut at, mut count, mut last) = (Vec::new(), 0, 0, None);
        while count < most {
            let end = matcher.match_at(at).map_err(Error::runtime)?;
            if let Some(end) = end.filter(|end| last != Some(*end)) {
                count += 1;
                let captures = self.captured(&matcher, at, end)?;
                self.fill(&matcher, (at, end), with, &captures, &mut out)?;
                (at, last) = (end, Some(end));
            } else if let Some(byte) = text.get(at) {
                out.push(*byte);
                at += 1;
            } else {
                break;
            }
            if out.len() > LUA_MEMORY_BYTES_MAX {
                return Err(Error::MemoryError("not enough memory".to_owned()));
            }
            if anchored.is_some() {
                break;
            }
        }
        out.extend_from_slice(text.get(at..).unwrap_or_default());
        let made = Value::String(self.lua.create_string(&out)?);
        Ok(MultiValue::from_iter([made, Value::Integer(count as i64)]))
    }

    fn text(&self, value: &Value) -> Result<LuaString> {
        let text = self.lua.coerce_string(value.clone())?;
        text.ok_or_else(|| Error::runtime("a text is expected"))
    }

    /// Appends a text in which `%0` to `%9` stand for the match and its captures.
    fn fill(
        &self,
        matcher: &Matcher<'_>,
        (at, end): (usize, usize),
        with: &[u8],
        captures: &MultiValue,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut bytes = with.iter();
        while let Some(byte) = bytes.next() {
            if *byte != b'%' {
                out.push(*byte);
                continue;
            }
            match bytes.next() {
                Some(b'%') => out.push(b'%'),
                Some(b'0') => out.extend_from_slice(&matcher.text()[at..end]),
                Some(digit @ b'1'..=b'9') => {
                    // An empty capture appends nothing, so what is appended does not bound the loop.
                    self.budget.take_pattern_steps(STEPS_PER_MATCH).map_err(Error::runtime)?;
                    let index = usize::from(digit - b'1');
                    let capture = captures.get(index).ok_or_else(|| {
                        Error::runtime(format!(
                            "invalid capture index %{} in replacement string",
                            index + 1
                        ))
                    })?;
                    out.extend_from_slice(&self.text(capture)?.as_bytes());
                }
                _ => return Err(Error::runtime("invalid use of '%' in replacement string")),
            }
            if out.len() > LUA_MEMORY_BYTES_MAX {
                return Err(Error::MemoryError("not enough memory".to_owned()));
            }
        }
        Ok(())
    }
}
