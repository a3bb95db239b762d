//! The rules that clippy and rustc have no lint for, on every file that git tracks.
//!
//!   header     a Rust file opens with `//!`
//!   size       at most 600 lines without the tests at its end, comments at most 120 columns wide
//!   names      no `utils`, `common`, `misc`, `helpers`
//!   notes      nothing left "to do" or to be fixed; no path of somebody's machine
//!   words      no doc comment of two words, or that begins with an amount that nothing names ("So many"); none of
//!              the private words that the field has a term for
//!   links      a document's links lead to files that are there, and so do files that comments name
//!   imports    those of the language, of other crates and of this one: three groups, in this order
//!   tests      at the end of the file while they are short, in a file `tests.rs` if not
//!   errors     an error that a closure or an arm takes is named `error`
//!   places     `unsafe` and the runtime's crate stand only in the files listed here
//!
//! Invariant: a rule has no list of exceptions that are allowed to be worse, only places with a
//! reason; a file that may lift the ban on `unsafe` and does not loses that permission.
//!
//! Not here: what rustfmt and clippy check (`clippy.toml`: the length of functions, what the
//! storage may not call; the workspace's lints: `unsafe`, `unwrap`, the form of modules).

mod imports;
#[cfg(test)]
mod tests;

use crate::repository::TextFile;

/// A file without its tests.
const FILE_LINES_MAX: usize = 600;
/// Comments; rustfmt keeps code within 100. Texts may be as long as they must.
const LINE_COLUMNS_MAX: usize = 120;

/// Tests at the end of the file that they test.
const TEST_LINES_MAX: usize = 130;

/// Names of errors that are not whole words, as closures and arms spell them.
const SHORT_ERRORS: [&str; 6] =
    ["map_err(|e|", "_err(|err|", "Err(e)", "Err(err)", "Err(e @", "else(|e|"];

/// Words of a doc comment at least.
const DOC_WORDS_MIN: usize = 3;
/// A doc comment that begins so speaks of an amount before it says what it is: "At most this many .." does.
const VAGUE_BEGINNINGS: [&str; 3] = ["So many ", "So much ", "So long "];
/// Words that tell a newcomer nothing: the glossary has a term, or the sentence a noun, for each.
const PRIVATE_WORDS: [&str; 11] = [
    "room", "rooms", "house", "door", "doors", "dice", "crooked", "whoever", "nobody", "intake",
    "outlet",
];
/// A file named so would hold what has no place.
const BANNED_NAMES: [&str; 8] =
    ["utils", "util", "common", "misc", "helpers", "helper", "stuff", "shared"];
/// Files whose lines are code.
const CODE_ENDINGS: [&str; 7] = [".rs", ".py", ".js", ".go", ".java", ".sh", ".rn"];
/// Folders that exist only on somebody's machine.
const MACHINE_PATHS: [&str; 3] = ["/work", "/root/", "/home/"];

/// Files that may lift rustc's ban on `unsafe`; each says why where it does.
const UNSAFE_FILES: [&str; 15] = [
    "bench/src/cost/allocations.rs",
    "engine/src/io/affinity.rs",
    "engine/src/io/closing.rs",
    "engine/src/io/dma.rs",
    "engine/src/io/ring.rs",
    "engine/src/memtable/prefetch.rs",
    "server/src/main.rs",
    "server/src/os.rs",
    "shard/src/mailbox/ring.rs",
    "shard/src/os/bridge.rs",
    "shard/src/os/cpu_time.rs",
    "shard/src/os/cpus.rs",
    "shard/src/os/epoll.rs",
    "shard/src/os/eventfd.rs",
    "tools/src/client/sys.rs",
];
/// Where glommio may be named: it stays replaceable only while few know it.
const RUNTIME_PLACES: [&str; 4] =
    ["engine/src/io/", "engine/tests/disk_contract.rs", "shard/", "server/"];

