//! What a sandbox has replaced is refused at the next start, whatever shows it and whoever is shown it.

use crate::support::{OWN, SECRET, Scene, assert_changed, call, wrap};

palisade_testing::on_isolating_methods!(
    a_mount_below_a_sandboxs_own_workspace_stays_where_it_was,
    a_tool_below_the_workspace_of_another_sandbox_stays_where_it_was,
    a_workspace_below_that_of_another_sandbox_stays_where_it_was,
    a_wrapper_stays_where_it_was,
    a_path_that_is_given_now_follows_no_link_that_a_sandbox_made,
    another_directory_in_the_place_of_one_is_refused_until_it_is_accepted,
);

fn a_mount_below_a_sandboxs_own_workspace_stays_where_it_was(method: &'static str) {
    for (mounted, swapped) in
        [("project/sub", "sub"), ("project/sub/below", "sub"), ("project/sub/file", "sub")]
    {
        let scene = Scene::new(method);
        let mount = format!("{}:/data:ro", scene.text(mounted));
        scene.instance.run(["create", "--start", "-w", "project", "--mount", &mount, "box"]).ok();
        let swap = format!("mv {swapped} gone && ln -s {} {swapped}", scene.outside().display());
        assert_eq!(scene.instance.shell("box", &swap).ok().stdout, "");
        scene.assert_control_leaks("sub");
        scene.instance.run(["stop", "box"]).ok();
        assert_changed(&scene.instance.run(["start", "box"]));
        assert_ne!(scene.instance.run(["rebind", "box"]).code, 0, "a planted link is never accepted");
        // The directory itself, put back, is what it was.
        std::fs::remove_file(scene.path("project/sub")).unwrap();
        std::fs::rename(scene.path("project/gone"), scene.path("project/sub")).unwrap();
        scene.instance.run(["start", "box"]).ok();
        let file = if mounted.ends_with("file") { "/data" } else { "/data/file" };
        assert_eq!(scene.instance.shell("box", &format!("cat {file}")).ok().stdout, OWN);
        scene.instance.run(["rm", "--force", "box"]).ok();
    }
}

fn a_tool_below_the_workspace_of_another_sandbox_stays_where_it_was(method: &'static str) {
    let scene = Scene::new(method);
    let tool = scene.text("project/sub");
    scene.instance.run(["create", "--start", "--tool", &tool, "box"]).ok();
    assert_eq!(scene.instance.shell("box", &format!("cat {tool}/file")).ok().stdout, OWN);
    scene.instance.run(["stop", "box"]).ok();
    scene.plant_link("sub");
    scene.assert_control_leaks("sub");
    assert_changed(&scene.instance.run(["start", "box"]));
    scene.instance.run(["rm", "box"]).ok();
}

fn a_workspace_below_that_of_another_sandbox_stays_where_it_was(method: &'static str) {
    let scene = Scene::new(method);
    scene.instance.run(["create", "-w", "project/sub:ro", "box"]).ok();
    scene.plant_link("sub");
    scene.assert_control_leaks("sub");
    assert_changed(&scene.instance.run(["start", "box"]));
    scene.instance.run(["rm", "box"]).ok();
}

fn a_wrapper_stays_where_it_was(method: &'static str) {
    let scene = Scene::new(method);
    let mount = format!("{}:/data:ro", scene.text("project/sub"));
    let wrappers = [
        wrap(&scene, &["-w", "project/sub:ro", "--", "cat", "file"]),
        wrap(&scene, &["-w", "project/bin", "--mount", &mount, "--", "cat", "/data/file"]),
    ];
    for wrapper in &wrappers {
        assert_eq!(call(wrapper).ok().stdout, OWN);
    }
    scene.plant_link("sub");
    scene.assert_control_leaks("sub");
    for wrapper in &wrappers {
        assert_changed(&call(wrapper));
        let path = wrapper.to_str().unwrap();
        assert_ne!(scene.instance.run(["rebind", path]).code, 0);
        scene.instance.run(["wrap", "--rm", path]).ok();
    }
}

fn a_path_that_is_given_now_follows_no_link_that_a_sandbox_made(method: &'static str) {
    let scene = Scene::new(method);
    let (sub, mount) = (scene.text("project/sub"), format!("{}:/data:ro", scene.text("project/sub")));
    let forms: [&[&str]; 4] = [
        &["run", "--mount", &mount, "--", "cat", "/data/file"],
        &["run", "--tool", &sub, "--", "cat", &format!("{sub}/file")],
        &["run", "-w", "project/sub:ro", "--", "cat", "file"],
        &["create", "--mount", &mount, "box"],
    ];
    // The control: a link that the user made before there was a sandbox is the user's.
    std::fs::rename(scene.path("project/sub"), scene.path("project/gone")).unwrap();
    std::os::unix::fs::symlink(scene.outside(), scene.path("project/sub")).unwrap();
    for words in &forms[..3] {
        assert_eq!(scene.instance.run(*words).ok().stdout, SECRET, "{words:?}");
    }
    std::fs::remove_file(scene.path("project/sub")).unwrap();
    std::fs::rename(scene.path("project/gone"), scene.path("project/sub")).unwrap();
    scene.plant_link("sub");
    for words in forms {
        let outcome = scene.instance.run(words);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (1, ""), "{words:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains("lies where a sandbox could write"), "{words:?}: {}", outcome.stderr);
    }
}

fn another_directory_in_the_place_of_one_is_refused_until_it_is_accepted(method: &'static str) {
    let scene = Scene::new(method);
    let mount = format!("{}:/data:ro", scene.text("project/sub"));
    scene.instance.run(["create", "--mount", &mount, "box"]).ok();
    let wrapper = wrap(&scene, &["-w", "project/sub:ro", "--", "cat", "file"]);
    scene.in_project("mv sub gone && mkdir sub && echo other > sub/file");
    assert_changed(&scene.instance.run(["start", "box"]));
    assert_changed(&call(&wrapper));
    let accepted = scene.instance.run(["rebind", "box"]).ok();
    assert_eq!(accepted.stdout, format!("{} (another directory than before)\n", scene.text("project/sub")));
    scene.instance.run(["start", "box"]).ok();
    assert_eq!(scene.instance.shell("box", "cat /data/file").ok().stdout, "other\n");
    scene.instance.run(["rm", "--force", "box"]).ok();
    scene.instance.run(["rebind", wrapper.to_str().unwrap()]).ok();
    assert_eq!(call(&wrapper).ok().stdout, "other\n");
    scene.instance.run(["wrap", "--rm", wrapper.to_str().unwrap()]).ok();
}
