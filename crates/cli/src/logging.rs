//! Log lines on stderr, in text or JSON, from the level that the settings say; and spans to a collector, when the
//! environment names one.

use crate::telemetry;
use palisade_config::{LogFormat, LogLevel, Settings};
use palisade_core::spans;
use palisade_telemetry::SpanLayer;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::set_global_default;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt};

/// `command` is the name of the command that is being run.
pub(crate) fn start(settings: &Settings, command: &str) {
    let (layer, problems) = telemetry::layer(command);
    match layer {
        Some(layer) => lines_and_spans(settings, layer),
        None => lines(settings),
    }
    telemetry::begin(command);
    for problem in problems {
        tracing::warn!("telemetry: {problem}");
    }
}

fn level(settings: &Settings) -> LevelFilter {
    match settings.log_level.value {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// The usual case, and the one that starts fastest.
fn lines(settings: &Settings) {
    if settings.log_level.value == LogLevel::Off {
        return;
    }
    let lines = tracing_subscriber::fmt()
        .with_max_level(level(settings))
        .with_writer(std::io::stderr)
        .with_target(false);
    // A second start in one process would be a defect, and loses nothing but log lines.
    let _ = match settings.log_format.value {
        LogFormat::Text => set_global_default(lines.with_ansi(false).finish()),
        LogFormat::Json => set_global_default(lines.json().flatten_event(true).finish()),
    };
}

/// The same lines, word for word: the span around the whole command is not shown in them.
fn lines_and_spans(settings: &Settings, layer: SpanLayer) {
    let level = level(settings);
    let shown = filter_fn(move |metadata| *metadata.level() <= level && metadata.name() != spans::COMMAND);
    let shown = shown.with_max_level_hint(level);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = match settings.log_format.value {
        LogFormat::Text => lines.with_ansi(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let registry = tracing_subscriber::registry().with(lines.with_filter(shown)).with(layer.filtered());
    // As above.
    let _ = set_global_default(registry);
}
