//! Log lines on stderr, in text or JSON, from the level that the settings say.

use palisade_config::{LogFormat, LogLevel, Settings};
use tracing::level_filters::LevelFilter;

pub(crate) fn start(settings: &Settings) {
    let level = match settings.log_level.value {
        LogLevel::Off => return,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let lines =
        tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    // A second start in one process would be a defect, and loses nothing but log lines.
    let _ = match settings.log_format.value {
        LogFormat::Text => tracing::subscriber::set_global_default(lines.with_ansi(false).finish()),
        LogFormat::Json => tracing::subscriber::set_global_default(lines.json().flatten_event(true).finish()),
    };
}
