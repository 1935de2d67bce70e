//! Files that git ignores come home, on every method by the same stream.

use crate::agent::{git, repository, without_archive};
use palisade_testing::Instance;
use std::os::unix::fs::PermissionsExt;

contracts!(ignored_files_come_back_and_the_next_time_replaces_them);

fn read(instance: &Instance, name: &str) -> String {
    std::fs::read_to_string(instance.work().join(name)).unwrap()
}

fn ignored_files_come_back_and_the_next_time_replaces_them(method: &'static str) {
    let instance = repository(method);
    let task = "printf 'build/\\n*.o\\n' > .gitignore && git add -A && git commit -qm ignore && \
                mkdir -p build/deep src && echo one > build/deep/out && echo one > src/a.o && echo loose > loose && \
                printf '#!/bin/sh\\necho ran\\n' > build/tool && chmod 755 build/tool && ln -s tool build/link";
    instance.run(["agent", "start", "--agent", "shell", "--name", "box", "--task", task]).ok();
    let sync = |arguments: &[&str]| {
        let synced =
            without_archive(instance.run(["agent", "sync", "box"].iter().chain(arguments))).ok().stderr;
        synced.replace(instance.work().canonicalize().unwrap().to_str().unwrap(), "WORK")
    };
    assert_eq!(sync(&[]), "main: 1 commit\nmain: changes in loose\n");
    assert!(!instance.work().join("build").exists(), "only when it is asked for");
    let nothing = "nothing new\n";
    assert_eq!(sync(&["--artifacts"]), format!("{nothing}main: 3 artifacts, 27 bytes, 1 link in WORK\n"));
    assert_eq!(
        (read(&instance, "build/deep/out"), read(&instance, "src/a.o")),
        ("one\n".into(), "one\n".into())
    );
    let tool = std::fs::metadata(instance.work().join("build/link")).unwrap();
    assert_eq!(tool.permissions().mode() & 0o777, 0o755);
    assert_eq!(git(&instance, "status --porcelain"), "?? loose");

    instance.run(["agent", "exec", "box", "--", "sh", "-c", "echo two > build/deep/out"]).ok();
    assert_eq!(
        sync(&["--artifacts", "build"]),
        format!("{nothing}main: 1 artifact, 4 bytes, 2 there already in WORK\n")
    );
    assert_eq!(read(&instance, "build/deep/out"), "two\n");
    instance.run(["agent", "rm", "box"]).ok();
}
