//! `string.find`, `match`, `gmatch` and `gsub`, over the matcher that counts its steps.
//!
//! As Lua 5.4 has them, positions counted from 1 and from the end, but that the text that `gsub` makes is bounded by the
//! memory of the state before it is made.

use std::rc::Rc;

use mlua::{Error, Function, Lua, LuaString, MultiValue, Result, Table, Value};

use super::pattern::{Capture, Matcher};
use crate::budget::Budget;
use crate::limits::LUA_MEMORY_BYTES_MAX;

/// Bytes that are special in a pattern.
const SPECIALS: &[u8] = b"^$*+?.([%-";

/// What a match counts for among steps, beside its own: its captures become values.
const STEPS_PER_MATCH: usize = 20;

/// The four functions, by name.
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
    let gmatch = move |lua: &Lua, (text, pattern, init): MatchArguments| {
        let mut next = start(init, text.as_bytes().len());
        let (mut last, own) = (None, own.clone());
        lua.create_function_mut(move |lua, ()| {
            let (text, pattern) = (text.as_bytes(), pattern.as_bytes());
            let search = Search { lua, budget: &own };
            let mut matcher = Matcher::new(&text, &pattern, &own);
            while let Some(at) = next.filter(|at| *at <= text.len()) {
                let end = matcher.match_at(at).map_err(Error::runtime)?;
                if let Some(end) = end.filter(|end| last != Some(*end)) {
                    own.take_pattern_steps(STEPS_PER_MATCH).map_err(Error::runtime)?;
                    (next, last) = (Some(end), Some(end));
                    return search.captured(&matcher, at, end);
                }
                next = Some(at + 1);
            }
            Ok(MultiValue::from_iter([Value::Nil]))
        })
    };
    table.set("gmatch", lua.create_function(gmatch)?)?;
    let own = budget.clone();
    let gsub = move |lua: &Lua, (text, pattern, with, most): GsubArguments| {
        Search { lua, budget: &own }.gsub(&text.as_bytes(), &pattern.as_bytes(), &with, most)
    };
    table.set("gsub", lua.create_function(gsub)?)?;
    Ok(table)
}

type FindArguments = (LuaString, LuaString, Option<i64>, Option<bool>);
type MatchArguments = (LuaString, LuaString, Option<i64>);
type GsubArguments = (LuaString, LuaString, Value, Option<i64>);

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

    fn gsub(
        &self,
        text: &[u8],
        pattern: &[u8],
        with: &Value,
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
                self.budget.take_pattern_steps(STEPS_PER_MATCH).map_err(Error::runtime)?;
                self.replace(&matcher, at, end, with, &mut out)?;
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

    /// Appends what takes the place of a match.
    fn replace(
        &self,
        matcher: &Matcher<'_>,
        at: usize,
        end: usize,
        with: &Value,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let mut captures = self.captured(matcher, at, end)?;
        let made = match with {
            Value::Table(table) => {
                let key = captures.pop_front().unwrap_or(Value::Nil);
                table.get::<Value>(key)?
            }
            Value::Function(function) => call(function, captures)?,
            Value::String(text) => {
                return self.fill(matcher, (at, end), &text.as_bytes(), &captures, out);
            }
            Value::Integer(_) | Value::Number(_) => {
                let text = self.text(with)?;
                return self.fill(matcher, (at, end), &text.as_bytes(), &captures, out);
            }
            _ => {
                return Err(Error::runtime(format!(
                    "bad argument #3 to 'gsub' (string/function/table expected, got {})",
                    with.type_name()
                )));
            }
        };
        match made {
            Value::Nil | Value::Boolean(false) => {
                out.extend_from_slice(&matcher.text()[at..end]);
            }
            Value::String(_) | Value::Integer(_) | Value::Number(_) => {
                out.extend_from_slice(&self.text(&made)?.as_bytes());
            }
            other => {
                let what = other.type_name();
                return Err(Error::runtime(format!("invalid replacement value (a {what})")));
            }
        }
        Ok(())
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

/// The first value that a function of the body gives.
fn call(function: &Function, captures: MultiValue) -> Result<Value> {
    function.call::<Value>(captures)
}
