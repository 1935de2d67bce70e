//! What only containers can do or leave behind: they outlive a keeper, and an engine keeps what nobody removes. Each
//! test looks at the engine itself, beside Palisade's own account.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that fails panics")]

mod adoption;
mod connection;
mod crashes;
mod engine;
mod faults;
mod host_uids;
mod image;
mod loopback;
mod lost;
mod parallel;
mod paused;
mod proxy;
mod remote;
mod secrets;
mod variables;

/// `on_engines!(a, b)` makes the tests `docker::a`, `docker::b`, `podman::a`, …; what follows a semicolon is made for
/// Docker alone, where both engines go through the same code.
macro_rules! on_engines {
    ($($test:ident),+ $(,)?) => {
        on_engines!(@ docker: $($test),+);
        on_engines!(@ podman: $($test),+);
    };
    ($($test:ident),+; $($docker:ident),+ $(,)?) => {
        on_engines!(@ docker: $($test,)+ $($docker),+);
        on_engines!(@ podman: $($test),+);
    };
    (@ $method:ident: $($test:ident),+) => {
        mod $method {
            $(
                #[test]
                fn $test() {
                    palisade_testing::requires!($method);
                    palisade_testing::requires!(curl);
                    super::$test(stringify!($method));
                }
            )+
        }
    };
}
pub(crate) use on_engines;
