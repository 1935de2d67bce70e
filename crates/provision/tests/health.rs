//! The health gate against real sockets and real services.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot set its scene has failed, and says why it was skipped"
)]

mod support;

use palisade_core::{Diagnostic as _, ExitCode};
use palisade_provision::{Attempt, HealthError, HealthGate, HealthProgress};
use palisade_testing::requires;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, ToSocketAddrs};
use std::time::Duration;
use support::{Project, run};

const PATIENCE: Duration = Duration::from_secs(60);

fn gate(port: u16, timeout: Duration) -> HealthGate {
    HealthGate { port, endpoint: "/health".into(), timeout }
}

/// Answers each connection with the next of these.
fn server(address: impl ToSocketAddrs, answers: Vec<&'static str>) -> u16 {
    let listener = TcpListener::bind(address).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut connection, _) = listener.accept().unwrap();
            let mut request = [0; 1024];
            let read = connection.read(&mut request).unwrap();
            assert!(request[..read].starts_with(b"GET /health HTTP/1.1\r\nHost: localhost:"));
            connection.write_all(answer.as_bytes()).unwrap();
        }
    });
    port
}

#[test]
fn it_waits_through_failures_until_the_first_success() {
    let project = Project::new("services: {a: {image: x}}\n");
    let failing = "HTTP/1.1 503 Service Unavailable\r\n\r\n";
    let port = server("127.0.0.1:0", vec!["", "SSH-2.0\r\n", failing, failing, "HTTP/1.1 200 OK\r\n\r\nok"]);
    let mut told = Vec::new();
    let gate = gate(port, PATIENCE);
    run(gate.wait(&project.stack, |step| {
        if let HealthProgress::Attempt { attempt, .. } = step {
            told.push(attempt);
        }
    }))
    .unwrap();
    assert_eq!(told, [Attempt::Silent, Attempt::NotHttp, Attempt::Status(503)]);
}

#[test]
fn a_service_on_ipv6_alone_is_reached() {
    let project = Project::new("services: {a: {image: x}}\n");
    let port = server("[::1]:0", vec!["HTTP/1.1 204 No Content\r\n\r\n"]);
    run(gate(port, PATIENCE).wait(&project.stack, |_| ())).unwrap();
}

#[test]
fn a_service_that_is_not_healthy_in_time_is_told_with_its_logs_and_stays_up() {
    requires!(docker, compose);
    let port = free_port();
    let project = Project::new(&format!(
        "\
services:
  api:
    image: palisade-services
    command: [sh, -c, 'echo no health here; exec httpd -f -p 80 -h /tmp']
    stop_grace_period: 0s
    ports: ['127.0.0.1:{port}:80']
    healthcheck: {{test: [CMD, 'true'], interval: 1s}}
  other: {{image: palisade-services, command: [sleep, '1000'], stop_grace_period: 0s}}
"
    ));
    project.up().0.unwrap();
    let mut states = Vec::new();
    let error = run(gate(port, Duration::from_secs(4)).wait(&project.stack, |step| {
        if let HealthProgress::Services(services) = step {
            states.extend(services.iter().map(|state| state.service.clone()));
        }
    }))
    .unwrap_err();
    assert_eq!((error.code(), error.exit()), ("health-timeout", ExitCode::Timeout));
    assert_eq!(
        error.to_string(),
        format!(
            "http://localhost:{port}/health was not healthy within 4 seconds: it answers with status 404"
        )
    );
    let [service] = error.services() else { panic!("{error:?}") };
    assert_eq!((service.service.as_str(), &service.lines[..]), ("api", &["no health here".to_owned()][..]));
    assert!(states.contains(&"api".into()) && states.contains(&"other".into()), "{states:?}");
    assert_eq!(run(project.stack.states()).unwrap().len(), 2);

    // The control: the same service with a file to serve.
    let name = format!("{}-api-1", project.stack.project);
    support::docker(&["exec", &name, "touch", "/tmp/health"]);
    run(gate(port, PATIENCE).wait(&project.stack, |_| ())).unwrap();
}

#[test]
fn a_service_that_has_ended_is_not_waited_for() {
    requires!(docker, compose);
    let port = free_port();
    let project = Project::new(&format!(
        "services: {{api: {{image: palisade-services, command: [sh, -c, 'echo bye; exit 4'], ports: ['127.0.0.1:{port}:80']}}}}\n"
    ));
    project.up().0.unwrap();
    let error = run(gate(port, Duration::from_secs(600)).wait(&project.stack, |_| ())).unwrap_err();
    let HealthError::Ended { services, .. } = error else { panic!("{error:?}") };
    let seen: Vec<_> = services.iter().map(|it| (it.state.as_str(), it.lines.join("\n"))).collect();
    assert_eq!(seen, [("exited with code 4", "bye".into())]);
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
