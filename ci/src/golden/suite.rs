//! The files of the suite: statements, and what Apache Cassandra answers to them.
//!
//! ```text
//! # What the topic is about.
//!
//! CREATE TABLE t (p int PRIMARY KEY, v text);          no answer written: it is done, no rows
//! INSERT INTO t (p, v) VALUES (1, 'a');
//!
//! # Why this case is here.
//! @with 1                                              what is bound, as CQL writes it
//! SELECT * FROM t WHERE p = ?;
//! ----
//! p int | v text                                       names and types, then a line a row
//! 1 | 'a'
//!
//! SELECT x FROM t;
//! ----
//! error 0x2200 Undefined column name x in table ...    the code, and the words
//! ---- or, prepared                                    another answer of Cassandra's to some modes
//! error 0x2200 ...
//! ---- messina: why we answer otherwise on purpose
//! error 0x2200 ...
//! ---- not mended: the defect that makes us answer otherwise
//! error 0x2200 ...                                     what we answer today, to the letter
//! ```
//!
//! A statement ends with `;` at the end of a line (a batch with `APPLY BATCH;`), a case at an empty
//! line. Lines before a statement: `@with VALUES`, `@now SECONDS` (what counts as now, from now),
//! `@timestamp MICROSECONDS`, `@unpaged` (the answer depends on pages).
//!
//! Invariant: what is rendered reads back as the same cases; recording an unchanged server's answers
//! changes no byte.

use super::session::Mode;

/// A file of the suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topic {
    /// The file's name without its ending.
    pub(super) name: String,
    /// The comment that opens it.
    pub(super) about: Vec<String>,
    /// Its statements, in order.
    pub(super) cases: Vec<Case>,
}

/// A statement and its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Case {
    /// Comment lines before it, with their `#`.
    pub(super) comment: Vec<String>,
    /// Its text, without the last `;`.
    pub(super) statement: String,
    /// What is bound.
    pub(super) with: Option<String>,
    /// Seconds from now that count as now.
    pub(super) now_s: Option<i32>,
    /// The request's timestamp.
    pub(super) timestamp_us: Option<i64>,
    /// The answer depends on pages: it is asked for as a whole only.
    pub(super) unpaged: bool,
    /// Cassandra's answer; `ok` is not written.
    pub(super) answer: String,
    /// Its other answers, when it answers some modes otherwise: the mode, and the answer.
    pub(super) others: Vec<(String, String)>,
    /// Why we answer otherwise on purpose, and what: instead of Cassandra's answer.
    pub(super) ours: Vec<(String, String)>,
    /// The defect that makes us answer otherwise, and what we answer today; several if the modes differ.
    pub(super) not_mended: Vec<(String, String)>,
    /// The same block of lines as the case before.
    joined: bool,
}

/// The answer that is not written.
pub(super) const OK: &str = "ok";
const RULE: &str = "----";
const OTHER: &str = "---- or, ";
const OURS: &str = "---- messina: ";
const NOT_MENDED: &str = "---- not mended: ";

impl Case {
    /// Whether it only reads.
    pub(super) fn is_read(&self) -> bool {
        self.first_word() == "SELECT"
    }

    /// Whether clients prepare such statements.
    pub(super) fn is_preparable(&self) -> bool {
        ["SELECT", "INSERT", "UPDATE", "DELETE", "BEGIN"].contains(&self.first_word().as_str())
    }

    /// Whether it changes the schema.
    pub(super) fn is_schema_change(&self) -> bool {
        ["CREATE", "ALTER", "DROP"].contains(&self.first_word().as_str())
    }

    /// The answers that are right in this mode: ours where we differ on purpose, else Cassandra's, and that which it
    /// gives in such modes alone.
    pub(super) fn right_answers(&self, mode: Mode) -> Vec<&str> {
        let ours: Vec<&str> = self.ours.iter().map(|(_, answer)| answer.as_str()).collect();
        if !ours.is_empty() {
            return ours;
        }
        let others = self.others.iter().filter(|(words, _)| stands_for(words, mode));
        let others = others.map(|(_, answer)| answer.as_str());
        std::iter::once(self.answer.as_str()).chain(others).collect()
    }

    /// Whether nothing but the statement is written: it is done, and no more is to be said.
    fn is_plain(&self) -> bool {
        self.answer == OK
            && self.others.is_empty()
            && self.ours.is_empty()
            && self.not_mended.is_empty()
    }

    fn first_word(&self) -> String {
        self.statement.split_whitespace().next().unwrap_or_default().to_ascii_uppercase()
    }

    /// The statement on one line, with what is bound.
    pub(super) fn line(&self) -> String {
        let mut line = self.statement.split_whitespace().collect::<Vec<_>>().join(" ");
        if let Some(with) = &self.with {
            line.push_str(&format!(" @with {with}"));
        }
        if let Some(now_s) = self.now_s {
            line.push_str(&format!(" @now {now_s}"));
        }
        line
    }
}

