//! A sandbox has itself to talk to, under both kinds of address.

use crate::on_engines;
use palisade_testing::Instance;
use std::path::Path;

on_engines!(programs_reach_each_other_under_both_addresses_of_the_loopback);

fn programs_reach_each_other_under_both_addresses_of_the_loopback(method: &'static str) {
    let instance = Instance::with_method(method);
    let told = instance.run(["run", "--", "cat", "/proc/net/fib_trie", "/proc/net/if_inet6"]);
    assert!(told.stdout.contains("127.0.0.1"), "{told:?}");
    // A machine may well have been started without IPv6, and then a sandbox has none either.
    if Path::new("/proc/sys/net/ipv6").exists() {
        assert!(told.stdout.contains("00000000000000000000000000000001 01 80 10 80       lo"), "{told:?}");
    }
}
