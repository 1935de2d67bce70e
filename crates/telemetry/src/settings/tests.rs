use super::*;
use std::collections::HashMap;

fn read(variables: &[(&str, &str)]) -> Reading {
    let variables: HashMap<&str, &str> = variables.iter().copied().collect();
    Settings::read(|name| variables.get(name).map(|value| (*value).to_owned()))
}

const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4318");

fn settings(more: &[(&str, &str)]) -> Settings {
    let mut variables = vec![ENDPOINT];
    variables.extend(more);
    let reading = read(&variables);
    assert_eq!(reading.problems, []);
    reading.settings.expect("an export")
}

fn problems(more: &[(&str, &str)]) -> (bool, Vec<String>) {
    let mut variables = vec![ENDPOINT];
    variables.extend(more);
    let reading = read(&variables);
    (reading.settings.is_some(), reading.problems.iter().map(ToString::to_string).collect())
}

#[test]
fn without_an_endpoint_nothing_else_is_looked_up() {
    let asked = std::cell::RefCell::new(Vec::new());
    let reading = Settings::read(|name| {
        asked.borrow_mut().push(name.to_owned());
        None
    });
    assert_eq!(reading, Reading::default());
    assert_eq!(*asked.borrow(), ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"]);
}

#[test]
fn what_turns_the_export_off_is_no_problem() {
    let unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    for off in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", " "),
        ("OTEL_SDK_DISABLED", "True"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("TRACEPARENT", unsampled),
    ] {
        assert_eq!(read(&[ENDPOINT, off]), Reading::default(), "{off:?}");
    }
    assert!(read(&[ENDPOINT, ("OTEL_SDK_DISABLED", "false")]).settings.is_some());
}

#[test]
fn the_variables_for_spans_win_over_the_general_ones() {
    let found = settings(&[
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://other:1/spans"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "1"),
        ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "250"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=b"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer%20x%2Cy, k = v"),
    ]);
    assert_eq!(found.endpoint, Endpoint { host: "other".into(), port: 1, path: "/spans".into() });
    assert_eq!((found.protocol, found.timeout), (Protocol::Json, Some(Duration::from_millis(250))));
    let headers = [("authorization", "Bearer x,y"), ("k", "v")];
    assert_eq!(found.headers, headers.map(|(name, value)| (name.to_owned(), Secret(value.to_owned()))));
}

#[test]
fn the_resource_tells_the_service_and_what_was_given() {
    let text = |settings: &Settings, key: &str| {
        let found: Vec<_> = settings.resource.attributes.iter().filter(|(known, _)| known == key).collect();
        match found.as_slice() {
            [(_, Value::Text(text))] => text.clone(),
            other => panic!("{key}: {other:?}"),
        }
    };
    assert_eq!(text(&settings(&[]), "service.name"), "palisade");
    let given =
        settings(&[("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,team=x%20y"), ("OTEL_SERVICE_NAME", "b")]);
    assert_eq!((text(&given, "service.name"), text(&given, "team")), ("b".into(), "x y".into()));
    let given = settings(&[("OTEL_RESOURCE_ATTRIBUTES", "service.name=a")]);
    assert_eq!(text(&given, "service.name"), "a");
}

#[test]
fn all_problems_are_told_at_once_and_no_value_with_them() {
    let (exported, told) = problems(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://canary"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=canary\ncanary"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon-canary"),
        ("OTEL_RESOURCE_ATTRIBUTES", "canary"),
        ("TRACEPARENT", "canary"),
    ]);
    assert!(!exported);
    assert_eq!(
        told,
        [
            "TRACEPARENT: not of the form 00-<32 hex digits>-<16 hex digits>-<2 hex digits>; it is left out",
            "OTEL_EXPORTER_OTLP_TIMEOUT: not a number of milliseconds; it is left out",
            "OTEL_RESOURCE_ATTRIBUTES: not of the form key=value,…; it is left out",
            "OTEL_EXPORTER_OTLP_ENDPOINT: https is not supported; name a collector at an http:// address, which \
             may pass it on; no spans are exported",
            "OTEL_EXPORTER_OTLP_PROTOCOL: grpc is not supported, use http/protobuf or http/json; no spans are \
             exported",
            "OTEL_EXPORTER_OTLP_HEADERS: not of the form name=value,…; no spans are exported",
        ]
    );
}

#[test]
fn a_header_cannot_break_out_of_its_line_or_replace_one_of_ours() {
    for bad in ["a=b%0d%0ac: d", "a b=c", "a=%00", "=x", "noequals", "a=%zz"] {
        let told = problems(&[("OTEL_EXPORTER_OTLP_HEADERS", bad)]);
        let expected = "OTEL_EXPORTER_OTLP_HEADERS: not of the form name=value,…; no spans are exported";
        assert_eq!(told, (false, vec![expected.to_owned()]), "{bad}");
    }
    let told = problems(&[("OTEL_EXPORTER_OTLP_HEADERS", "Content-Length=1")]);
    assert_eq!(
        told.1,
        ["OTEL_EXPORTER_OTLP_HEADERS: the header Content-Length cannot be set; no spans are exported"]
    );
}

#[test]
fn what_is_secret_is_not_debugged() {
    let found = settings(&[("OTEL_EXPORTER_OTLP_HEADERS", "authorization=canary")]);
    assert!(!format!("{found:?}").contains("canary"));
}
