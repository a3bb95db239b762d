//! Runs what the documents tell the reader to type, in order, as one shell session a document.
//!
//! Every fenced block names its language. One of `sh`, `python` or `cql` is something to type, and
//! carries a second word that says how it is tested:
//!
//!   run      it must succeed; python reads it as a program, cqlsh as statements
//!   serve    it starts a server: the session goes on when its output has a line `ready`,
//!            and after the last block it must end with status 0 on SIGTERM
//!   known    too long to run here, or this very tier: each command is asked for `--help`, so that
//!            its program, its sub-command and its flags must exist
//!
//! A span of the text that begins with `cargo ci` is known too.
//!
//! Invariant: a block without a language is a complaint, and so is one to type without a known
//! second word, so no command block of a document is untested.
//!
//! Not here: whether the text around the commands is true.

use std::net::TcpListener;

use crate::repository::{Repository, TextFile};
use crate::step::{COMMAND_LIMIT, Done, Failure, Log, Outcome};

/// The ports that a server takes when nothing is said: for CQL, and for drivers that choose the shard.
const PORTS: [u16; 2] = [9042, 19042];
/// Programs that only measure: the checks ask for their flags alone, and build them without optimization.
pub(crate) const MEASURING: [&str; 2] = ["cost", "compare"];
/// How long a freshly built server may take to be ready, the build included.
const READY_SECONDS_MAX: u32 = 900;

/// A fenced block.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// Where the fence opens, from 1.
    line: usize,
    /// The first word behind the fence, empty if there is none.
    language: String,
    /// The second word behind the fence, empty if there is none.
    mark: String,
    text: String,
}

impl Block {
    /// True if it holds something to type.
    fn is_command(&self) -> bool {
        ["sh", "python", "cql"].contains(&self.language.as_str())
    }
}

/// The documents with blocks.
pub(crate) fn documents(repository: &Repository) -> Result<Vec<TextFile>, String> {
    let mut files = repository.text_files()?;
    files.retain(|file| file.path.ends_with(".md") && !blocks(&file.text).is_empty());
    Ok(files)
}

/// Tests all blocks of one document.
pub(crate) fn check(repository: &Repository, document: &TextFile, log: &Log) -> Outcome {
    let blocks = blocks(&document.text);
    let complaints: Vec<String> =
        blocks.iter().filter_map(|block| complain(&document.path, block)).collect();
    if !complaints.is_empty() {
        return Err(Failure::from(complaints.join("\n")));
    }
    let blocks: Vec<Block> = blocks.into_iter().filter(Block::is_command).collect();
    if blocks.is_empty() {
        return Ok(Done::Passed(1));
    }
    if blocks.iter().any(|block| block.mark == "serve") {
        let in_use = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_err();
        if let Some(port) = PORTS.into_iter().find(in_use) {
            return Ok(Done::Skipped(format!("port {port} is in use")));
        }
        if repository.root().join("messina-data").exists() {
            return Ok(Done::Skipped("./messina-data exists: it is somebody's".to_owned()));
        }
    }
    let result = run(repository, &script(&document.path, &blocks), log);
    // Only what this session made: the step does not start when the folder was there before.
    if blocks.iter().any(|block| block.mark == "serve") {
        let _ = std::fs::remove_dir_all(repository.root().join("messina-data"));
    }
    result.map(|()| Done::Passed(blocks.len() as u64)).map_err(Failure::from)
}

fn run(repository: &Repository, script: &str, log: &Log) -> Result<(), String> {
    let mut command = repository.command("bash");
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    command.args(["-c", script]).env("CARGO_CI", this);
    log.run(&mut command, COMMAND_LIMIT)
}