/// Whether a mode is one of those for which words like `prepared` or `plain, pages of 1` stand: they name the first of them.
fn stands_for(words: &str, mode: Mode) -> bool {
    let is_paged = words.contains("pages of ");
    let is_prepared = words.starts_with("prepared");
    (mode.prepared || !is_prepared) && (mode.page_rows.is_some() || !is_paged)
}

impl Topic {
    /// The keyspace that it has for itself.
    pub(super) fn keyspace(&self) -> String {
        format!("golden_{}", self.name.replace('-', "_"))
    }

    /// A name for each case, unique in the topic: its line, and its number if the line comes again.
    pub(super) fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = Vec::new();
        for case in &self.cases {
            let key = format!("{}: {}", self.name, case.line());
            let again =
                |number: usize| if number == 1 { key.clone() } else { format!("{key} #{number}") };
            let fresh = (1..).map(again).find(|key| !keys.contains(key));
            keys.push(fresh.expect("there are more numbers than cases"));
        }
        keys
    }

    /// Reads a file.
    pub(super) fn parse(name: &str, text: &str) -> Result<Topic, String> {
        let mut topic = Topic { name: name.to_owned(), about: Vec::new(), cases: Vec::new() };
        for (number, block) in blocks(text) {
            let at = |why: String| format!("{name}: in the block of line {number}: {why}");
            let is_about = number == 1 && block.iter().all(|line| line.starts_with('#'));
            if is_about {
                topic.about = block.iter().map(|line| (*line).to_owned()).collect();
                continue;
            }
            topic.cases.extend(parse_block(&block).map_err(at)?);
        }
        Ok(topic)
    }

    /// The file's text.
    pub(super) fn render(&self) -> String {
        let mut lines: Vec<String> = self.about.clone();
        let mut was_plain = false;
        for case in &self.cases {
            let is_plain = case.is_plain();
            if !(case.joined && is_plain && was_plain) {
                lines.push(String::new());
            }
            was_plain = is_plain;
            lines.extend(case.comment.iter().cloned());
            let directives = [
                case.unpaged.then(|| "@unpaged".to_owned()),
                case.now_s.map(|seconds| format!("@now {seconds}")),
                case.timestamp_us.map(|us| format!("@timestamp {us}")),
                case.with.as_ref().map(|with| format!("@with {with}")),
            ];
            lines.extend(directives.into_iter().flatten());
            lines.push(format!("{};", case.statement));
            if !is_plain {
                lines.push(RULE.to_owned());
                lines.push(case.answer.clone());
            }
            let kinds = [(OTHER, &case.others), (OURS, &case.ours), (NOT_MENDED, &case.not_mended)];
            for (rule, sections) in kinds {
                for (words, answer) in sections {
                    lines.push(format!("{rule}{words}"));
                    lines.push(answer.clone());
                }
            }
        }
        lines.join("\n") + "\n"
    }
}

/// Blocks of lines between empty ones, each with the number of its first line.
fn blocks(text: &str) -> Vec<(usize, Vec<&str>)> {
    let mut blocks: Vec<(usize, Vec<&str>)> = Vec::new();
    let mut is_open = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim_end();
        match (line.is_empty(), is_open) {
            (true, _) => is_open = false,
            (false, true) => blocks.last_mut().expect("a block is open").1.push(line),
            (false, false) => {
                blocks.push((number, vec![line]));
                is_open = true;
            }
        }
    }
    blocks
}

fn parse_block(block: &[&str]) -> Result<Vec<Case>, String> {
    let end = block.iter().position(|line| line.starts_with(RULE)).unwrap_or(block.len());
    let mut cases = parse_statements(&block[..end])?;
    let (last, before) = cases.split_last_mut().ok_or("an answer without a statement")?;
    if end < block.len() && !before.is_empty() {
        return Err("one answer for several statements".to_owned());
    }
    let mut sections = block[end..].split(|line| line.starts_with(RULE));
    // Nothing stands before the first rule.
    sections.next();
    let heads: Vec<&&str> = block[end..].iter().filter(|line| line.starts_with(RULE)).collect();
    for (head, section) in heads.into_iter().zip(sections) {
        let text = section.join("\n");
        if *head == RULE {
            last.answer = text;
            continue;
        }
        let kinds =
            [(OTHER, &mut last.others), (OURS, &mut last.ours), (NOT_MENDED, &mut last.not_mended)];
        let kind =
            kinds.into_iter().find_map(|(rule, list)| Some((head.strip_prefix(rule)?, list)));
        let (words, sections) = kind.ok_or_else(|| format!("{head:?} is no rule"))?;
        sections.push((words.to_owned(), text));
    }
    Ok(cases)
}

