//! What services ask of the host, from rendered models.

use super::*;
use crate::stack::Model;
use palisade_core::Secret;
use serde_json::{Value, json};

/// What services ask for without an override.
fn found(model: Value, redactor: &Redactor) -> HostRequests {
    let model: Model = serde_json::from_value(model).unwrap();
    let worktree = &HostPath::new("/nonexistent/worktree").unwrap();
    let (mounts, otel, collisions) = (&[], None, CollisionChoice::Leave);
    let input = OverrideInput {
        model: &model,
        inactive: &[],
        worktree,
        mounts,
        otel,
        secrets: &[],
        ports: &[],
        collisions,
    };
    host_requests(&input, redactor)
}

fn requests(model: Value, redactor: &Redactor) -> Vec<String> {
    found(model, redactor).iter().map(ToString::to_string).collect()
}

fn of_service(service: Value) -> Vec<String> {
    let told = requests(json!({"name": "p", "services": {"a": service}}), &Redactor::default());
    told.into_iter().map(|it| it.strip_prefix("service a ").unwrap().to_owned()).collect()
}

#[test]
fn a_service_that_keeps_to_itself_asks_for_nothing() {
    let service = json!({
        "image": "p-a", "command": null, "entrypoint": ["a"], "environment": {"A": "b"}, "privileged": false,
        "networks": {"default": null}, "ports": [{"target": 80, "published": "8081"}], "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"], "depends_on": {"b": {"condition": "service_started"}},
        "volumes": [
            {"type": "bind", "source": "/nonexistent/worktree/src", "target": "/src", "bind": {"create_host_path": true}},
            {"type": "volume", "source": "data", "target": "/data", "volume": {}}, {"type": "tmpfs", "target": "/t"}
        ],
        "build": {"context": "/nonexistent/worktree", "dockerfile": "Dockerfile", "args": {"A": "b"}, "network": "none",
            "additional_contexts": {"b": "service:b", "c": "https://x.invalid/c.git"}, "cache_from": ["x/y:1"]},
        "ipc": "private", "pid": "service:b", "network_mode": "service:b", "labels": {"my.app": "x"},
        "logging": {"driver": "json-file"}, "deploy": {"resources": {"limits": {"memory": "1"}}, "placement": {}},
        "post_start": [{"command": ["x"]}], "x-own": {"privileged": true},
        "develop": {"watch": [{"path": "/nonexistent/worktree/src", "action": "sync"}]}
    });
    assert_eq!(of_service(service), [""; 0]);
    let shared = json!({"name": "p", "services": {},
        "networks": {"default": {"name": "p_default", "ipam": {}}, "n": {"name": "p_n", "driver": "bridge", "internal": true}},
        "volumes": {"v": {"name": "p_v"}, "t": {"name": "p_t", "driver_opts": {"type": "tmpfs", "device": "tmpfs"}}},
        "secrets": {"s": {"name": "p_s", "file": "/nonexistent/worktree/s"}}, "x-own": {"a": 1}});
    assert_eq!(requests(shared, &Redactor::default()), [""; 0]);
}

