//! From spans of `tracing` to what a collector receives.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use palisade_core::spans;
use palisade_telemetry::{Delivery, EXIT_PATIENCE, Settings, Telemetry};
use palisade_testing::{Answer, Collector, PATIENCE, Span, eventually};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tracing::field::Empty;
use tracing::info_span;
use tracing_subscriber::layer::SubscriberExt;

/// Exports what `work` does as the variables say, and ends.
fn export(endpoint: &str, variables: &[(&str, &str)], work: impl FnOnce(&Telemetry)) -> Duration {
    export_by(Delivery::AtExit, endpoint, variables, |telemetry| {
        work(telemetry);
        let since = Instant::now();
        telemetry.finish();
        since.elapsed()
    })
}

fn export_by<T>(
    delivery: Delivery,
    endpoint: &str,
    variables: &[(&str, &str)],
    work: impl FnOnce(&Telemetry) -> T,
) -> T {
    let look_up = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(endpoint.to_owned()),
        _ => variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()),
    };
    let reading = Settings::read(look_up);
    assert_eq!(reading.problems, []);
    let (telemetry, layer) = Telemetry::new(reading.settings.expect("an export"), delivery);
    let subscriber = tracing_subscriber::registry().with(layer.filtered());
    tracing::subscriber::with_default(subscriber, || work(&telemetry))
}

fn a_failed_start_within_a_command(_: &Telemetry) {
    let command = info_span!(spans::COMMAND, otel.name = "palisade start", process.exit.code = Empty);
    let _entered = command.enter();
    info_span!(spans::START, sandbox.id = %"abc", secret = "canary", error.type = "timeout").in_scope(|| {
        tracing::info!(canary = "canary", "canary");
        info_span!("canary", sandbox.id = "canary").in_scope(|| {});
    });
    command.record("process.exit.code", 8);
}

fn pairs<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

#[test]
fn both_encodings_tell_the_same_whole_trace() {
    for (protocol, content_type) in
        [("http/protobuf", "application/x-protobuf"), ("http/json", "application/json")]
    {
        let collector = Collector::start();
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        export(
            &collector.endpoint(),
            &[
                ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
                ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x"),
                ("OTEL_SERVICE_NAME", "tests"),
                ("TRACEPARENT", parent),
            ],
            a_failed_start_within_a_command,
        );
        let [delivery] = <[_; 1]>::try_from(collector.deliveries()).expect("one delivery");
        assert_eq!(delivery.line, "POST /v1/traces HTTP/1.1");
        assert_eq!(delivery.headers["content-type"], content_type);
        assert_eq!(delivery.headers["authorization"], "Bearer x");
        assert_eq!(delivery.resource["service.name"], "tests");
        assert!(!String::from_utf8_lossy(&delivery.body).contains("canary"));
        let (command, start) = (collector.span("palisade start"), collector.span("sandbox.start"));
        let expected = Span {
            trace: "0af7651916cd43dd8448eb211c80319c".into(),
            parent: "b7ad6b7169203331".into(),
            parent_is_remote: true,
            failed: true,
            attributes: pairs([("process.exit.code", "8")]),
            ..command.clone()
        };
        assert_eq!(command, expected);
        let expected = Span {
            trace: command.trace.clone(),
            parent: command.id.clone(),
            parent_is_remote: false,
            failed: true,
            attributes: pairs([("sandbox.id", "abc"), ("error.type", "timeout")]),
            ..start.clone()
        };
        assert_eq!(start, expected);
        assert!(command.start <= start.start && start.end <= command.end && start.start <= start.end);
        assert_eq!(collector.spans().len(), 2);
    }
}

#[test]
fn a_child_process_is_told_of_the_span_that_starts_it() {
    let collector = Collector::start();
    let told = std::cell::RefCell::new(String::new());
    export(&collector.endpoint(), &[], |telemetry| {
        assert_eq!(telemetry.traceparent(), None);
        info_span!(spans::START)
            .in_scope(|| *told.borrow_mut() = telemetry.traceparent().expect("a context"));
    });
    let start = collector.span("sandbox.start");
    assert_eq!(told.into_inner(), format!("00-{}-{}-01", start.trace, start.id));
    assert_eq!((start.parent.as_str(), start.failed), ("", false));
}

#[test]
fn a_span_that_is_open_at_the_end_of_the_process_is_told_all_the_same() {
    let collector = Collector::start();
    export(&collector.endpoint(), &[], |_| {
        std::mem::forget(info_span!(spans::COMMAND).entered());
    });
    assert_eq!(collector.span("palisade").parent, "");
}

#[test]
fn a_keepers_spans_are_told_while_it_lives() {
    let collector = Collector::start();
    export_by(Delivery::InBatches, &collector.endpoint(), &[], |telemetry| {
        let _life = info_span!(spans::KEEP).entered();
        info_span!(spans::BOOT).in_scope(|| {});
        eventually("the boot is told", || !collector.deliveries().is_empty());
        assert_eq!(collector.spans().len(), 1);
        telemetry.finish();
    });
    assert_eq!(collector.span("sandbox.boot").parent, collector.span("sandbox.keep").id);
}

#[test]
fn a_collector_that_is_gone_costs_nothing_and_one_that_hangs_a_bounded_time() {
    let end = |endpoint: &str, variables: &[(&str, &str)]| {
        export(endpoint, variables, |_| info_span!(spans::START).in_scope(|| {}))
    };
    // The time that is given would show, were it waited for.
    let long = PATIENCE.as_millis().to_string();
    let long = [("OTEL_EXPORTER_OTLP_TIMEOUT", long.as_str())];
    assert!(end(&Collector::dead(), &long) < PATIENCE / 2);
    let refusing = Collector::answering(Answer::Status(503));
    assert!(end(&refusing.endpoint(), &long) < PATIENCE / 2);
    assert_eq!(refusing.deliveries().len(), 1);
    let silent = Collector::answering(Answer::Never);
    let waited = end(&silent.endpoint(), &[]);
    assert!(EXIT_PATIENCE / 2 < waited && waited < PATIENCE / 2, "{waited:?}");
    assert!(end(&silent.endpoint(), &[("OTEL_EXPORTER_OTLP_TIMEOUT", "50")]) < waited);
}

#[test]
fn more_spans_than_one_delivery_holds_come_in_several_and_none_twice() {
    let collector = Collector::start();
    export(&collector.endpoint(), &[], |_| {
        (0..1500).for_each(|_| info_span!(spans::GC).in_scope(|| {}));
    });
    let ids: std::collections::BTreeSet<String> = collector.spans().into_iter().map(|span| span.id).collect();
    assert_eq!((collector.spans().len(), ids.len()), (1500, 1500));
    assert!(collector.deliveries().iter().all(|delivery| delivery.spans.len() <= 512));
}

#[test]
fn without_a_span_nobody_is_connected_to() {
    let collector = Collector::start();
    export(&collector.endpoint(), &[], |_| {});
    assert_eq!(collector.connections(), 0);
}