fn parse_statements(lines: &[&str]) -> Result<Vec<Case>, String> {
    let fresh = |joined| Case { answer: OK.to_owned(), joined, ..Case::default() };
    let (mut cases, mut case) = (Vec::new(), fresh(false));
    let mut text: Vec<&str> = Vec::new();
    for line in lines {
        if text.is_empty() && line.starts_with('#') {
            case.comment.push((*line).to_owned());
            continue;
        }
        if text.is_empty() && line.starts_with('@') {
            put_directive(&mut case, line)?;
            continue;
        }
        text.push(line);
        let is_batch = text[0].to_ascii_uppercase().starts_with("BEGIN");
        let ends = line.ends_with(';')
            && (!is_batch || line.to_ascii_uppercase().ends_with("APPLY BATCH;"));
        if ends {
            let whole = text.join("\n");
            case.statement = whole[..whole.len() - 1].to_owned();
            cases.push(std::mem::replace(&mut case, fresh(true)));
            text.clear();
        }
    }
    match text.is_empty() && case.comment.is_empty() {
        true => Ok(cases),
        false => Err("a statement without `;`".to_owned()),
    }
}

fn put_directive(case: &mut Case, line: &str) -> Result<(), String> {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let bad = |_| format!("{line:?} has no number");
    match name {
        "@with" => case.with = Some(rest.to_owned()),
        "@now" => case.now_s = Some(rest.parse().map_err(bad)?),
        "@timestamp" => case.timestamp_us = Some(rest.parse().map_err(bad)?),
        "@unpaged" => case.unpaged = true,
        _ => return Err(format!("{line:?} is no directive")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# About.\n\nCREATE TABLE t (p int);\nBEGIN BATCH\n  INSERT 1;\nAPPLY BATCH;\n\
        \n# Why.\n@unpaged\n@now 5\n@with 1, 'a'\nSELECT *\nFROM t WHERE p = ?;\n----\np int\n1\n\n\
        SELECT x FROM t;\n----\nerror 0x2200 No\n---- or, prepared\nerror 0x2200 Never\n---- messina: because\nerror 0x2200 Yes\n\
        \nUPDATE t;\n----\nok\n---- not mended: a defect\nerror 0x2200 A\n---- not mended: a defect\nok\n";

    #[test]
    fn a_file_reads_and_renders_alike() {
        let topic = Topic::parse("a-b", FILE).unwrap();
        assert_eq!(topic.render(), FILE);
        assert_eq!(topic.keyspace(), "golden_a_b");
        let lines: Vec<String> = topic.cases.iter().map(Case::line).collect();
        assert_eq!(lines[1], "BEGIN BATCH INSERT 1; APPLY BATCH");
        assert_eq!(lines[2], "SELECT * FROM t WHERE p = ? @with 1, 'a' @now 5");
        assert_eq!(topic.cases[2].answer, "p int\n1");
        let ours = ("because".to_owned(), "error 0x2200 Yes".to_owned());
        assert_eq!(topic.cases[3].ours, [ours]);
        let today =
            ["error 0x2200 A", "ok"].map(|answer| ("a defect".to_owned(), answer.to_owned()));
        assert_eq!(
            (topic.cases[4].answer.as_str(), &topic.cases[4].not_mended[..]),
            (OK, &today[..])
        );
    }

    #[test]
    fn statements_of_a_block_part_when_one_has_an_answer() {
        let mut topic = Topic::parse("t", "# A.\n\nINSERT 1;\nSELECT 2;\nINSERT 3;\n").unwrap();
        topic.cases[1].answer = "v int\n2".to_owned();
        let parted = "# A.\n\nINSERT 1;\n\nSELECT 2;\n----\nv int\n2\n\nINSERT 3;\n";
        assert_eq!(topic.render(), parted);
    }

    /// Before: an answer that Cassandra gives to prepared statements alone was right for plain ones, too.
    #[test]
    fn an_answer_of_other_modes_is_right_in_those_alone() {
        let mode = |prepared, page_rows| Mode { prepared, page_rows };
        let right = |words: &str, mode| {
            let file = format!("SELECT v;\n----\na\n---- or, {words}\nb\n");
            Topic::parse("t", &file).unwrap().cases[0].right_answers(mode).len() == 2
        };
        assert!(right("prepared", mode(true, None)) && right("prepared", mode(true, Some(1))));
        assert!(!right("prepared", mode(false, None)) && !right("prepared", mode(false, Some(1))));
        let paged = "plain, pages of 1";
        assert!(right(paged, mode(false, Some(2))) && right(paged, mode(true, Some(5000))));
        assert!(!right(paged, mode(false, None)) && !right(paged, mode(true, None)));
    }

    #[test]
    fn a_line_that_comes_again_has_a_number() {
        let topic = Topic::parse("t", "SELECT 1;\nSELECT 1;\n").unwrap();
        assert_eq!(topic.keys(), ["t: SELECT 1", "t: SELECT 1 #2"]);
    }

    #[test]
    fn what_is_not_a_case_is_refused() {
        for bad in [
            "SELECT 1",
            "@x\nSELECT 1;",
            "A;\nB;\n----\nx",
            "# only a comment\n@now x\nA;",
            "----\nx",
            "A;\n----\nx\n---- not mended\ny",
        ] {
            assert!(Topic::parse("t", bad).is_err(), "{bad:?}");
        }
    }
}
