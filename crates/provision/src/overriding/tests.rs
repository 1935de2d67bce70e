//! The override of services of every shape, by snapshot; `tests/overriding.rs` puts the same through Compose.

use super::*;
use palisade_config::infra::MountAccess;
use palisade_core::{GuestPath, ProjectPath};

fn model() -> Model {
    serde_json::from_value(serde_json::json!({
        "name": "shop-3",
        "services": {
            "api": {
                "container_name": "shop",
                "environment": {"OTEL_RESOURCE_ATTRIBUTES": "a=b"},
                "networks": {"default": null},
                "ports": [
                    {"target": 80, "published": "8080", "host_ip": "127.0.0.1", "protocol": "tcp", "mode": "ingress"},
                    {"target": 81, "published": "9003", "protocol": "tcp"},
                    {"target": 82, "published": "5000", "protocol": "udp"},
                    {"target": 83}
                ]
            },
            "worker": {"networks": {"front": {"aliases": ["w"]}}, "container_name": "shop-3-worker"},
            "host": {
                "network_mode": "host",
                "volumes": [
                    {"type": "bind", "source": "/projects/it \"is\"", "target": "/app"},
                    {"type": "bind", "source": "/projects/it \"is\"", "target": "/read", "read_only": true}
                ]
            },
            "built": {"image": "shop:1", "build": {"context": "."}, "networks": {"default": null}},
            "uses": {"image": "shop:1", "networks": {"default": null}},
            "own": {"image": "shop-3-own", "build": {"context": "."}, "network_mode": "none"},
            "sidecar": {"network_mode": "service:api"}
        },
        "networks": {"default": {"name": "shop-3_default"}, "front": {"name": "front"}},
        "volumes": {"data": {"name": "shop-3_data"}, "cache": {"name": "cache"}, "out": {"name": "out", "external": true}}
    }))
    .unwrap()
}

fn mount(service: &str) -> CodeMount {
    CodeMount {
        service: service.into(),
        source: ProjectPath::new("src/$x").unwrap(),
        target: GuestPath::new("/app/src").unwrap(),
        access: MountAccess::ReadOnly,
    }
}

fn scoped(name: &str, services: &[&str]) -> ScopedSecret {
    let services = services.iter().map(|it| (*it).to_owned()).collect();
    ScopedSecret { name: VariableName::new(name).unwrap(), services }
}

const PORTS: &[SlotPort] = &[SlotPort { base: 8080, port: 8083 }, SlotPort { base: 9000, port: 9003 }];

#[test]
fn services_of_every_shape_get_their_part() {
    let (model, worktree) = (model(), HostPath::new("/projects/it \"is\"").unwrap());
    let otel = Otel { endpoint: Some("http://otel:4317".into()), network: Some("telemetry".into()) };
    let (mounts, secrets) = ([mount("api")], [scoped("TOKEN", &["worker"])]);
    let input = OverrideInput {
        model: &model,
        inactive: &[],
        worktree: &worktree,
        mounts: &mounts,
        otel: Some(&otel),
        secrets: &secrets,
        ports: PORTS,
        collisions: CollisionChoice::Override,
    };
    insta::assert_snapshot!(plan(&input).unwrap());
    let left =
        OverrideInput { collisions: CollisionChoice::Leave, otel: None, mounts: &[], secrets: &[], ..input };
    insta::assert_snapshot!("without_anything_declared", plan(&left).unwrap());
}

#[test]
fn what_collides_is_explained_with_its_remedy() {
    let told: Vec<String> =
        collisions(&model(), PORTS).iter().map(|it| format!("{it}; {}", it.remedy())).collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn services_that_there_are_not_are_told_all_at_once() {
    let (model, worktree) = (model(), HostPath::new("/w").unwrap());
    let (mounts, secrets) =
        ([mount("apo"), mount("apo")], [scoped("A", &["api", "x"]), scoped("B", &["y", "off"])]);
    let inactive = ["off".to_owned()];
    let input = OverrideInput {
        model: &model,
        inactive: &inactive,
        worktree: &worktree,
        mounts: &mounts,
        otel: None,
        secrets: &secrets,
        ports: &[],
        collisions: CollisionChoice::Leave,
    };
    let services = "the services are: api, built, host, own, sidecar, uses, worker, off";
    assert_eq!(
        plan(&input).unwrap_err().to_string(),
        format!(
            "A is for a service x that there is not, B is for a service y that there is not in [sandbox.secrets]; {services}"
        )
    );
    assert_eq!(
        plan(&OverrideInput { secrets: &[], ..input }).unwrap_err().to_string(),
        format!("there is no service apo in [sandbox.mounts]; {services}")
    );
}

#[test]
fn the_git_file_is_out_of_reach_however_the_whole_worktree_is_mounted() {
    let root = tempfile::tempdir().unwrap();
    let worktree = HostPath::new(root.path().canonicalize().unwrap()).unwrap();
    std::os::unix::fs::symlink(".", worktree.join("self")).unwrap();
    let bind =
        |path: &str| serde_json::json!({"type": "bind", "source": worktree.join(path), "target": "/in"});
    let model: Model = serde_json::from_value(serde_json::json!({"name": "p", "services": {
        "linked": {"volumes": [bind("self")]}, "part": {"volumes": [bind("src")]}, "added": {}}}))
    .unwrap();
    let mounts = [CodeMount {
        source: ProjectPath::new("self").unwrap(),
        access: MountAccess::ReadWrite,
        ..mount("added")
    }];
    let input = OverrideInput {
        model: &model,
        inactive: &[],
        worktree: &worktree,
        mounts: &mounts,
        otel: None,
        secrets: &[],
        ports: &[],
        collisions: CollisionChoice::Leave,
    };
    let part = |name: &str| service_part(&input, name, &model.services[name], None).fenced_git;
    assert_eq!(part("linked"), ["/in/.git"]);
    assert_eq!(part("added"), ["/app/src/.git"]);
    assert_eq!(part("part"), [""; 0]);
}
