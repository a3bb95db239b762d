//! One order of imports: of the language, of other crates, of this crate, a blank line between.
//!
//! ```text
//! use std::rc::Rc;          Language
//!                           a blank line
//! use model::Schema;        Others
//!                           a blank line
//! use crate::read::Page;    Ours
//! ```
//!
//! rustfmt sorts within a group; the setting that makes the groups, `group_imports`, is one of the
//! nightly toolchain: `cargo +nightly fmt -- --config group_imports=StdExternalCrate` mends a file.

use crate::repository::TextFile;

/// What an import begins with, in the order of the groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Language,
    Others,
    Ours,
}

/// The complaints about one file.
pub(super) fn check(file: &TextFile, complaints: &mut Vec<String>) {
    let mut before: Option<Group> = None;
    let mut is_after_blank = true;
    let mut is_inside = false;
    for (number, line) in (1..).zip(file.text.lines()) {
        if is_inside {
            is_inside = !line.ends_with(';');
        } else if line.trim().is_empty() {
            is_after_blank = true;
        } else if let Some(group) = group(line) {
            let is_fine = match before {
                Some(before) if is_after_blank => before < group,
                Some(before) => before == group,
                None => true,
            };
            if !is_fine {
                complaints.push(format!("{}:{number}: imports: std, others, ours", file.path));
            }
            (before, is_after_blank, is_inside) = (Some(group), false, !line.ends_with(';'));
        } else if !line.trim_start().starts_with("#[") {
            (before, is_after_blank) = (None, false);
        }
    }
}

/// The group of a line that begins an import.
fn group(line: &str) -> Option<Group> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub").map_or(line, |rest| rest.trim_start_matches("(crate)"));
    let path = line.trim_start().strip_prefix("use ")?;
    let head = path.split([':', ';', ' ', '{']).next().unwrap_or_default();
    Some(match head {
        "std" | "core" | "alloc" => Group::Language,
        "crate" | "super" | "self" => Group::Ours,
        _ => Group::Others,
    })
}
