//! A path inside the data directory, checked when it is made: it cannot lead outside.

use std::borrow::Borrow;
use std::fmt;
use std::rc::Rc;

use crate::error::{Error, Result};
use crate::limits::PATH_BYTES_MAX;

/// Names of `[A-Za-z0-9_.-]`, joined by `/`, none starting with a dot; empty is the data directory itself.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RelPath(Rc<str>);

impl RelPath {
    /// The data directory itself.
    pub fn root() -> RelPath {
        RelPath("".into())
    }

    /// Checks and takes a path.
    pub fn new(path: &str) -> Result<RelPath> {
        let fits = path.len() <= PATH_BYTES_MAX;
        if fits && (path.is_empty() || path.split('/').all(is_name)) {
            return Ok(RelPath(path.into()));
        }
        Err(Error::invalid(format!("{path:?} is not a path inside the data directory")))
    }

    /// A name in this directory. The name is ours, so a bad one is our bug.
    pub fn join(&self, name: &str) -> RelPath {
        assert!(is_name(name), "{name:?} is not a file name");
        assert!(self.0.len() + 1 + name.len() <= PATH_BYTES_MAX, "a path has a bounded length");
        match self.0.is_empty() {
            true => RelPath(name.into()),
            false => RelPath(format!("{}/{name}", self.0).into()),
        }
    }

    /// A name in this directory that somebody else may have put there; `None` if no path of ours has such a name.
    pub fn child(&self, name: &str) -> Option<RelPath> {
        let fits = is_name(name) && self.0.len() + 1 + name.len() <= PATH_BYTES_MAX;
        fits.then(|| self.join(name))
    }

    /// The directory that holds it; the root holds itself.
    pub fn parent(&self) -> RelPath {
        RelPath(self.0.rsplit_once('/').map_or("", |(dir, _)| dir).into())
    }

    /// The last name.
    pub fn name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, name)| name)
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(plain)
}

/// Paths are ordered as their texts are.
impl Borrow<str> for RelPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RelPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_inside() {
        for bad in ["/etc", "a/../b", "..", "a//b", "a/", "/", "a\\b", "a b", ".hidden", "a\0"] {
            assert!(RelPath::new(bad).is_err(), "{bad:?}");
        }
        assert!(RelPath::new(&"x".repeat(256)).is_err());
        let long = "x".repeat(255);
        for bad in ["..", "", "a/b", "a b", ".hidden", "é", &long] {
            assert_eq!(RelPath::root().join("a").child(bad), None, "{bad:?}");
        }
        assert_eq!(RelPath::root().child("a"), Some(RelPath::root().join("a")));
        let path = RelPath::new("gen-1/shard-0/000001.log").unwrap();
        assert_eq!(path.parent().as_str(), "gen-1/shard-0");
        assert_eq!(path.name(), "000001.log");
        assert_eq!(path.parent().join("manifest").as_str(), "gen-1/shard-0/manifest");
        assert_eq!(RelPath::root().join("schema").parent(), RelPath::root());
    }
}
