use super::choice::choose;
use super::*;
use std::collections::HashSet;
use std::os::unix::fs::PermissionsExt as _;

fn bases(ports: &[(&str, u16)]) -> BTreeMap<String, u16> {
    ports.iter().map(|(name, port)| ((*name).to_owned(), *port)).collect()
}

fn claim(project: &str, worktree: &str, ports: &[(&str, u16)]) -> Claim {
    Claim {
        project: project.into(),
        repository: HostPath::new("/src").unwrap(),
        worktree: HostPath::new(worktree).unwrap(),
        feature: "x/M1".parse().unwrap(),
        bases: bases(ports),
    }
}

fn slots() -> (tempfile::TempDir, Slots) {
    let home = tempfile::tempdir().unwrap();
    let slots = Slots::at(HostPath::new(home.path().join(".devops-ai/slots")).unwrap());
    (home, slots)
}

/// A port that is free, and the next few after it most likely as well.
fn some_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().min(65_000)
}

#[test]
fn the_first_number_whose_ports_are_all_free() {
    let busy = HashSet::from([8081, 5434]);
    let free = |port| !busy.contains(&port);
    let (number, ports) =
        choose(&bases(&[("API", 8080), ("DB", 5432)]), &Taken::default(), |_| false, free).unwrap();
    assert_eq!((number.get(), ports), (3, bases(&[("API", 8083), ("DB", 5435)])));
}

#[test]
fn a_refusal_tells_what_is_in_the_way() {
    let refusal = choose(&bases(&[("API", 65_534)]), &Taken::default(), |_| false, |_| false).unwrap_err();
    assert_eq!(
        refusal,
        [
            "slot 1: API 65535 is in use",
            "slot 2: API would be above 65535",
            "slot 3: API would be above 65535",
            "and 197 more"
        ]
    );
    assert_eq!(
        choose(&bases(&[]), &Taken::default(), |_| true, |_| true).unwrap_err(),
        ["all 200 are in use"]
    );
}

#[test]
fn a_port_somebody_listens_on_is_not_given_away() {
    for address in ["127.0.0.1", "[::1]", "0.0.0.0"] {
        // Below the ports that the kernel gives to whoever asks for any, so that no other test takes it.
        let port = (20_000..30_000).find(|port| is_free(*port)).unwrap();
        let _listener = TcpListener::bind(format!("{address}:{port}")).unwrap();
        assert!(!is_free(port), "{address}");
    }
}

#[test]
fn another_projects_claim_is_respected_before_anybody_listens() {
    let (_home, slots) = slots();
    let base = some_port();
    let first = slots.take(&claim("shop", "/one", &[("P", base)])).unwrap();
    let other = slots.take(&claim("bank", "/two", &[("Q", base)])).unwrap();
    assert_ne!(first.record.ports["P"], other.record.ports["Q"]);
    assert_eq!(slots.all().unwrap(), [other, first]);
}

#[test]
fn twenty_at_once_get_twenty_slots() {
    let (_home, slots) = slots();
    let base = some_port().min(40_000);
    let taken: Vec<Slot> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..20)
            .map(|index| {
                let slots = &slots;
                scope
                    .spawn(move || slots.take(&claim("shop", &format!("/w{index}"), &[("P", base)])).unwrap())
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let ports: HashSet<u16> = taken.iter().map(|slot| slot.record.ports["P"]).collect();
    let names: HashSet<String> = taken.iter().map(|slot| slot.record.name()).collect();
    assert_eq!((ports.len(), names.len()), (20, 20));
}

#[test]
fn a_slot_is_private_found_by_its_worktree_and_gone_when_released() {
    let (_home, slots) = slots();
    let slot = slots.take(&claim("shop", "/w", &[])).unwrap();
    slot.replace(".env.secrets", b"A='b'\n").unwrap();
    let mode = |path: &HostPath| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&slot.directory), mode(&slot.directory.join(".env.secrets"))), (0o700, 0o600));
    assert_eq!(slots.of_worktree(Path::new("/w/sub")).unwrap(), Some(slot.clone()));
    assert_eq!(slots.of_worktree(Path::new("/wide")).unwrap(), None);
    slots.release(&slot).unwrap();
    slots.release(&slot).unwrap();
    assert_eq!(slots.all().unwrap(), []);
    assert!(!slot.directory.as_path().exists());
}