#[test]
fn every_way_out_of_a_service_is_named() {
    for (service, expected) in [
        (json!({"privileged": true}), "runs privileged: it can do all that root can on this machine"),
        (json!({"cap_add": ["SYS_ADMIN"]}), "has the capability SYS_ADMIN"),
        (json!({"network_mode": "host"}), "shares the network of the host"),
        (json!({"network_mode": "container:db"}), "shares the network of container db"),
        (json!({"network_mode": "other_net"}), "uses the network other_net, which is not its own"),
        (json!({"pid": "host"}), "shares the processes of the host"),
        (json!({"pid": "container:x"}), "shares the processes of container x"),
        (json!({"ipc": "host"}), "shares the memory (ipc) of the host"),
        (json!({"uts": "host"}), "shares the host name (uts) of the host"),
        (json!({"userns_mode": "host"}), "shares the users (userns) of the host"),
        (json!({"cgroup": "host"}), "shares the control groups of the host"),
        (json!({"cgroup_parent": "/x"}), "sets cgroup_parent to /x"),
        (json!({"devices": ["/dev/kvm:/dev/kvm:rwm"]}), "uses the device /dev/kvm"),
        (json!({"devices": [{"source": "/dev/sda", "target": "/d"}]}), "uses the device /dev/sda"),
        (json!({"device_cgroup_rules": ["c 1:3 mr"]}), "sets device_cgroup_rules to [\"c 1:3 mr\"]"),
        (json!({"gpus": "all"}), "uses the device gpu"),
        (
            json!({"deploy": {"resources": {"reservations": {"devices": [{"capabilities": ["gpu"]}]}}}}),
            "uses the device gpu",
        ),
        (json!({"security_opt": ["seccomp=unconfined"]}), "sets security_opt to seccomp=unconfined"),
        (
            json!({"security_opt": ["no-new-privileges:false"]}),
            "sets security_opt to no-new-privileges:false",
        ),
        (json!({"sysctls": {"net.core.somaxconn": "1"}}), "sets sysctls to {\"net.core.somaxconn\":\"1\"}"),
        (json!({"runtime": "sysbox"}), "sets runtime to sysbox"),
        (json!({"credential_spec": {"file": "x"}}), "sets credential_spec to {\"file\":\"x\"}"),
        (json!({"use_api_socket": true}), "sets use_api_socket to true"),
        (json!({"provider": {"type": "evil"}}), "runs the program evil on this machine"),
        (json!({"invented_tomorrow": 1}), "sets invented_tomorrow to 1"),
        (json!({"annotations": {"run.oci.hooks": "x"}}), "sets annotations to {\"run.oci.hooks\":\"x\"}"),
        (json!({"oom_score_adj": -999}), "sets oom_score_adj to -999"),
        (
            json!({"labels": {"traefik.enable": "true"}}),
            "has the label traefik.enable, which steers other programs",
        ),
        (
            json!({"labels": {"ofelia.job-local.x.command": "id"}}),
            "has the label ofelia.job-local.x.command, which steers other programs",
        ),
        (json!({"logging": {"driver": "syslog"}}), "sets the driver of its logs to syslog"),
        (
            json!({"volumes_from": ["container:db:ro"]}),
            "uses the volumes of container db:ro, which is not its own",
        ),
        (json!({"external_links": ["db:x"]}), "uses the container db:x, which is not its own"),
        (
            json!({"post_start": [{"command": ["x"], "privileged": true}]}),
            "sets a post_start hook to privileged",
        ),
        (json!({"develop": {"watch": [{"path": "/etc"}]}}), "takes its watched files from /etc"),
        (
            json!({"volumes": [{"type": "bind", "source": "/nonexistent/s.sock", "target": "/s"}]}),
            "reads and writes /nonexistent/s.sock",
        ),
        (
            json!({"volumes": [{"type": "bind", "source": "/nonexistent", "target": "/s", "read_only": true}]}),
            "reads /nonexistent",
        ),
        (
            json!({"volumes": [{"type": "bind", "source": "/nonexistent/worktree/a", "target": "/s", "bind": {"propagation": "rshared"}}]}),
            "sets the propagation of a mount to rshared",
        ),
        (
            json!({"volumes": [{"type": "npipe", "source": "x", "target": "/s"}]}),
            "sets a mount of type npipe to x",
        ),
        (
            json!({"image": "debian:12", "build": {"context": "/nonexistent/worktree"}}),
            "builds the image debian:12, which is not its own alone",
        ),
        (json!({"build": {"context": "/nonexistent"}}), "takes its build context from /nonexistent"),
        (
            json!({"build": {"context": "/nonexistent/worktree", "dockerfile": "../D"}}),
            "takes its Dockerfile from /nonexistent/D",
        ),
        (
            json!({"build": {"context": "/nonexistent/worktree", "additional_contexts": {"a": "/etc"}}}),
            "takes its build context from /etc",
        ),
        (
            json!({"build": {"context": "/nonexistent/worktree", "additional_contexts": {"a": "oci-layout:///etc"}}}),
            "sets build context to oci-layout:///etc",
        ),
        (
            json!({"build": {"context": "/nonexistent/worktree", "ssh": ["default"]}}),
            "sets build.ssh to [\"default\"]",
        ),
        (
            json!({"build": {"context": "/nonexistent/worktree", "network": "host"}}),
            "sets build.network to host",
        ),
        (
            json!({"build": {"context": "/nonexistent/worktree", "entitlements": ["security.insecure"]}}),
            "sets build.entitlements to [\"security.insecure\"]",
        ),
        (
            json!({"build": {"context": "/nonexistent/worktree", "privileged": true}}),
            "runs privileged: it can do all that root can on this machine",
        ),
        (
            json!({"build": {"context": "/nonexistent/worktree", "cache_to": ["type=local,dest=/x"]}}),
            "sets build.cache_to to type=local,dest=/x",
        ),
        (
            json!({"build": {"context": "/nonexistent/worktree", "tags": ["debian:12"]}}),
            "sets build.tags to [\"debian:12\"]",
        ),
    ] {
        assert_eq!(of_service(service.clone()), [expected], "{service}");
    }
}

