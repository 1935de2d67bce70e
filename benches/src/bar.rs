//! What a comparison must reach.

use std::fmt;

/// What the numbers of a comparison count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Milliseconds,
    Mebibytes,
    MebibytesPerSecond,
}

impl Unit {
    pub fn symbol(self) -> &'static str {
        match self {
            Unit::Milliseconds => "ms",
            Unit::Mebibytes => "MiB",
            Unit::MebibytesPerSecond => "MiB/s",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// Our median is at most this many times the peer's.
    Ratio(f64),
    /// Our median is at least this many times the peer's: for what is better when there is more of it.
    RatioAtLeast(f64),
    /// Our median is at most this many times the peer's, plus this much.
    RatioPlus(f64, f64),
    /// Our median is at most this much, whatever others do.
    AtMost(f64),
}

impl Bar {
    /// What a report shows: the ratio to reach beside such a peer, or the largest value of ours.
    pub fn value(self, peer: Option<f64>) -> f64 {
        match self {
            Bar::Ratio(value) | Bar::RatioAtLeast(value) | Bar::AtMost(value) => value,
            Bar::RatioPlus(ratio, more) => ratio + peer.map_or(0.0, |peer| more / peer),
        }
    }

    /// A ratio without a peer's number is never reached.
    pub fn reached(self, ours: f64, peer: Option<f64>) -> bool {
        match self {
            Bar::Ratio(most) => peer.is_some_and(|peer| ours / peer <= most),
            Bar::RatioAtLeast(least) => peer.is_some_and(|peer| ours / peer >= least),
            Bar::RatioPlus(ratio, more) => peer.is_some_and(|peer| ours <= ratio * peer + more),
            Bar::AtMost(most) => ours <= most,
        }
    }

    pub fn shown(self, unit: Unit) -> impl fmt::Display {
        match self {
            Bar::Ratio(most) => format!("≤ {most:.2}×"),
            Bar::RatioAtLeast(least) => format!("≥ {least:.2}×"),
            Bar::RatioPlus(ratio, more) => format!("≤ {ratio:.2}× + {more} {}", unit.symbol()),
            Bar::AtMost(most) => format!("≤ {most} {}", unit.symbol()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_reached_up_to_and_including_the_bar() {
        let bar = Bar::Ratio(1.5);
        assert!(bar.reached(15.0, Some(10.0)));
        assert!(!bar.reached(15.1, Some(10.0)));
        assert!(!bar.reached(1.0, None));
    }

    #[test]
    fn a_throughput_is_reached_from_the_bar_on() {
        let bar = Bar::RatioAtLeast(1.5);
        assert!(bar.reached(15.0, Some(10.0)));
        assert!(!bar.reached(14.9, Some(10.0)));
        assert!(!bar.reached(100.0, None));
        assert_eq!(bar.shown(Unit::MebibytesPerSecond).to_string(), "≥ 1.50×");
    }

    #[test]
    fn a_ratio_may_have_a_fixed_part() {
        let bar = Bar::RatioPlus(1.5, 500.0);
        assert!(bar.reached(2000.0, Some(1000.0)));
        assert!(!bar.reached(2001.0, Some(1000.0)));
        assert!(!bar.reached(1.0, None));
        assert_eq!(bar.value(Some(1000.0)), 2.0);
        assert_eq!(bar.shown(Unit::Milliseconds).to_string(), "≤ 1.50× + 500 ms");
    }

    #[test]
    fn an_absolute_bar_needs_no_peer() {
        assert!(Bar::AtMost(8.0).reached(8.0, None));
        assert!(!Bar::AtMost(8.0).reached(8.1, Some(1000.0)));
        assert_eq!(Bar::AtMost(8.0).shown(Unit::Mebibytes).to_string(), "≤ 8 MiB");
    }
}
