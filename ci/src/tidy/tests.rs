//! Each rule catches what it is for, and lets the rest pass.

use super::*;

fn complaints(path: &str, text: &str) -> Vec<String> {
    let file = TextFile { path: path.to_owned(), text: text.to_owned() };
    let mut complaints = check(std::slice::from_ref(&file));
    // The files of the real repository are not in this one.
    complaints.retain(|complaint| complaint.starts_with(path));
    complaints
}

#[test]
fn a_file_in_order_passes() {
    assert_eq!(complaints("engine/src/read.rs", "//! x\nfn a() {}\n"), Vec::<String>::new());
}

#[test]
fn each_rule_catches_its_violation() {
    let long_line = format!("//! x\n// {}\n", "é".repeat(118));
    let long_file = format!("//! x\n{}", "const A: u8 = 0;\n".repeat(600));
    let note = format!("//! x\n// {}: later\n", concat!("TO", "DO"));
    let long_tests = format!("//! x\n#[cfg(test)]\nmod tests {{\n{}}}\n", "//\n".repeat(129));
    for (path, text, expected) in [
        ("engine/src/a.rs", "fn a() {}\n", "no `//!` header"),
        ("engine/src/a.rs", &long_line, ":2: longer than 120 columns"),
        ("engine/src/a.rs", &long_file, "601 lines without tests"),
        ("engine/src/utils.rs", "//! x\n", "`utils` is no noun"),
        ("engine/src/common/a.rs", "//! x\n", "`common` is no noun"),
        ("engine/src/a.rs", &note, "do it, or write an issue"),
        ("engine/src/a.rs", "//! x\n#![expect(unsafe_code)]\n", "`unsafe` outside"),
        ("engine/src/read.rs", "//! x\nuse glommio::io;\n", "`glommio` outside"),
        ("docs/a.md", "\n[a](a.md) [b](../b.md#c) [c](http://c)\n", ":2: no b.md to link to"),
        ("docs/a.md", "`docs/a.md` `a/src/*`\nsee `cql/src/gone.rs`\n", ":2: no cql/src/gone.rs"),
        ("tools/src/a.py", "open('/home/me/x')\n", ":1: names a folder"),
        (
            "engine/src/a.rs",
            "//! x\n/// The size.\nconst A: u8 = 0;\n",
            ":2: a doc comment of 2 words",
        ),
        (
            "engine/src/a.rs",
            "//! x\n/// So many bytes are kept.\nconst A: u8 = 0;\n",
            ":2: `So many ..`: say of what first",
        ),
        ("engine/src/a.rs", "//! x\n//! ```\n//! a();\n//! ```\n", ":2: an example that no step"),
        ("engine/src/a.rs", "//! x\nfn a() { b().map_err(|e| e) }\n", ":2: an error is named"),
        (
            "engine/src/a.rs",
            "//! `a.rs` `src/a.rs` `*.rs`\n//! see `gone.rs`\n",
            ":2: no gone.rs in engine/",
        ),
        ("engine/src/a.rs", "//! x\nuse std::a;\nuse crate::b;\n", ":3: imports"),
        ("engine/src/a.rs", "//! x\nuse crate::a;\n\nuse std::b;\n", ":4: imports"),
        ("engine/src/a.rs", &long_tests, ":3: 131 lines of tests"),
        ("docs/a.md", "a house of cards\n", ":1: `house`: use the field's word"),
    ] {
        let found = complaints(path, text);
        assert!(found.len() == 1 && found[0].contains(expected), "{expected}: {found:?}");
    }
}

#[test]
fn what_only_looks_like_a_violation_passes() {
    let code = "fn a() {}\n".repeat(590);
    let long_test = format!("//! x\n{code}#[cfg(test)]\nmod t {{\n{}}}\n", "//\n".repeat(128));
    let long_text = format!("//! x\nconst A: &str = \"{}\";\n", "x".repeat(200));
    for (path, text) in [
        ("engine/src/io/sim.rs", "//! x\nuse glommio::io;\n"),
        (
            "cql/src/a.rs",
            "//! glommio::io and unsafe, in words\nuse my_glommio::x; // glommio::x\n",
        ),
        ("engine/src/a.rs", &long_test),
        ("cql/src/a/FORMAT.md", "the folder `cql/src/a/`\n"),
        ("engine/src/a.rs", &long_text),
    ] {
        assert_eq!(complaints(path, text), Vec::<String>::new());
    }
}

#[test]
fn a_permission_that_is_not_used_is_a_complaint() {
    let complaints = check(&[]);
    assert_eq!(complaints.len(), UNSAFE_FILES.len());
    assert!(complaints[0].ends_with("needs no `unsafe`: unlist it"));
}

#[test]
fn a_crate_is_named_only_as_the_head_of_a_path() {
    assert!(names_crate("use cql::frame;", "cql"));
    assert!(!names_crate("use crate::cql::frame; // cql::x", "cql"));
    assert!(!names_crate("let cql = my_cql::x;", "cql"));
}