#[test]
fn every_way_out_beside_the_services_is_named() {
    let model = json!({"name": "p", "services": {},
        "networks": {"e": {"name": "bridge", "external": true}, "m": {"driver": "macvlan", "driver_opts": {"parent": "eth0"}}},
        "volumes": {"e": {"name": "v", "external": true}, "b": {"driver_opts": {"type": "none", "o": "bind", "device": "/etc"}},
            "n": {"driver": "nfs"}, "o": {"name": "other_data"}},
        "secrets": {"s": {"file": "/nonexistent/s"}, "d": {"driver": "x"}},
        "configs": {"c": {"file": "/nonexistent/c"}, "e": {"external": true}},
        "models": {"m": {"model": "x"}}});
    assert_eq!(
        requests(model, &Redactor::default()),
        [
            "config c takes its content from /nonexistent/c",
            "config e sets external to true",
            "network e uses the network bridge, which is not its own",
            "network m sets driver to macvlan",
            "network m sets driver_opts to {\"parent\":\"eth0\"}",
            "secret d sets driver to x",
            "secret s takes its content from /nonexistent/s",
            "the compose file sets models to {\"m\":{\"model\":\"x\"}}",
            "volume b sets driver_opts to {\"device\":\"/etc\",\"o\":\"bind\",\"type\":\"none\"}",
            "volume e uses the volume v, which is not its own",
            "volume n sets driver to nfs",
            "volume o uses the volume other_data, which is not its own",
        ]
    );
}

