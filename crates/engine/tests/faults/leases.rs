//! Leases: a command cleans up by itself after the dead, and only then.

use crate::fake::{Scene, dead_process, request};
use palisade_core::{Event, State};
use palisade_engine::{GcAction, GcItem, RemoveMode};
use palisade_host::process;
use std::path::PathBuf;

fn leases(scene: &Scene) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(scene.directory().join("leases")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// The lease of a process that has ended, or of one of another boot.
fn lease_of(scene: &Scene, label: &str, boot: &str) {
    std::fs::create_dir_all(scene.directory().join("leases")).unwrap();
    std::fs::write(scene.directory().join("leases").join(format!("{label}.{}", &boot[..8])), "").unwrap();
}

/// A create that died after its record.
fn interrupted(scene: &Scene) {
    scene.begun("half", 1, &dead_process());
}

#[tokio::test]
async fn a_verb_gives_its_lease_back() {
    let scene = Scene::new();
    scene.engine().create(request("web")).await.unwrap();
    scene.engine().start("web").await.unwrap_err();
    scene.engine().remove("web", RemoveMode::Careful).await.unwrap();
    assert_eq!(leases(&scene), Vec::<PathBuf>::new());
}

#[tokio::test]
async fn without_a_dead_lease_nothing_is_looked_at() {
    let scene = Scene::new();
    interrupted(&scene);
    let me = process::this_process();
    lease_of(&scene, &process::label(&me), &me.boot);
    assert_eq!(scene.engine().tidy().await, []);
    assert!(scene.row("half").is_some());
}

#[tokio::test]
async fn a_dead_lease_has_everything_of_the_dead_put_in_order_and_is_gone() {
    let scene = Scene::new();
    let dead = dead_process();
    interrupted(&scene);
    let row = scene.created("web").await;
    scene.store().transition(row.id(), State::Starting, None, 0).unwrap();
    lease_of(&scene, &process::label(&dead), &dead.boot);
    let told = [
        GcItem::new("interrupted create of sandbox half", GcAction::Undone),
        GcItem::new("sandbox web without a keeper", GcAction::Recovered),
    ];
    assert_eq!(scene.engine().tidy().await, told);
    assert_eq!((scene.row("half"), leases(&scene)), (None, Vec::new()));
    let events = scene.store().events(row.id(), 0, 100).unwrap();
    let recovered = Event::Recovered { what: "its start was interrupted".into() };
    assert_eq!(events.last().map(|stored| &stored.event), Some(&recovered));
    assert_eq!(scene.engine().tidy().await, []);
}

#[tokio::test]
async fn a_lease_of_another_boot_is_a_dead_one_even_when_its_number_is_in_use() {
    let scene = Scene::new();
    interrupted(&scene);
    lease_of(&scene, &process::label(&process::this_process()), "another boot");
    assert_eq!(scene.engine().tidy().await.len(), 1);
    assert_eq!(leases(&scene), Vec::<PathBuf>::new());
}
