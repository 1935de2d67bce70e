//! What came out, for people and for programs.

use crate::comparison::{Comparison, Measured, Result};
use crate::samples::Samples;
use serde::Serialize;
use std::fmt::Write;

/// One line of `report.json`. What could not be measured is null, and does not pass.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    pub name: String,
    pub unit: &'static str,
    pub ours: Option<f64>,
    /// Null for an absolute bar.
    pub peer: Option<f64>,
    pub ratio: Option<f64>,
    /// The ratio to reach, from below or above as the unit has it; for an absolute bar, the largest value of ours.
    pub bar: f64,
    pub pass: bool,
}

pub fn entries(results: &[(&Comparison, Result<Measured>)]) -> Vec<Entry> {
    results.iter().map(|(comparison, result)| entry(comparison, result.as_ref().ok())).collect()
}

fn entry(comparison: &Comparison, measured: Option<&Measured>) -> Entry {
    let ours = measured.map(|measured| measured.ours.median());
    let peer = measured.and_then(|measured| measured.peer.as_ref()).map(Samples::median);
    Entry {
        name: comparison.name.into(),
        unit: comparison.unit.symbol(),
        ours: ours.map(rounded),
        peer: peer.map(rounded),
        ratio: ours.zip(peer).map(|(ours, peer)| rounded(ours / peer)),
        bar: rounded(comparison.bar.value(peer)),
        pass: ours.is_some_and(|ours| comparison.bar.reached(ours, peer)),
    }
}

/// To a thousandth, which is more than a measurement is worth.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

const NAME: usize = 36;

pub fn table(results: &[(&Comparison, Result<Measured>)]) -> String {
    let columns = |out: &mut String, cells: [&str; 9]| {
        let [mark, name, ours, ours_95, ours_spread, peer, peer_95, ratio, bar] = cells;
        let _ = writeln!(
            out,
            "{mark:2}{name:NAME$}{ours:>13}{ours_95:>13}{ours_spread:>8}{peer:>13}{peer_95:>13}{ratio:>9}{bar:>18}"
        );
    };
    let mut out = String::new();
    columns(&mut out, ["", "", "ours", "p95", "spread", "peer", "p95", "ratio", "bar"]);
    for (comparison, result) in results {
        let unit = comparison.unit.symbol();
        let amount = |value: f64| format!("{value:.2} {unit}");
        match result {
            Err(failure) => {
                let _ = writeln!(out, "✗ {:NAME$}  could not be measured: {failure}", comparison.name);
            }
            Ok(measured) => {
                let entry = entry(comparison, Some(measured));
                let peer = |tell: fn(&Samples) -> f64| {
                    measured.peer.as_ref().map_or_else(|| "-".into(), |samples| amount(tell(samples)))
                };
                columns(
                    &mut out,
                    [
                        if entry.pass { "✓" } else { "✗" },
                        comparison.name,
                        &amount(measured.ours.median()),
                        &amount(measured.ours.p95()),
                        &format!("{:.0} %", measured.ours.spread() * 100.0),
                        &peer(Samples::median),
                        &peer(Samples::p95),
                        &entry.ratio.map_or_else(|| "-".into(), |ratio| format!("{ratio:.2}×")),
                        &comparison.bar.shown(comparison.unit).to_string(),
                    ],
                );
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
