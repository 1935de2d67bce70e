//! An instance that a collector listens to, and traces as one reads them.

use palisade_testing::{Collector, Instance, Outcome, Span};
use std::process::Command;

/// A command that exports. Delivery has all the time that a loaded machine may need.
pub(crate) fn exporting<'a>(command: &'a mut Command, endpoint: &str) -> &'a mut Command {
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).env("OTEL_EXPORTER_OTLP_TIMEOUT", "30000")
}

#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) instance: Instance,
    pub(crate) collector: Collector,
}

impl Scene {
    pub(crate) fn new(method: &'static str) -> Self {
        Self { instance: Instance::with_method(method), collector: Collector::start() }
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.instance.command(arguments);
        exporting(&mut command, &self.collector.endpoint());
        command
    }

    #[track_caller]
    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome {
        Instance::finish(&mut self.command(arguments))
    }

    /// The spans of the trace that a command's own span began, each with its parent and attributes, by name.
    #[track_caller]
    pub(crate) fn trace(&self, command: &str) -> Vec<String> {
        let trace = self.collector.span(command).trace;
        let mut spans = self.collector.spans();
        spans.retain(|span| span.trace == trace);
        let mut lines: Vec<String> = spans.iter().map(|span| line(span, &spans)).collect();
        lines.sort();
        lines
    }
}

/// `name < parent [failed] key=value …`; ids, which differ from run to run, are left out.
fn line(span: &Span, spans: &[Span]) -> String {
    let parent = spans.iter().find(|other| other.id == span.parent).map_or("", |parent| &parent.name);
    let mut line = format!("{} < {parent}", span.name);
    if span.parent_is_remote {
        line += " (of another process)";
    }
    if span.failed {
        line += " FAILED";
    }
    for (key, value) in &span.attributes {
        let value = if key == "sandbox.id" { "…" } else { value };
        line += &format!(" {key}={value}");
    }
    line
}
