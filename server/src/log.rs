//! Logs to stderr, each call site within a rate: what goes wrong a million times is said a few.
//!
//! `MESSINA_LOG` filters them (`debug`, `messina=trace,warn`); the default is `info`.

use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Context, Filter, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// How many events of one call site are let through in a window.
const EVENTS_PER_WINDOW: u32 = 10;
const WINDOW: Duration = Duration::from_secs(10);

/// Sets up the logs of the process.
pub(crate) fn start() {
    let wanted = EnvFilter::try_from_env("MESSINA_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let color = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(color)
        .with_target(false)
        .with_filter(RateLimit::default());
    tracing_subscriber::registry().with(wanted).with(lines).init();
}

/// Lets [`EVENTS_PER_WINDOW`] events of a call site through in each [`WINDOW`].
///
/// The lock is taken only for events that passed the level filter; the hot path has none.
#[derive(Default)]
struct RateLimit {
    sites: Mutex<HashMap<Identifier, Site>>,
}

struct Site {
    window_start: Instant,
    events: u32,
}

impl RateLimit {
    fn admits(&self, site: Identifier, now: Instant) -> bool {
        let mut sites = self.sites.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let site = sites.entry(site).or_insert(Site { window_start: now, events: 0 });
        if now.duration_since(site.window_start) >= WINDOW {
            let held_back = site.events.saturating_sub(EVENTS_PER_WINDOW);
            *site = Site { window_start: now, events: 0 };
            if held_back > 0 {
                eprintln!("      ({held_back} more like the next line were held back)");
            }
        }
        site.events += 1;
        site.events <= EVENTS_PER_WINDOW
    }
}

impl<S: Subscriber> Filter<S> for RateLimit {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        self.admits(event.metadata().callsite(), Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use tracing::subscriber::with_default;

    use super::*;

    #[test]
    fn a_site_is_held_back_and_let_through_again() {
        struct Sites(Mutex<Vec<Identifier>>);
        impl<S: Subscriber> Layer<S> for &'static Sites {
            fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
                self.0.lock().unwrap().push(event.metadata().callsite());
            }
        }
        static SEEN: Sites = Sites(Mutex::new(Vec::new()));
        with_default(tracing_subscriber::registry().with(&SEEN), || {
            tracing::info!("one");
            tracing::info!("two");
        });
        let [one, two] = [0, 1].map(|i| SEEN.0.lock().unwrap()[i].clone());
        let (limit, now) = (RateLimit::default(), Instant::now());
        let passed = (0..100).filter(|_| limit.admits(one.clone(), now)).count();
        assert_eq!(passed, EVENTS_PER_WINDOW as usize);
        assert!(limit.admits(two, now), "another site has a rate of its own");
        assert!(limit.admits(one, now + WINDOW));
    }
}