/// All complaints, each `path:line: what is wrong`.
pub(crate) fn check(files: &[TextFile]) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in files {
        check_name(file, &mut complaints);
        check_lines(file, &mut complaints);
        if file.path.ends_with(".rs") {
            check_rust(file, &mut complaints);
            check_docs(file, &mut complaints);
            check_examples(file, &mut complaints);
            check_named_files(file, files, &mut complaints);
            if !file.path.starts_with("ci/src/tidy") {
                check_errors(file, &mut complaints);
                imports::check(file, &mut complaints);
            }
        }
        if file.path.ends_with(".md") {
            check_links(file, files, &mut complaints);
        }
    }
    let is_unsafe =
        |path: &&str| files.iter().any(|file| file.path == **path && lifts_unsafe(&file.text));
    complaints.extend(
        UNSAFE_FILES
            .iter()
            .filter(|path| !is_unsafe(path))
            .map(|path| format!("{path}: needs no `unsafe`: unlist it")),
    );
    complaints
}

fn check_errors(file: &TextFile, complaints: &mut Vec<String>) {
    for (number, line) in (1..).zip(file.text.lines()) {
        if SHORT_ERRORS.iter().any(|short| line.contains(short)) {
            complaints.push(format!("{}:{number}: an error is named `error`", file.path));
        }
    }
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
    let is_rust = file.path.ends_with(".rs");
    let is_code = CODE_ENDINGS.iter().any(|ending| file.path.ends_with(ending));
    // Spelled in two halves, so that this file passes its own rule.
    let notes = [concat!("TO", "DO"), concat!("FIX", "ME")];
    for (number, line) in (1..).zip(file.text.lines()) {
        let at = format!("{}:{number}", file.path);
        // Of Rust, rustfmt sees to what is no comment.
        let is_ours = is_code && (!is_rust || is_comment(line)) && !line.contains(['"', '`']);
        if is_ours && line.chars().count() > LINE_COLUMNS_MAX {
            complaints.push(format!("{at}: longer than {LINE_COLUMNS_MAX} columns"));
        }
        if file.path.ends_with(".lock") || file.path.ends_with(".sum") {
            continue;
        }
        let words = words_of(line);
        if let Some(note) = notes.iter().find(|note| words.contains(note)) {
            complaints.push(format!("{at}: {note}: do it, or write an issue"));
        }
        let is_text = is_code || file.path.ends_with(".md");
        if is_text
            && !file.path.starts_with("ci/src/tidy")
            && let Some(word) = PRIVATE_WORDS.iter().find(|word| words.contains(word))
        {
            complaints.push(format!("{at}: `{word}`: use the field's word (docs/GLOSSARY.md)"));
        }
        if is_code && !file.path.starts_with("ci/src/tidy") && names_machine(line) {
            complaints.push(format!("{at}: names a folder of somebody's machine"));
        }
    }
}

/// A doc comment says what a value is, its unit or shape: two words do not.
fn check_docs(file: &TextFile, complaints: &mut Vec<String>) {
    let mut words = 0;
    for (number, line) in (1..).zip(file.text.lines()) {
        match line.trim_start().strip_prefix("///") {
            Some(text) => {
                let vague =
                    VAGUE_BEGINNINGS.iter().find(|vague| text.trim_start().starts_with(**vague));
                if let Some(vague) = vague.filter(|_| words == 0) {
                    complaints
                        .push(format!("{}:{number}: `{vague}..`: say of what first", file.path));
                }
                words += text.split_whitespace().count();
            }
            None => {
                if (1..DOC_WORDS_MIN).contains(&words) {
                    let at = number - 1;
                    complaints.push(format!("{}:{at}: a doc comment of {words} words", file.path));
                }
                words = 0;
            }
        }
    }
}

/// No step runs examples in doc comments (nextest does not): a block of them is text, and a program is a test.
fn check_examples(file: &TextFile, complaints: &mut Vec<String>) {
    let mut is_open = false;
    for (number, line) in (1..).zip(file.text.lines()) {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or(line.strip_prefix("//!"));
        let Some(language) = doc.and_then(|doc| doc.trim().strip_prefix("```")) else { continue };
        if !is_open && language != "text" {
            complaints.push(format!("{}:{number}: an example that no step runs", file.path));
        }
        is_open = !is_open;
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn names_machine(line: &str) -> bool {
    MACHINE_PATHS.iter().any(|path| line.split(['"', '\'', ' ', '`']).any(|w| w.starts_with(path)))
}

/// The words of a line: letters, digits and `_`.
fn words_of(line: &str) -> Vec<&str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').collect()
}

/// True if a Rust text names the crate as the head of a path, `name::`, outside comments.
pub(crate) fn names_crate(text: &str, name: &str) -> bool {
    let path = format!("{name}::");
    let is_head = |before: &str| {
        !before.ends_with("::") && !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
    };
    let code = text.lines().filter(|line| !is_comment(line));
    code.map(|line| line.split(" // ").next().unwrap_or(line))
        .any(|line| line.match_indices(&path).any(|(at, _)| is_head(&line[..at])))
}

/// True if a file lifts the ban on `unsafe` for itself.
fn lifts_unsafe(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("#![expect(unsafe_code"))
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
        // Code spans that are paths of a crate: `engine/src/read.rs`.
        for span in line.split('`').skip(1).step_by(2) {
            if is_source_path(span) && !is_there(span, files) {
                complaints.push(format!("{}:{number}: no {span} to read", file.path));
            }
        }
    }
}

