//! The environment variables that telemetry obeys, as OpenTelemetry specifies them. The program reads them in one
//! place; this crate only knows their names. Set but empty means unset, as there.

use palisade_core::names;

names! {
    /// Every one of them.
    ALL:
    /// Where the collector is, such as `http://localhost:4318`; `/v1/traces` is appended. Unset, nothing is exported.
    OTEL_EXPORTER_OTLP_ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT";
    /// The whole address for spans; wins over the endpoint, and nothing is appended.
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    /// Headers for the collector, as `name=value,…` with percent-encoding. A secret: never logged.
    OTEL_EXPORTER_OTLP_HEADERS = "OTEL_EXPORTER_OTLP_HEADERS";
    /// As above, for spans only; wins. A secret: never logged.
    OTEL_EXPORTER_OTLP_TRACES_HEADERS = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
    /// `http/protobuf` (default) or `http/json`.
    OTEL_EXPORTER_OTLP_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL";
    /// As above, for spans only; wins.
    OTEL_EXPORTER_OTLP_TRACES_PROTOCOL = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
    /// Milliseconds for one delivery. Unset, it is 1000 at the end of a command, which waits for it, and 10000 elsewhere.
    OTEL_EXPORTER_OTLP_TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT";
    /// As above, for spans only; wins.
    OTEL_EXPORTER_OTLP_TRACES_TIMEOUT = "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT";
    /// The service's name (default `palisade`).
    OTEL_SERVICE_NAME = "OTEL_SERVICE_NAME";
    /// Further attributes of the service, as `key=value,…` with percent-encoding.
    OTEL_RESOURCE_ATTRIBUTES = "OTEL_RESOURCE_ATTRIBUTES";
    /// `true` turns everything off.
    OTEL_SDK_DISABLED = "OTEL_SDK_DISABLED";
    /// `none` turns the export of spans off.
    OTEL_TRACES_EXPORTER = "OTEL_TRACES_EXPORTER";
    /// The caller's span, in the form of W3C Trace Context; ours become its children. One that is not sampled turns the
    /// export off.
    TRACEPARENT = "TRACEPARENT";
}