#[test]
fn what_is_not_a_slot_is_neither_told_nor_overwritten() {
    let (_home, slots) = slots();
    fs::create_dir_all(slots.root.join("shop-1")).unwrap();
    fs::create_dir_all(slots.root.join("notes")).unwrap();
    fs::write(slots.root.join("notes/slot.json"), r#"{"project":"shop"}"#).unwrap();
    assert_eq!(slots.take(&claim("shop", "/w", &[])).unwrap().record.name(), "shop-2");
}

#[test]
fn what_a_killed_caller_left_is_no_slot_and_not_in_the_way() {
    let (_home, slots) = slots();
    fs::create_dir_all(slots.root.join(".new/half")).unwrap();
    let slot = slots.take(&claim("shop", "/w", &[])).unwrap();
    assert_eq!(slots.all().unwrap(), [slot]);
    assert!(!slots.root.join(".new").as_path().exists());
}

#[test]
fn a_worktree_has_one_slot() {
    let (_home, slots) = slots();
    slots.take(&claim("shop", "/w", &[])).unwrap();
    assert_eq!(
        slots.take(&claim("shop", "/w", &[])).unwrap_err().to_string(),
        "/w belongs to slot shop-1 already"
    );
}

#[test]
fn compose_projects_are_unique_and_in_the_form_that_compose_takes() {
    let number = |number| compose_project("My.App", SlotNumber(number)).unwrap();
    let (one, other) = (number(1), number(1));
    assert!(one.starts_with("my-app-1-") && one.len() == "my-app-1-".len() + 6, "{one}");
    assert_ne!(one, other);
}

#[test]
fn one_at_a_time_has_the_turn_and_sees_what_the_last_one_wrote() {
    let (_home, slots) = slots();
    let mut slot = slots.take(&claim("shop", "/w", &[])).unwrap();
    let mut seen_before = slot.clone();
    let turn = slot.turn().unwrap();
    assert!(turn.is_some());
    assert!(seen_before.turn().unwrap().is_none());
    slot.set_stage(Stage::Prepared).unwrap();
    drop(turn);
    assert!(seen_before.turn().unwrap().is_some());
    assert_eq!(seen_before.record.stage, Stage::Prepared);
    slots.release(&slot).unwrap();
    assert_eq!(slot.turn().unwrap_err().to_string(), "slot shop-1 was given back by another command");
}

#[test]
fn a_slot_gets_the_ports_that_its_project_has_by_now() {
    let (_home, slots) = slots();
    let base = some_port();
    let mut slot = slots.take(&claim("shop", "/w", &[("P", base)])).unwrap();
    let own = slot.record.ports["P"];
    // Its own services listen there by now.
    let _listener = TcpListener::bind(("127.0.0.1", own)).unwrap();
    let free = (20_000..30_000).find(|port| is_free(*port)).unwrap();
    let other = free - slot.record.number.get();
    slots.renew(&mut slot, &bases(&[("P", base), ("Q", other)])).unwrap();
    assert_eq!(slot.record.ports, bases(&[("P", own), ("Q", free)]));
    assert_eq!(slots.all().unwrap(), [slot.clone()]);
    let _taken = TcpListener::bind(("127.0.0.1", free + 1)).unwrap();
    let refused = slots.renew(&mut slot, &bases(&[("R", other + 1)])).unwrap_err();
    assert!(refused.to_string().ends_with(&format!("R {} is in use", free + 1)), "{refused}");
}
