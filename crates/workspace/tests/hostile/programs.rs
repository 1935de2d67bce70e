//! Programs that the user's own configuration names, or that the sandbox's does: none of them runs on the host.

use crate::assert_refs;
use crate::support::{Scene, paths};
use palisade_workspace::{CommitsOutcome, WhyWaiting};

/// A setting that names a program, and what the user might do with plain git that runs it.
const PROGRAMS: &[(&str, &str)] = &[
    ("filter.tool.clean", "git pull -q ../inside main; touch readme; git status"),
    ("filter.tool.smudge", "git pull -q ../inside main"),
    ("filter.tool.process", "git pull -q ../inside main"),
    (
        "merge.tool.driver",
        "echo '* merge=tool' > .gitattributes; sed -i s/1/0/ code; git add -A; git commit -qm own; git pull -q --no-rebase ../inside main",
    ),
    ("diff.tool.textconv", "git pull -q ../inside main; git diff HEAD~1"),
    ("diff.tool.command", "git pull -q ../inside main; git diff HEAD~1"),
    ("diff.external", "git fetch -q ../inside main; git diff HEAD FETCH_HEAD"),
    ("core.fsmonitor", "git status"),
    ("core.sshCommand", "git fetch box:/workspace"),
    ("core.pager", "script -qec 'git log' /dev/null"),
    ("core.editor", "git commit -q --allow-empty"),
    ("credential.helper", "printf 'protocol=https\\nhost=x\\n\\n' | git credential fill"),
    ("gpg.program", "git -c commit.gpgSign=true commit -q --allow-empty -m signed"),
];

const ATTRIBUTES: &str = "echo '* filter=tool merge=tool diff=tool' > .gitattributes && echo agent >> readme && \
                          sed -i s/1/one/ code && git add -A && git commit --quiet -m attributes";

#[tokio::test]
async fn no_program_that_the_users_settings_name_runs_on_a_sandboxs_content() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside(ATTRIBUTES);
    for (setting, plain) in PROGRAMS {
        let trap = scene.program(setting);
        scene.plain(&format!("git config {setting} '{trap}'; {plain}"));
        assert_eq!(scene.sprung(), [*setting], "the control: {plain}");
    }

    for (setting, _) in PROGRAMS {
        scene.host(&format!("git config {setting} '{}'", scene.program(setting)));
    }
    scene.host(
        "git config filter.tool.required true; git config commit.gpgSign true; git config merge.default tool",
    );
    scene.inside("echo w > work");
    let synced = scene.sync().await;
    assert_eq!(
        (synced.commits(), synced.written()),
        (CommitsOutcome::Moved { count: 1, dropped: 0 }, paths(&["work"]))
    );
    // A merge with conflicts in the user's working tree, and one without.
    let quiet = "git -c core.fsmonitor=false -c filter.tool.clean= -c filter.tool.smudge= -c filter.tool.process= \
                 -c filter.tool.required=false -c commit.gpgSign=false";
    scene.host(&format!("sed -i s/one/own/ code; {quiet} commit -qam own"));
    scene.sprung();
    scene.inside("sed -i s/one/other/ code && git commit -qam other");
    let synced = scene.merge().await;
    assert_eq!(synced.waiting().why, WhyWaiting::Conflicts(paths(&["code"])));
    scene.host(&format!("{quiet} reset -q --hard HEAD"));
    scene.sprung();
    scene.inside(
        "git reset -q --hard HEAD~1 && sed -i s/5/five/ code && git commit -qam fits && echo x > work",
    );
    assert_eq!(scene.merge().await.commits(), CommitsOutcome::Merged { count: 1 });
    scene.start().await;
    scene.unapplied().await;
    assert_eq!(scene.sprung(), Vec::<String>::new());
    assert_eq!(scene.read("host/code"), "own\n2\n3\n4\nfive\n");
    scene.host("git config --unset core.fsmonitor");
    assert_refs(&scene, &["refs/heads/main"]);
}

/// A stand-in for Git LFS marks every run.
#[tokio::test]
async fn git_lfs_does_not_run() {
    let scene = Scene::new();
    scene.start().await;
    let oid = "0123456789abcdef".repeat(4);
    let pointer = format!("version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize 1\n");
    scene.write("inside/big.bin", &pointer);
    scene.inside("echo '*.bin filter=lfs diff=lfs merge=lfs -text' > .gitattributes && git add -A && git commit -qm big");
    let lfs = ["clean", "smudge", "process"].map(|verb| (verb, scene.trap(verb)));
    let settings: String =
        lfs.iter().map(|(verb, trap)| format!("git config filter.lfs.{verb} '{trap}';")).collect();
    let settings = format!("{settings} git config filter.lfs.required true;");
    scene.plain(&format!("{settings} git pull -q ../inside main"));
    assert_eq!(scene.sprung(), ["process"], "the control");

    scene.host(&settings);
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!((scene.read("host/big.bin"), scene.sprung()), (pointer, vec![]));
}

const HOOKS: [&str; 12] = [
    "post-checkout",
    "post-merge",
    "post-commit",
    "post-rewrite",
    "post-index-change",
    "pre-merge-commit",
    "pre-commit",
    "pre-push",
    "pre-auto-gc",
    "prepare-commit-msg",
    "commit-msg",
    "reference-transaction",
];

