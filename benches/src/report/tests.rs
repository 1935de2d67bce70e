use super::*;
use crate::bar::{Bar, Unit};
use crate::failure::Failure;

fn comparison(name: &'static str, unit: Unit, bar: Bar) -> Comparison {
    Comparison { name, unit, bar, runs: 1, prepare: |_| Err(Failure::Interrupted) }
}

fn samples(values: &[f64]) -> Samples {
    Samples::new(values.to_vec()).unwrap()
}

#[test]
fn reached_missed_absolute_and_unmeasured_bars_are_told_apart() {
    let reached = comparison("a reached bar", Unit::Milliseconds, Bar::Ratio(1.5));
    let missed = comparison("a missed bar", Unit::Milliseconds, Bar::Ratio(0.25));
    let absolute = comparison("an absolute bar", Unit::Mebibytes, Bar::AtMost(8.0));
    let unmeasured = comparison("an unmeasured bar", Unit::Milliseconds, Bar::Ratio(0.25));
    let both = || Measured { ours: samples(&[9.0, 10.0, 12.0]), peer: Some(samples(&[7.5, 8.0, 8.5])) };
    let results = [
        (&reached, Ok(both())),
        (&missed, Ok(both())),
        (&absolute, Ok(Measured { ours: samples(&[2.5]), peer: None })),
        (&unmeasured, Err(Failure::NoEngine { variable: "DOCKER_HOST" })),
    ];

    assert_eq!(
        serde_json::to_value(entries(&results)).unwrap(),
        serde_json::json!([
            { "name": "a reached bar", "unit": "ms", "ours": 10.0, "peer": 8.0, "ratio": 1.25, "bar": 1.5, "pass": true },
            { "name": "a missed bar", "unit": "ms", "ours": 10.0, "peer": 8.0, "ratio": 1.25, "bar": 0.25, "pass": false },
            { "name": "an absolute bar", "unit": "MiB", "ours": 2.5, "peer": null, "ratio": null, "bar": 8.0, "pass": true },
            { "name": "an unmeasured bar", "unit": "ms", "ours": null, "peer": null, "ratio": null, "bar": 0.25, "pass": false },
        ])
    );
    let table = table(&results);
    let lines: Vec<String> =
        table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        lines,
        [
            "ours p95 spread peer p95 ratio bar",
            "✓ a reached bar 10.00 ms 11.80 ms 15 % 8.00 ms 8.45 ms 1.25× ≤ 1.50×",
            "✗ a missed bar 10.00 ms 11.80 ms 15 % 8.00 ms 8.45 ms 1.25× ≤ 0.25×",
            "✓ an absolute bar 2.50 MiB 2.50 MiB 0 % - - - ≤ 8 MiB",
            "✗ an unmeasured bar could not be measured: DOCKER_HOST names no engine; scripts/bench starts one, for \
             which it needs root or sudo",
        ]
    );
}
