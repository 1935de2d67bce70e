//! For tests only: the [`requires!`] gate, isolated instances of Palisade, and a look at what a machine has before
//! and after.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot be set up should fail loudly"
)]

mod collector;
mod gate;
mod instance;
mod internet;
pub mod model;
mod one_password;
pub mod probe;
mod pty;
mod random;
pub mod tracer;
mod traces;
mod wait;

pub use collector::{Answer, Collector, Delivery, Span};
pub use gate::{Gate, agents, is_root, rust_toolchain};
pub use instance::{Instance, Outcome, guest_binary, palisade_binary};
pub use internet::Internet;
pub use one_password::one_password_stand_in;
pub use pty::Pty;
pub use random::{Random, SEED};
pub use traces::Traces;
pub use wait::{PATIENCE, eventually};

/// One test of a function over a method's name for each method that isolates: `on_isolating_methods!(a, b)` makes
/// `bwrap::a`, `bwrap::b`, `docker::a`, … Docker's is root's own run, since its containers are the same ones whoever
/// asks for them; Podman's are the user's own.
#[macro_export]
macro_rules! on_isolating_methods {
    ($($test:ident),+ $(,)?) => {
        $crate::on_isolating_methods!(@ bwrap, bwrap: $($test),+);
        $crate::on_isolating_methods!(@ docker, root: $($test),+);
        $crate::on_isolating_methods!(@ podman, podman: $($test),+);
    };
    (@ $method:ident, $needed:ident: $($test:ident),+) => {
        mod $method {
            $(
                #[test]
                fn $test() {
                    $crate::requires!($method, $needed);
                    super::$test(stringify!($method));
                }
            )+
        }
    };
}

/// Skips the test with a printed reason when something is missing, and fails it when `PALISADE_REQUIRE` names that
/// thing: `requires!(bwrap)`, `requires!(git, tmux)`.
#[macro_export]
macro_rules! requires {
    ($($what:ident),+ $(,)?) => {
        $(
            if let $crate::Gate::Skip(reason) = $crate::Gate::check(stringify!($what)) {
                eprintln!("skipped: {reason}");
                return;
            }
        )+
    };
}
