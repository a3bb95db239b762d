//! Bodies of functions in both languages, called with arguments, within what a call may take.
//!
//! ```text
//! input   language  argument's type  result's type  length of the argument  argument  body
//!         1 byte    1 byte           1 byte         1 byte (255: null)
//! ```
//!
//! 1. Whatever the body is, a call ends: in a value of the result's type, in order, or in an error.
//! 2. It takes no longer than ten calls may, which is far from for ever.
//! 3. A second call finds nothing of the first: it ends the same, unless time ended one of them.
//!
//! Not here: what is created and called by statements (`statements.rs`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use cql::expr::function::UserFunctions;
use cql::expr::{ExpressionWork, normalized};
use functions::Functions;
use model::schema::{FunctionLanguage, UserFunction};
use rustix::time::{ClockId, clock_gettime};

use crate::targets::types;

/// Longest time that two calls and their compiling may take, in ms: not optimized, and with counters.
const TIME_MS_MAX: u64 = 2_000;

/// How long this thread has computed.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Compiles and calls what the input says.
pub(crate) fn run(input: &[u8]) {
    let Some((&[language, argument, result, length], rest)) = input.split_first_chunk() else {
        return;
    };
    let types = types();
    let of = |byte: u8| types[usize::from(byte) % types.len()].clone();
    let length = if length == 255 { 0 } else { usize::from(length) };
    let Some((value, body)) = rest.split_at_checked(length) else { return };
    let value = (input[3] != 255).then_some(value);
    let Ok(body) = std::str::from_utf8(body) else { return };
    let function = Arc::new(UserFunction {
        keyspace: "ks".to_owned(),
        name: "f".to_owned(),
        arguments: vec![("a".to_owned(), of(argument))],
        result: of(result),
        called_on_null: language & 2 == 0,
        language: if language & 1 == 0 { FunctionLanguage::Lua } else { FunctionLanguage::Wasm },
        body: body.to_owned(),
    });
    // A call gets values of its types.
    if value.is_some_and(|value| of(argument).validate(value).is_err()) {
        return;
    }
    if value.is_none() && !function.called_on_null {
        return;
    }
    let begun = computed();
    let functions = Functions::new(Instant::now);
    if functions.check(&function).is_err() {
        return;
    }
    let first = functions.call(&function, &[value]);
    let second = functions.call(&function, &[value]);
    let time = computed() - begun;
    assert!(time < Duration::from_millis(TIME_MS_MAX), "two calls took {time:?}");
    if let Ok(Some(value)) = &first {
        function.result.validate(value).expect("a result is a value of its type");
        let work = ExpressionWork::default();
        let ordered = normalized(&function.result, value, &work).expect("a valid value");
        assert_eq!(*ordered, value[..], "a result is in order");
    }
    let ended_by_time = |text: &str| text.contains("ms in one call");
    if let (Err(a), Ok(_)) | (Ok(_), Err(a)) = (&first, &second) {
        assert!(ended_by_time(&a.to_string()), "one of two calls failed: {a}");
    }
}