fn complain(path: &str, block: &Block) -> Option<String> {
    let Block { line, language, mark, .. } = block;
    if language.is_empty() {
        return Some(format!("{path}:{line}: a block without a language: say what it is"));
    }
    let is_fine = match mark.as_str() {
        "run" => block.is_command(),
        "serve" | "known" => language == "sh",
        "" => !block.is_command(),
        _ => false,
    };
    (!is_fine).then(|| format!("{path}:{line}: `{language} {mark}`: say `run`, `serve` or `known`"))
}

/// The blocks of a document; one that is never closed reaches to its end.
fn blocks(text: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    for (line, words) in (1..).zip(text.lines()) {
        let fence = words.trim_start();
        match &mut open {
            Some(_) if fence.trim_end() == "```" => found.extend(open.take()),
            Some(block) => {
                block.text.push_str(words);
                block.text.push('\n');
            }
            None => {
                let Some(info) = fence.strip_prefix("```") else {
                    found.extend(spans(line, words));
                    continue;
                };
                let mut words = info.split_whitespace().map(str::to_owned);
                let language = words.next().unwrap_or_default();
                let mark = words.next().unwrap_or_default();
                open = Some(Block { line, language, mark, text: String::new() });
            }
        }
    }
    found.extend(open);
    found
}

/// The commands of ours within a line of text, each as a block of its own.
fn spans(line: usize, words: &str) -> impl Iterator<Item = Block> {
    let is_whole = words.matches('`').count().is_multiple_of(2);
    let spans = words.split('`').skip(1).step_by(2).filter(move |_| is_whole);
    let commands = spans.filter(|span| span.starts_with("cargo ci "));
    commands.map(move |text| Block {
        line,
        language: "sh".to_owned(),
        mark: "known".to_owned(),
        text: text.to_owned(),
    })
}

/// One shell program for the whole document.
fn script(path: &str, blocks: &[Block]) -> String {
    let mut script = String::from(
        "set -euo pipefail\n\
         server=; log=$(mktemp)\n\
         trap '[ -z \"$server\" ] || kill -KILL -- \"-$server\" 2>/dev/null; rm -f \"$log\"' EXIT\n\
         trap 'echo \"failed: $block\"' ERR\n",
    );
    for block in blocks {
        script.push_str(&format!("block='{path}:{}'\necho \"== $block\"\n", block.line));
        match (block.mark.as_str(), block.language.as_str()) {
            ("serve", _) => script.push_str(&serve(&block.text)),
            ("known", _) => script.extend(block.text.lines().map(ask_for_help)),
            (_, "python") => script.push_str(&format!("python3 - <<'PY'\n{}PY\n", block.text)),
            (_, "cql") => script.push_str(&format!("cqlsh <<'CQL'\n{}CQL\n", block.text)),
            _ => script.push_str(&block.text),
        }
    }
    script.push_str(
        "if [ -n \"$server\" ]; then block='the server after SIGTERM'\n\
         kill -TERM -- \"-$server\"; wait \"$server\"; server=; fi\n",
    );
    script
}

/// Starts a server in a process group of its own and waits for its line `ready`.
fn serve(command: &str) -> String {
    let command = command.trim();
    format!(
        "set -m; {command} >\"$log\" 2>&1 & server=$!; set +m\n\
         for i in $(seq {READY_SECONDS_MAX}); do\n\
         grep -q '^ready' \"$log\" && break\n\
         kill -0 $server 2>/dev/null || {{ cat \"$log\"; false; }}\n\
         [ $i -lt {READY_SECONDS_MAX} ] || {{ echo 'never ready'; false; }}\n\
         sleep 1; done\n"
    )
}

/// Asks the commands of a documented line for their help, which refuses what it does not know.
fn ask_for_help(line: &str) -> String {
    let line = line.split(" #").next().unwrap_or(line).trim_end();
    if line.is_empty() || line.starts_with('#') {
        return String::new();
    }
    let ask = |command: &str| match command.trim().strip_prefix("cargo ci") {
        Some(rest) => format!("\"$CARGO_CI\"{rest} --help >/dev/null\n"),
        None => format!("{} --help >/dev/null\n", as_built(command.trim())),
    };
    line.split("&&").map(ask).collect()
}

