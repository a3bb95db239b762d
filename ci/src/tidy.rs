//! The house rules that a machine can check, on every file that git tracks.
//!
//!   header     a Rust file opens with `//!`
//!   size       at most 600 lines without tests, functions at most 70, lines at most 120 columns
//!   names      no `utils`, `common`, `misc`, `helpers`
//!   notes      nothing left "to do" or to be fixed; no path of somebody's machine
//!   links      a document's links lead to files that are there
//!   rooms      `unsafe` and the runtime's crate stand only where `rooms.rs` says
//!
//! Invariant: a rule has no list of exceptions that are allowed to be worse, only rooms with a
//! reason, and a room that does not use its permission loses it.
//!
//! Not here: what rustfmt and clippy check.

mod rooms;
#[cfg(test)]
mod tests;

use crate::repository::TextFile;
use crate::source::Source;

/// A file without its tests.
const FILE_LINES_MAX: usize = 600;
/// A function with its signature.
const FUNCTION_LINES_MAX: usize = 70;
/// Comments and macros; rustfmt keeps the rest within 100. Texts may be as long as they must.
const LINE_COLUMNS_MAX: usize = 120;

/// A room named so would hold what has no place.
const BANNED_NAMES: [&str; 8] =
    ["utils", "util", "common", "misc", "helpers", "helper", "stuff", "shared"];
/// Files whose lines are code.
const CODE_ENDINGS: [&str; 7] = [".rs", ".py", ".js", ".go", ".java", ".sh", ".rn"];
/// Folders that exist only on somebody's machine.
const MACHINE_PATHS: [&str; 3] = ["/work", "/root/", "/home/"];

/// All complaints, each `path:line: what is wrong`.
pub(crate) fn check(files: &[TextFile]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files {
        check_name(file, &mut complaints);
        check_lines(file, &mut complaints);
        if file.path.ends_with(".rs") {
            check_rust(file, &mut complaints);
        }
        if file.path.ends_with(".md") {
            check_links(file, files, &mut complaints);
        }
    }
    complaints.extend(rooms::check_all_used(files));
    complaints
}

fn check_name(file: &TextFile, complaints: &mut Vec<String>) {
    for part in file.path.split('/') {
        let stem = part.split('.').next().unwrap_or(part);
        if BANNED_NAMES.contains(&stem) {
            complaints.push(format!("{}: `{stem}` is no noun of the product", file.path));
        }
    }
}

fn check_lines(file: &TextFile, complaints: &mut Vec<String>) {
    let rust = file.path.ends_with(".rs").then(|| Source::new(&file.text));
    let is_code = CODE_ENDINGS.iter().any(|ending| file.path.ends_with(ending));
    // Spelled in two halves, so that this file passes its own rule.
    let notes = [concat!("TO", "DO"), concat!("FIX", "ME")];
    for (number, line) in (1..).zip(file.text.lines()) {
        let at = format!("{}:{number}", file.path);
        let holds_text = match &rust {
            Some(source) => source.is_text(number - 1),
            None => line.contains(['"', '`']),
        };
        if is_code && line.chars().count() > LINE_COLUMNS_MAX && !holds_text {
            complaints.push(format!("{at}: longer than {LINE_COLUMNS_MAX} columns"));
        }
        if file.path.ends_with(".lock") || file.path.ends_with(".sum") {
            continue;
        }
        if let Some(note) = notes.iter().find(|note| has_word(line, note)) {
            complaints.push(format!("{at}: {note}: do it, or write an issue"));
        }
        if is_code && !file.path.starts_with("ci/src/tidy") && names_machine(line) {
            complaints.push(format!("{at}: names a folder of somebody's machine"));
        }
    }
}

fn names_machine(line: &str) -> bool {
    MACHINE_PATHS.iter().any(|path| line.split(['"', '\'', ' ', '`']).any(|w| w.starts_with(path)))
}

fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|w| w == word)
}

/// Links within the repository; those that leave it cannot be checked without a network.
fn check_links(file: &TextFile, files: &[TextFile], complaints: &mut Vec<String>) {
    let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    for (number, line) in (1..).zip(file.text.lines()) {
        for target in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = target.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let mut path: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
            for part in target.split('/') {
                match part {
                    ".." => drop(path.pop()),
                    "." | "" => {}
                    part => path.push(part),
                }
            }
            let path = path.join("/");
            if !is_there(&path, files) {
                complaints.push(format!("{}:{number}: no {path} to link to", file.path));
            }
        }
        // Code spans that are paths of a room: `engine/src/read.rs`.
        for span in line.split('`').skip(1).step_by(2) {
            if is_source_path(span) && !is_there(span, files) {
                complaints.push(format!("{}:{number}: no {span} to read", file.path));
            }
        }
    }
}

/// A file of the repository, or a folder with one.
fn is_there(path: &str, files: &[TextFile]) -> bool {
    let within = |rest: &str| rest.is_empty() || rest.starts_with('/');
    files.iter().any(|file| file.path.strip_prefix(path).is_some_and(within))
}

fn is_source_path(span: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    span.split_once("/src/").is_some_and(|(room, _)| !room.is_empty()) && span.chars().all(is_plain)
}

fn check_rust(file: &TextFile, complaints: &mut Vec<String>) {
    let path = &file.path;
    if !file.text.starts_with("//!") {
        complaints.push(format!("{path}:1: no `//!` header: what it is, its invariants"));
    }
    let source = Source::new(&file.text);
    complaints.extend(rooms::check(path, &source));
    if is_test_file(path) {
        return;
    }
    if source.size() > FILE_LINES_MAX {
        let size = source.size();
        complaints.push(format!("{path}: {size} lines without tests, over {FILE_LINES_MAX}"));
    }
    for function in source.functions() {
        let (size, line) = (function.lines.len(), function.lines.start + 1);
        if size > FUNCTION_LINES_MAX {
            let name = function.name;
            complaints.push(format!("{path}:{line}: `{name}` has {size} lines, over 70"));
        }
    }
}

/// Tests and benchmarks may be as long as their tables.
fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| ["tests", "tests.rs", "benches", "fuzz"].contains(&part))
}
