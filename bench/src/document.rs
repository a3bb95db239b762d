//! Tables in a document: each stands between two marks and is replaced whole.
//!
//! ```text
//! <!-- NAME: begin -->
//! | the table |
//! <!-- NAME: end -->
//! ```

use std::path::Path;

use crate::compare::{Failed, Result};

/// Puts `table` into the place called `name` of the document at `path`.
pub fn put_into(path: &Path, name: &str, table: &str) -> Result<()> {
    let doing = || path.display().to_string();
    let document = std::fs::read_to_string(path).map_err(Failed::io(doing()))?;
    let document = replaced(&document, name, table)
        .ok_or_else(|| Failed(format!("{} has no place called '{name}'", doing())))?;
    std::fs::write(path, document).map_err(Failed::io(doing()))
}

fn replaced(document: &str, name: &str, table: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name}: begin -->"), format!("<!-- {name}: end -->"));
    let (before, rest) = document.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{table}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_replaces_the_one_before() {
        let document = "# A\n<!-- t: begin -->\nold\n<!-- t: end -->\nend\n";
        let once = replaced(document, "t", "| new |\n").unwrap();
        assert_eq!(once, "# A\n<!-- t: begin -->\n| new |\n<!-- t: end -->\nend\n");
        assert_eq!(replaced(&once, "t", "| new |\n").unwrap(), once);
        assert_eq!(replaced(document, "u", ""), None);
    }
}