#[tokio::test]
async fn no_hook_runs_neither_the_users_nor_one_that_the_agent_wrote() {
    let scene = Scene::new();
    scene.start().await;
    let husky = |place: &str| {
        for hook in HOOKS {
            scene.write(&format!("{place}/{hook}"), &format!("#!/bin/sh\n{} </dev/null\n", scene.trap(hook)));
        }
        scene.host(&format!("chmod +x {}/*", scene.path(place).display()));
    };
    husky("host/.git/hooks");
    husky("inside/.husky/_");
    scene.inside("git add -A && git commit -qm hooks && echo x > new");
    scene.plain("git pull -q ../inside main");
    assert!(scene.sprung().contains(&"post-merge".into()), "the control with the user's own hooks");
    scene.plain("rm .git/hooks/*; git config core.hooksPath .husky/_; git pull -q ../inside main; git checkout -q -b x");
    assert!(scene.sprung().contains(&"post-checkout".into()), "the control with the agent's");

    for hooks_path in ["", "git config core.hooksPath .husky/_"] {
        scene.host(hooks_path);
        scene.sync().await;
        scene.start().await;
        scene.inside("echo again >> code && git commit -qam again");
    }
    scene.host("git -c core.hooksPath=/dev/null commit -q --allow-empty -m users");
    assert_eq!(scene.merge().await.commits(), CommitsOutcome::Merged { count: 1 });
    scene.host("git -c core.hooksPath=/dev/null commit -q --allow-empty -m more; echo own > readme; git -c core.hooksPath=/dev/null commit -qam own");
    scene.inside("echo theirs > readme && git commit -qam theirs");
    assert_eq!(scene.merge().await.waiting().why, WhyWaiting::Conflicts(paths(&["readme"])));
    assert_eq!(scene.sprung(), Vec::<String>::new());
}

/// The file is the user's at the first look, and the sandbox's once its work is there.
#[tokio::test]
async fn configuration_in_the_working_tree_that_the_user_includes_runs_nothing() {
    for condition in ["include.path", "includeIf.onbranch:main.path"] {
        let scene = Scene::new();
        scene.host("touch .gitconfig && git add -A && git commit -qm config");
        scene.start().await;
        scene.host(&format!("git config {condition} ../.gitconfig"));
        let trap = scene.trap("late");
        scene.inside(&format!(
            "git config -f .gitconfig filter.late.clean '{trap}' && git config -f .gitconfig filter.late.smudge '{trap}'
             git config -f .gitconfig core.fsmonitor '{trap}'; git config -f .gitconfig merge.late.driver '{trap}'
             echo '* filter=late merge=late' > .gitattributes && echo x >> code && git add -A && git commit -qm late
             echo y >> code && echo z > new"
        ));
        scene.plain("git pull -q ../inside main; touch code; git status; git checkout -q HEAD~1");
        assert_eq!(scene.sprung(), ["late"], "the control");

        assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
        scene.inside("echo more >> code; git commit -qam more");
        scene.sync().await;
        // A merge with conflicts, in which the sandbox's commit changes the file.
        let no_filters = "git -c filter.late.clean= -c filter.late.smudge= -c core.fsmonitor=false";
        scene.host(&format!(
            "{no_filters} reset -q --hard; rm new; echo own > readme; {no_filters} commit -qam own"
        ));
        scene.inside(&format!("git config -f .gitconfig merge.later.driver '{trap}'; echo '* merge=later' > .gitattributes; echo theirs > readme; git add -A; git commit -qm theirs"));
        scene.sprung();
        assert_eq!(scene.merge().await.waiting().why, WhyWaiting::Conflicts(paths(&["readme"])));
        assert_eq!(scene.sprung(), Vec::<String>::new());
    }
}

/// What the sandbox's own configuration names runs inside, or nowhere.
#[tokio::test]
async fn a_sandboxs_own_configuration_and_hooks_stay_inside() {
    let scene = Scene::new();
    scene.start().await;
    let trap = scene.trap("inside");
    for setting in
        ["core.fsmonitor", "core.sshCommand", "diff.external", "core.pager", "filter.f.clean", "core.editor"]
    {
        scene.inside(&format!("git config {setting} '{trap}'"));
    }
    scene.write("inside/.git/hooks/post-checkout", &format!("#!/bin/sh\n{trap}\n"));
    scene.write("home/evil", &format!("[core]\nfsmonitor = \"{}\"\n", trap.replace('"', "\\\"")));
    scene.inside("chmod +x .git/hooks/* && git config include.path ../../home/evil && echo '* filter=f' > .gitattributes && echo agent > code");
    scene.plain("git -C ../inside status; git -C ../inside diff");
    assert_eq!(scene.sprung(), ["inside"], "the control: git that works in the sandbox's directory");

    scene.sync().await;
    scene.host("git commit -qam taken");
    scene.start().await;
    assert_eq!((scene.sprung(), scene.read("host/code").as_str()), (vec![], "agent\n"));
}

/// The user is told of what runs by itself, committed or not.
#[tokio::test]
async fn files_that_run_by_themselves_are_listed() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo 'touch x' > .envrc; git add -A; git commit -qm envrc; mkdir .vscode; echo '{}' > .vscode/tasks.json; ln -s /etc/passwd link; echo plain > plain");
    let synced = scene.sync().await;
    let committed: Vec<_> =
        synced.branch("main").unwrap().autorun.iter().map(|file| file.path.clone()).collect();
    assert_eq!(committed, paths(&[".envrc"]));
    let files = synced.files();
    let loose: Vec<_> = files.autorun.iter().map(|file| file.path.clone()).collect();
    assert_eq!(loose, paths(&[".vscode/tasks.json", "link"]));
    assert_eq!(files.written, paths(&[".vscode/tasks.json", "link", "plain"]));
}
