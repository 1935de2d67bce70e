//! What no collector hears, and what of the collector nobody else does.

use crate::support::Scene;
use palisade_testing::{Instance, requires};

/// Arguments, variables, input, output and the directory of a command are the user's own.
#[test]
fn nothing_of_a_users_command_is_told() {
    requires!(bwrap);
    let scene = Scene::new("bwrap");
    let work = scene.instance.work().join("canary-directory");
    std::fs::create_dir(&work).unwrap();
    scene.run(&["create", "box"]).ok();
    let mut start = scene.command(&["start", "box"]);
    Instance::finish(start.env("PALISADE_LOG", "trace")).ok();
    let script = "echo $SECRET; echo canary-argument; exit 0";
    let commands: [&[&str]; 3] = [
        &["--log-level", "trace", "run", "-w", "canary-directory", "-e", "SECRET", "--", "sh", "-c", script],
        &["--log-level", "trace", "exec", "-e", "SECRET", "box", "--", "sh", "-c", script],
        &["--log-level", "trace", "run", "--", "canary-program"],
    ];
    for command in commands {
        let outcome = Instance::finish(scene.command(command).env("SECRET", "canary-secret"));
        assert!(outcome.stdout.contains("canary-secret") || outcome.code == 127, "{outcome:?}");
    }
    scene.run(&["stop", "box"]).ok();
    scene.run(&["inspect", "canary-name"]);
    let deliveries = scene.collector.deliveries();
    assert!(deliveries.len() >= 7, "{}", deliveries.len());
    for delivery in deliveries {
        let body = String::from_utf8_lossy(&delivery.body);
        assert!(!body.contains("canary"), "{body}");
    }
}

/// They come to the collector, from the command and from the keeper, and nowhere else.
#[test]
fn headers_reach_the_collector_and_neither_a_log_nor_a_sandbox() {
    requires!(bwrap);
    let scene = Scene::new("bwrap");
    let run = |arguments: &[&str]| {
        let mut command = scene.command(&["--log-level", "trace"]);
        command.args(arguments).env("PALISADE_LOG", "trace");
        command.env("OTEL_EXPORTER_OTLP_HEADERS", "x-key=canary%20header,x-other=1");
        Instance::finish(&mut command).ok()
    };
    let outcomes = [
        run(&["run", "--", "env"]),
        run(&["create", "box"]),
        run(&["start", "box"]),
        run(&["exec", "box", "--", "env"]),
        run(&[
            "exec",
            "box",
            "--",
            "sh",
            "-c",
            "cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'",
        ]),
        run(&["stop", "box"]),
    ];
    for outcome in outcomes {
        for text in [outcome.stdout, outcome.stderr] {
            assert!(!text.contains("canary") && !text.contains("OTEL_"), "{text}");
        }
    }
    let directory = scene.instance.state().join("sandboxes");
    let log = std::fs::read_dir(directory).unwrap().next().unwrap().unwrap().path().join("keeper.log");
    let log = std::fs::read_to_string(log).unwrap();
    assert!(log.contains("keeper starts") && !log.contains("canary"), "{log}");
    let deliveries = scene.collector.deliveries();
    let keepers =
        deliveries.iter().filter(|delivery| delivery.spans.iter().any(|span| span.name == "sandbox.keep"));
    assert_eq!(keepers.count(), 1);
    for delivery in deliveries {
        assert_eq!(
            (delivery.headers["x-key"].as_str(), delivery.headers["x-other"].as_str()),
            ("canary header", "1")
        );
        assert!(!String::from_utf8_lossy(&delivery.body).contains("canary"));
    }
}
