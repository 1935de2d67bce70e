//! What the user moves is the user's: it is used, reported once, and recorded.

use crate::support::{OWN, Scene, call, wrap};
use palisade_testing::{Instance, requires};
use rusqlite::Connection;

#[test]
fn what_no_sandbox_could_have_moved_is_reported_once_and_used() {
    requires!(bwrap);
    let scene = Scene::new("bwrap");
    let link = scene.path("current");
    std::os::unix::fs::symlink(scene.path("project/sub"), &link).unwrap();
    let mount = format!("{}:/data:ro", link.display());
    scene.instance.run(["create", "--mount", &mount, "box"]).ok();
    let wrapper = wrap(&scene, &["-w", "project/bin", "--mount", &mount, "--", "cat", "/data/file"]);
    let start = || {
        let started = scene.instance.run(["start", "box"]).ok();
        let said = scene.instance.shell("box", "cat /data/file").ok().stdout;
        scene.instance.run(["stop", "box"]).ok();
        (said, started.stderr)
    };
    assert_eq!(start().0, OWN);
    std::fs::create_dir(scene.path("new")).unwrap();
    std::fs::write(scene.path("new/file"), "new").unwrap();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(scene.path("new"), &link).unwrap();
    let (said, told) = start();
    assert_eq!(said, "new");
    let expected = format!("{} leads to {} now", link.display(), scene.text("new"));
    assert!(told.contains(&expected), "{told}");
    let (said, told) = start();
    assert_eq!(said, "new");
    assert!(!told.contains("leads to"), "{told}");
    let called = call(&wrapper).ok();
    assert_eq!(called.stdout, "new");
    assert!(called.stderr.contains(&expected), "{}", called.stderr);
    assert!(!call(&wrapper).ok().stderr.contains("leads to"));
    assert!(scene.instance.run(["logs", "box"]).stdout.contains("leads to"));
}

#[test]
fn a_directory_that_the_user_made_again_is_used_with_a_notice() {
    requires!(bwrap);
    let scene = Scene::new("bwrap");
    scene.instance.run(["create", "-w", "project/sub", "box"]).ok();
    std::fs::rename(scene.path("project/sub"), scene.path("project/gone")).unwrap();
    std::fs::create_dir(scene.path("project/sub")).unwrap();
    let started = scene.instance.run(["start", "box"]).ok();
    assert!(started.stderr.contains("is another directory than before"), "{}", started.stderr);
    scene.instance.run(["rm", "--force", "box"]).ok();
}

#[test]
fn a_record_of_an_older_version_is_completed_at_the_next_start() {
    requires!(bwrap);
    let scene = Scene::new("bwrap");
    let mount = format!("{}:/data:ro", scene.text("project/sub"));
    scene.instance.run(["create", "--mount", &mount, "box"]).ok();
    let wrapper = wrap(&scene, &["-w", "project/sub:ro", "--", "cat", "file"]);
    let paths = |instance: &Instance| -> Option<String> {
        let database = Connection::open(instance.state().join("state.db")).unwrap();
        database.query_row("SELECT spec ->> '$.paths' FROM sandboxes", [], |row| row.get(0)).unwrap()
    };
    let recorded = paths(&scene.instance).expect("what the paths lead to");
    assert!(recorded.contains("\"kind\":\"handle\""), "{recorded}");
    let database = Connection::open(scene.instance.state().join("state.db")).unwrap();
    database.execute("UPDATE sandboxes SET spec = json_remove(spec, '$.paths')", []).unwrap();
    drop(database);
    let own = wrapper.ancestors().nth(2).unwrap().join("paths.json");
    std::fs::remove_file(&own).unwrap();
    let started = scene.instance.run(["start", "box"]).ok();
    assert!(!started.stderr.contains("sub"), "{}", started.stderr);
    assert!(paths(&scene.instance).is_some());
    assert_eq!(call(&wrapper).ok().stdout, OWN);
    assert!(own.exists());
    scene.instance.run(["rm", "--force", "box"]).ok();
}
