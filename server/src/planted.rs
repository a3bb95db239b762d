//! The bug that a build for tests of the tests runs with: `MESSINA_PLANT=LimitRestarts`.
//!
//! The name is that of a variant of `cql::planted::Bug` or `engine::planted::Bug`. Without the
//! feature `planted` neither this file nor any bug is in the program.

use cql::planted::Bug as LanguageBug;
use engine::planted::Bug as StorageBug;

/// Names the bug; unset, the server is as it should be.
const VARIABLE: &str = "MESSINA_PLANT";

/// Plants the bug that the environment names on the thread of this core. An unknown name ends the
/// process: a test that plants nothing would prove nothing.
pub(crate) fn plant() {
    let Ok(name) = std::env::var(VARIABLE) else { return };
    let of_language = LanguageBug::ALL.into_iter().find(|bug| format!("{bug:?}") == name);
    let of_storage = [&StorageBug::OF_FILES[..], &StorageBug::OF_ENGINE, &StorageBug::OF_READS];
    let of_storage = of_storage.concat().into_iter().find(|bug| format!("{bug:?}") == name);
    assert!(of_language.is_some() || of_storage.is_some(), "{VARIABLE}: there is no bug {name}");
    cql::planted::plant(of_language);
    engine::planted::plant(of_storage);
}