#[test]
fn an_agreement_holds_for_what_was_agreed_to_and_for_no_more() {
    let repository = HostPath::new("/home/me/shop").unwrap();
    let found = |service: Value, redactor: &Redactor| {
        found(json!({"name": "p", "services": {"a": service}}), redactor)
    };
    let plain = Redactor::default();
    let agreed: std::collections::BTreeMap<String, String> =
        found(json!({"privileged": true, "cap_add": ["A"]}), &plain)
            .iter()
            .map(|it| it.trust(&repository))
            .collect();
    assert!(agreed.contains_key("/home/me/shop allows: service a has the capability A"));
    let left = |requests: &HostRequests, repository: &HostPath| {
        let kept = |key: &str| Ok::<_, ()>(agreed.get(key).cloned());
        not_agreed(requests, repository, kept).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(left(&found(json!({"privileged": true}), &plain), &repository), [""; 0]);
    let grown = found(json!({"privileged": true, "cap_add": ["A", "B"]}), &plain);
    assert_eq!(left(&grown, &repository), ["service a has the capability B"]);
    assert_eq!(left(&grown, &HostPath::new("/home/me/other").unwrap()).len(), 3);
}

#[test]
fn a_secret_is_not_shown_and_another_one_is_another_request() {
    let redactor = |secret: &str| Redactor::new(&[Secret::new(secret)]);
    let of = |secret: &str| {
        let service = json!({"volumes": [{"type": "bind", "source": format!("/nonexistent/{secret}"), "target": "/x"}]});
        let requests = found(json!({"name": "p", "services": {"a": service}}), &redactor(secret));
        requests.into_iter().next().unwrap()
    };
    let (one, other) = (of("canary-one"), of("canary-two"));
    assert_eq!(one.to_string(), "service a reads and writes /nonexistent/[redacted]");
    assert_eq!(one.to_string(), other.to_string());
    assert_ne!(one, other);
    assert!(!format!("{one:?}").contains("canary"));
}

#[test]
fn without_anybody_to_ask_the_flag_is_named() {
    let requests = found(json!({"name": "p", "services": {"a": {"privileged": true}}}), &Redactor::default());
    let error = NotAgreed { requests: requests.into_iter().collect(), flag: "--trust" };
    assert_eq!((error.code(), error.exit()), ("host-access-not-agreed", ExitCode::Conflict));
    assert!(
        error.to_string().ends_with("service a runs privileged: it can do all that root can on this machine")
    );
    assert!(error.hints()[0].contains("--trust"));
}

#[test]
fn what_an_override_adds_is_asked_for_and_what_it_undoes_is_not() {
    use palisade_config::infra::{CodeMount, MountAccess, Otel};
    use palisade_core::{GuestPath, ProjectPath};
    let root = tempfile::tempdir().unwrap();
    let worktree = HostPath::new(root.path().canonicalize().unwrap()).unwrap();
    std::os::unix::fs::symlink("/etc", worktree.join("code")).unwrap();
    let model: Model = serde_json::from_value(json!({"name": "p-1",
        "services": {"a": {"image": "x", "build": {"context": "."}, "privileged": true}},
        "volumes": {"v": {"name": "fixed"}}, "networks": {"n": {"name": "fixed"}}}))
    .unwrap();
    let source = ProjectPath::new("code/ssh").unwrap();
    let target = GuestPath::new("/x").unwrap();
    let mounts = [CodeMount { service: "a".into(), source, target, access: MountAccess::ReadOnly }];
    let otel = Otel { endpoint: None, network: Some("telemetry".into()) };
    let left = OverrideInput {
        model: &model,
        inactive: &[],
        worktree: &worktree,
        mounts: &mounts,
        otel: Some(&otel),
        secrets: &[],
        ports: &[],
        collisions: CollisionChoice::Leave,
    };
    let told = |input: &OverrideInput<'_>| {
        host_requests(input, &Redactor::default()).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let added = [
        "infra.toml uses the network telemetry, which is not its own",
        "service a reads /etc/ssh",
        "service a runs privileged: it can do all that root can on this machine",
    ];
    assert_eq!(told(&OverrideInput { collisions: CollisionChoice::Override, ..left }), added);
    let fixed: Vec<_> = told(&left).into_iter().filter(|it| !added.contains(&it.as_str())).collect();
    assert_eq!(
        fixed,
        [
            "network n uses the network fixed, which is not its own",
            "service a builds the image x, which is not its own alone",
            "volume v uses the volume fixed, which is not its own",
        ]
    );
}

#[test]
fn a_mount_that_can_be_made_to_lead_elsewhere_is_named() {
    let root = tempfile::tempdir().unwrap();
    let worktree = HostPath::new(root.path().canonicalize().unwrap()).unwrap();
    std::os::unix::fs::symlink(".", worktree.join("whole")).unwrap();
    std::os::unix::fs::symlink("data/sub", worktree.join("link")).unwrap();
    let told = |services: Value| {
        let model =
            json!({"name": "p", "services": services, "secrets": {"s": {"file": worktree.join("keys/s")}}});
        let model: Model = serde_json::from_value(model).unwrap();
        let (mounts, otel, collisions) = (&[], None, CollisionChoice::Leave);
        let (inactive, secrets, ports) = (&[], &[], &[]);
        let input = OverrideInput {
            model: &model,
            inactive,
            worktree: &worktree,
            mounts,
            otel,
            secrets,
            ports,
            collisions,
        };
        let found = host_requests(&input, &Redactor::default());
        found.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let bind = |path: &str, read_only: bool| json!({"type": "bind", "source": worktree.join(path), "target": "/x", "read_only": read_only});
    let both = |one: Value, other: Value| json!({"a": {"volumes": [one]}, "b": {"volumes": [other]}});
    let moves = |path: &str, of: &str| {
        format!("service a can make {path}, which {of} has mounted, lead to any path of this machine")
    };
    let nothing: [String; 0] = [];

    // What cannot be written, or lies elsewhere, moves nothing; and nobody inside moves what is mounted itself.
    assert_eq!(told(both(bind("", true), bind("data", false))), nothing);
    assert_eq!(told(both(bind("src", false), bind("data", false))), nothing);
    assert_eq!(told(both(bind("data", false), bind("data", false))), nothing);
    assert_eq!(told(both(bind("data/sub/x", false), bind("data/sub", true))), nothing);
    assert_eq!(
        told(both(bind("data", false), bind("data/deep/x", true))),
        [moves("data/deep/x", "service b")]
    );
    // At whatever place of the way the link can be put.
    assert_eq!(told(both(bind("data", false), bind("link", true))), [moves("link", "service b")]);
    assert_eq!(told(both(bind("keys", false), bind("src", false))), [moves("keys/s", "secret s")]);
    let whole = [moves("keys/s", "secret s"), moves("whole", "service a")];
    assert_eq!(told(both(bind("whole", false), bind("whole", true))).len(), 3);
    assert_eq!(told(json!({"a": {"volumes": [bind("whole", false)]}})), whole);
    assert_eq!(told(both(bind(".git", true), bind("src", false))), nothing);
    assert_eq!(told(both(bind(".git", false), bind("src", false))), ["service a reads and writes .git"]);
}
