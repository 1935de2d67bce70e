use super::*;
use palisade_core::{
    ByteSize, CpuCount, Foundation, HostIdentity, Limit, Method, Policy, SandboxDir, SandboxId, SandboxName,
};

fn spec(name: Option<&str>) -> SandboxSpec {
    let dir = || SandboxDir::new(HostPath::new("/state/sandboxes/x").unwrap());
    SandboxSpec {
        id: SandboxId::from_random([7; 15]),
        name: name.map(|name| SandboxName::new(name).unwrap()),
        method: Method::Docker,
        policy: Policy::default(),
        foundation: Foundation::default(),
        paths: Vec::new(),
        dir: name.map(|_| dir()),
        identity: HostIdentity { uid: 1000, gid: 1000 },
        owner: "owner".into(),
        git: Vec::new(),
    }
}

fn input(spec: &SandboxSpec) -> PlanInput<'_> {
    PlanInput {
        spec,
        dialect: Dialect::Docker,
        image: "palisade-bash:latest",
        guest_volume: "palisade-guest-0123",
        role: Role::Sandbox,
        user: User::default(),
        home: Place::Volume("palisade-x-home".into()),
        workspace: Place::Volume("palisade-x-workspace".into()),
        tools: Vec::new(),
        binds: Vec::new(),
        accounts: None,
        expected: Vec::new(),
        loopback: Loopback::BothFamilies,
        mark: None,
    }
}

/// With sorted keys, which a map of the engine's own types has not.
fn shown(body: &ContainerCreateBody) -> String {
    serde_json::to_string_pretty(&serde_json::to_value(body).unwrap()).unwrap()
}

#[test]
fn a_sandbox_on_docker() {
    insta::assert_snapshot!(shown(&container(&input(&spec(Some("box"))))));
}

#[test]
fn a_sandbox_with_a_network_limits_and_paths_of_the_host_on_rootless_podman() {
    let mut spec = spec(Some("box"));
    spec.policy.network = Network::Allowlist;
    spec.policy.resources.memory = Limit::asked(ByteSize(ByteSize::GIB));
    spec.policy.resources.cpus = Limit::asked(CpuCount::whole(1));
    let shared = HostPath::new("/srv/project").unwrap();
    let tools = HostPath::new("/opt/tools").unwrap();
    let input = PlanInput {
        dialect: Dialect::RootlessPodman,
        workspace: Place::Host(shared, Access::ReadWrite),
        binds: vec![Bind { host: tools, guest: "/opt/tools".into(), access: Access::ReadOnly }],
        expected: vec![ExpectedMount { device: 1, inode: 2, path: "/opt/tools".into() }],
        ..input(&spec)
    };
    insta::assert_snapshot!(shown(&container(&input)));
}

#[test]
fn a_sandbox_with_a_uid_of_its_own_on_an_engine_of_roots() {
    let spec = spec(Some("box"));
    for (dialect, name) in [(Dialect::Docker, "docker"), (Dialect::Podman, "podman")] {
        let body = container(&PlanInput {
            dialect,
            user: User { uid: 1_910_000_007, gid: 1_910_000_007 },
            accounts: Some(HostPath::new("/state/accounts/1-2.boot.id").unwrap()),
            ..input(&spec)
        });
        insta::assert_snapshot!(format!("a_sandbox_with_a_uid_of_its_own_on_{name}"), shown(&body));
    }
}

#[test]
fn a_run_keeps_everything_in_memory_and_ends_with_its_host() {
    let spec = spec(None);
    let input = PlanInput {
        role: Role::Run,
        home: Place::Memory,
        workspace: Place::Memory,
        mark: Some((labels::PROCESS.into(), "1-2.boot".into())),
        ..input(&spec)
    };
    insta::assert_snapshot!(shown(&container(&input)));
}

#[test]
fn tools_in_volumes_stand_at_their_own_paths_and_nobody_can_change_them() {
    let spec = spec(Some("box"));
    let tools = vec![Shown { volume: "palisade-tools-owner-0123".into(), guest: "/opt/tools".into() }];
    for (dialect, expected) in [
        (
            Dialect::Docker,
            r#"{"ReadOnly":true,"Source":"palisade-tools-owner-0123","Target":"/opt/tools","Type":"volume","VolumeOptions":{"NoCopy":true}}"#,
        ),
        (Dialect::Podman, r#""palisade-tools-owner-0123:/opt/tools:ro,nocopy""#),
    ] {
        let body = container(&PlanInput { dialect, tools: tools.clone(), ..input(&spec) });
        let host = serde_json::to_value(body.host_config.unwrap()).unwrap();
        let shown = if dialect == Dialect::Docker { &host["Mounts"] } else { &host["Binds"] };
        assert_eq!(shown.as_array().unwrap().last().unwrap().to_string(), expected);
    }
}

#[test]
fn a_helper_has_the_volumes_and_nothing_else() {
    let spec = spec(Some("box"));
    let body = helper(
        "palisade-bash:latest",
        Dialect::Podman,
        labels::of(&spec, Kind::Helper),
        &[("palisade-x-home", "home")],
    );
    insta::assert_snapshot!(shown(&body));
}

#[test]
fn podman_is_asked_to_leave_volumes_to_their_user() {
    let own = User { uid: 1_910_000_007, gid: 1_910_000_008 };
    let options = |dialect, user| volume_options(dialect, user).map(|options| options["o"].clone());
    assert_eq!(options(Dialect::Podman, own).as_deref(), Some("uid=1910000007,gid=1910000008"));
    assert_eq!(options(Dialect::Podman, User::default()), None);
    assert_eq!(options(Dialect::Docker, own), None);
    assert_eq!(options(Dialect::RootlessPodman, own), None);
}

#[test]
fn no_policy_weakens_what_isolates() {
    for network in [Network::None, Network::Allowlist, Network::Open] {
        for dialect in [Dialect::Docker, Dialect::Podman, Dialect::RootlessPodman] {
            for role in [Role::Sandbox, Role::Bound, Role::Run, Role::Check] {
                for root in [Access::ReadOnly, Access::ReadWrite] {
                    let mut spec = spec(Some("box"));
                    (spec.policy.network, spec.policy.root) = (network, root);
                    let body = container(&PlanInput { dialect, role, ..input(&spec) });
                    let host = body.host_config.unwrap();
                    assert_eq!(host.network_mode.as_deref(), Some("none"));
                    assert_eq!(host.cap_drop, Some(vec!["ALL".to_owned()]));
                    assert_eq!((host.cap_add, host.privileged), (None, Some(false)));
                    assert!(host.security_opt.unwrap().contains(&"no-new-privileges".to_owned()));
                    let entry = body.entrypoint.unwrap();
                    assert_eq!(entry, ["/.palisade/guest", "confined"], "behind our own filter");
                    assert_eq!(body.user.as_deref(), Some("1000:1000"));
                    assert_eq!(body.env, None, "the environment travels over the stream");
                    assert_eq!((host.devices, host.pid_mode, host.port_bindings), (None, None, None));
                }
            }
        }
    }
}