/// A Rust file that a code span of a comment names exists in the same crate, under any folder, or in
/// the repository under that path.
fn check_named_files(file: &TextFile, files: &[TextFile], complaints: &mut Vec<String>) {
    let own_crate = crate_folder(&file.path);
    let is_path = |span: &str| {
        span.ends_with(".rs")
            && span.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
    };
    for (number, line) in (1..).zip(file.text.lines()) {
        if !is_comment(line) {
            continue;
        }
        for span in line.split('`').skip(1).step_by(2).filter(|span| is_path(span)) {
            let ending = format!("/{span}");
            let is_it =
                |path: &str| path == span || path.starts_with(own_crate) && path.ends_with(&ending);
            if !files.iter().any(|other| is_it(&other.path)) {
                complaints.push(format!("{}:{number}: no {span} in {own_crate}", file.path));
            }
        }
    }
}

/// The folder of the crate that a Rust file belongs to, with its last slash: all before `src/`,
/// `tests/`, `benches/` or the file itself.
fn crate_folder(path: &str) -> &str {
    let inner = ["src/", "tests/", "benches/"];
    let starts = inner.iter().filter_map(|name| match path.find(&format!("/{name}")) {
        Some(at) => Some(at + 1),
        None => path.starts_with(name).then_some(0),
    });
    let end = starts.min().or_else(|| path.rfind('/').map(|at| at + 1));
    &path[..end.unwrap_or(0)]
}

/// A file of the repository, or a folder with one, whether or not a slash ends its name.
fn is_there(path: &str, files: &[TextFile]) -> bool {
    let path = path.trim_end_matches('/');
    let within = |rest: &str| rest.is_empty() || rest.starts_with('/');
    files.iter().any(|file| file.path.strip_prefix(path).is_some_and(within))
}

fn is_source_path(span: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    span.split_once("/src/").is_some_and(|(name, _)| !name.is_empty()) && span.chars().all(is_plain)
}

fn check_rust(file: &TextFile, complaints: &mut Vec<String>) {
    let path = &file.path;
    if !file.text.starts_with("//!") {
        complaints.push(format!("{path}:1: no `//!` header: what it is, its invariants"));
    }
    if lifts_unsafe(&file.text) && !UNSAFE_FILES.contains(&path.as_str()) {
        complaints.push(format!("{path}: `unsafe` outside of {UNSAFE_FILES:?}"));
    }
    let may_name = RUNTIME_PLACES.iter().any(|place| path.starts_with(place));
    if names_crate(&file.text, "glommio") && !may_name && !path.starts_with("ci/src/tidy") {
        complaints.push(format!("{path}: `glommio` outside of {RUNTIME_PLACES:?}"));
    }
    let size = size(&file.text);
    if !is_test_file(path) && size > FILE_LINES_MAX {
        complaints.push(format!("{path}: {size} lines without tests, over {FILE_LINES_MAX}"));
    }
    let tests = file.text.lines().count().saturating_sub(size + 1);
    if tests > TEST_LINES_MAX {
        let at = size + 2;
        complaints.push(format!("{path}:{at}: {tests} lines of tests: a file `tests.rs` for them"));
    }
}

/// How many lines a file has before the test modules at its end.
fn size(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let opens_tests = |pair: &[&str]| {
        pair[0] == "#[cfg(test)]" && pair[1].contains("mod ") && pair[1].ends_with('{')
    };
    lines.windows(2).position(opens_tests).unwrap_or(lines.len())
}

/// Tests and benchmarks may be as long as their tables.
fn is_test_file(path: &str) -> bool {
    path.split('/').any(|part| ["tests", "tests.rs", "benches", "fuzz"].contains(&part))
}