/// The command with the build of its program that a run of the checks makes: same programs, same flags.
fn as_built(command: &str) -> String {
    let (program, rest) = command.split_once(' ').unwrap_or((command, ""));
    let built = program.strip_prefix("target/dist/").or(program.strip_prefix("target/release/"));
    let Some(name) = built else { return command.to_owned() };
    let profile = if MEASURING.contains(&name) { "debug" } else { "release" };
    format!("target/{profile}/{name} {rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_with_their_marks() {
        let text = "a\n```sh run\nls\n```\n```text\n```sh\n```\n```cql\nSELECT\n```\n";
        let found = blocks(text);
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].line, found[0].text.as_str()), (2, "ls\n"));
        assert_eq!(complain("a.md", &found[0]), None);
        assert_eq!(complain("a.md", &found[1]), None);
        assert!(complain("a.md", &found[2]).is_some());
    }

    #[test]
    fn a_block_that_would_go_untested_is_refused() {
        for (text, is_fine) in [
            ("```\ncargo run\n```\n", false),
            ("```sh\ncargo run\n```\n", false),
            ("- in a list:\n  ```sh\n  cargo run\n  ```\n", false),
            ("```sh knwon\ncargo run\n```\n", false),
            ("```python known\nimport x\n```\n", false),
            ("```text known\nx\n```\n", false),
            ("```sh\nnever closed", false),
            ("```text\nx\n```\n", true),
            ("```sh known\ncargo run\n```\n", true),
        ] {
            let found = blocks(text);
            assert_eq!(found.len(), 1, "{text}");
            assert_eq!(complain("a.md", &found[0]).is_none(), is_fine, "{text}");
        }
    }

    #[test]
    fn a_command_of_ours_within_the_text_is_known() {
        let found = blocks("Type `cargo ci fast --no-such` or `ls`.\n| `cargo ci\n");
        assert_eq!(found.len(), 1);
        assert_eq!(
            (found[0].mark.as_str(), found[0].text.as_str()),
            ("known", "cargo ci fast --no-such")
        );
    }

    #[test]
    fn each_command_of_a_known_line_is_asked() {
        let asked = ask_for_help("cargo ci fast && ls --all # both");
        assert_eq!(asked, "\"$CARGO_CI\" fast --help >/dev/null\nls --all --help >/dev/null\n");
    }

    #[test]
    fn programs_are_asked_in_the_build_that_is_there() {
        assert_eq!(as_built("target/dist/compare --x a"), "target/debug/compare --x a");
        assert_eq!(as_built("target/release/messina-load run"), "target/release/messina-load run");
        assert_eq!(as_built("target/dist/messina"), "target/release/messina ");
        assert_eq!(as_built("cargo build --release"), "cargo build --release");
    }

    #[test]
    fn a_session_fails_with_the_place_of_the_block() {
        let repository = Repository::find().unwrap();
        let log = crate::step::Report::new(repository.log_folder()).log("documents test");
        let session = |text: &str| run(&repository, &script("a.md", &blocks(text)), &log);
        assert_eq!(session("```sh run\na=1\n```\n```sh run\n[ $a = 1 ]\n```\n"), Ok(()));
        assert!(session("```sh run\ntrue\n```\n```sh run\nfalse\n```\n").is_err());
        assert!(log.text().contains("failed: a.md:4"));
        assert!(session("```python run\nraise SystemExit(3)\n```\n").is_err());
        assert!(session("```sh known\nls --no-such-flag\n```\n").is_err());
        let server =
            "```sh serve\nbash -c 'trap \"exit 0\" TERM; echo ready; sleep 9 & wait'\n```\n";
        assert_eq!(session(server), Ok(()));
        assert!(session("```sh serve\nfalse\n```\n").is_err());
    }
}
