//! What every method promises. A contract is a function over a method's name; [`contracts!`] makes one test of it for
//! each method, so a new method joins by a line there.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says why it was skipped"
)]

/// `contracts!(a, b)` makes the tests `noop::a`, `noop::b`, `bwrap::a`, …
macro_rules! contracts {
    ($($contract:ident),+ $(,)?) => {
        contracts!(@ noop: $($contract),+);
        contracts!(@ bwrap: $($contract),+);
        contracts!(@ docker: $($contract),+);
        contracts!(@ podman: $($contract),+);
    };
    (@ $method:ident: $($contract:ident),+) => {
        mod $method {
            $(
                #[test]
                fn $contract() {
                    palisade_testing::requires!($method);
                    super::$contract(stringify!($method));
                }
            )+
        }
    };
}

mod agent;
mod agent_crash;
mod agent_removal;
mod agent_sync;
mod agents_together;
mod artifacts;
mod copy;
mod environment;
mod exec;
mod lifecycle;
mod logging;
mod run;
mod secrets;
mod self_running;
mod separation;
mod sessions;
mod support;
mod terminal;
mod wrap;
