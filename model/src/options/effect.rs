//! What an option does here, so that none is accepted and ignored in silence.

/// What comes of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It does what it says.
    Works,
    /// It is kept, so that DESCRIBE gives it back, and does nothing; why. A value other than the
    /// default is answered with a warning.
    Kept(&'static str),
    /// It is taken and forgotten, with a warning; why.
    LeftOut(&'static str),
    /// It is an error: it asks for a promise that would not be kept; why.
    Refused(&'static str),
}

/// One sub-option of `caching`, `compaction` or `compression`.
#[derive(Clone, Copy, Debug)]
pub struct SubOption {
    /// Name of the option.
    pub name: &'static str,
    /// What the table has that does not name it, for the warnings; empty if there is no such value.
    pub default: &'static str,
    /// What comes of it.
    pub effect: Effect,
}

impl SubOption {
    pub(super) const fn works(name: &'static str) -> SubOption {
        SubOption { name, default: "", effect: Effect::Works }
    }

    pub(super) const fn kept(
        name: &'static str,
        default: &'static str,
        why: &'static str,
    ) -> SubOption {
        SubOption { name, default, effect: Effect::Kept(why) }
    }

    /// The warning for the client that gave `value`, if it does nothing and is not the default.
    pub(super) fn warning(&self, option: &str, value: &str) -> Option<String> {
        let name = self.name;
        let text = match self.effect {
            Effect::Works | Effect::Refused(_) => return None,
            Effect::Kept(why) => {
                format!("Option '{option}.{name}' is kept and has no effect: {why}")
            }
            Effect::LeftOut(why) => format!("Option '{option}.{name}' is left out: {why}"),
        };
        (!value.eq_ignore_ascii_case(self.default)).then_some(text)
    }
}
