//! Why an option is refused.

use std::fmt;

/// Result of reading an option.
pub type Result<T> = std::result::Result<T, Refusal>;

/// A refused option, in Cassandra's words; each kind has its code on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such option, or its value has the wrong form.
    Syntax(String),
    /// The value is out of bounds, contradicts another, or asks for what is not there.
    Config(String),
    /// It is not for a statement to ask.
    Invalid(String),
}

impl Refusal {
    #[cold]
    pub(super) fn config<T>(text: impl Into<String>) -> Result<T> {
        Err(Refusal::Config(text.into()))
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Refusal::Syntax(text) | Refusal::Config(text) | Refusal::Invalid(text)) = self;
        f.write_str(text)
    }
}

impl std::error::Error for Refusal {}
