//! Programs that the user's own configuration names, or that the sandbox's does: none of them runs on the host.

use crate::support::Scene;
use palisade_workspace::{Commits, Divergence, Work};

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
    scene.send().await;
    scene.inside(ATTRIBUTES);
    for (setting, plain) in PROGRAMS {
        let trap = scene.program(setting);
        scene.plain(&format!("git config {setting} '{trap}'; {plain}"));
        assert_eq!(scene.sprung(), [*setting], "the control: {plain}");
    }

    for (setting, _) in PROGRAMS {
        scene.host(&format!("git config {setting} '{}'", scene.program(setting)));
    }
    scene.host("git config filter.tool.required true; git config commit.gpgSign true");
    scene.inside("echo w > work");
    let applied = scene.sync(Divergence::Wait).await;
    assert!(matches!((applied.commits, applied.work), (Commits::Forwarded(1), Work::Laid { .. })));
    scene.inside(
        "git reset -q --hard HEAD~1 && sed -i s/1/other/ code && git commit -qam other && echo x > work",
    );
    assert!(matches!(scene.sync(Divergence::Merge).await.commits, Commits::Waiting { .. }));
    scene.host(
        "git -c core.fsmonitor= -c filter.tool.smudge= -c filter.tool.process= -c filter.tool.required=false \
                reset -q --hard HEAD 2>&1; rm -f work",
    );
    scene.sprung();
    scene.inside(
        "git reset -q --hard HEAD~1 && sed -i s/5/five/ code && git commit -qam fits && echo x > work",
    );
    assert_eq!(scene.sync(Divergence::Merge).await.commits, Commits::Merged(1));
    assert_eq!(scene.sprung(), Vec::<String>::new());
    assert_eq!(scene.read("host/code"), "one\n2\n3\n4\nfive\n");
}

/// Files of Git LFS stay the pointers that the agent has; a stand-in for it marks every run.
#[tokio::test]
async fn large_files_arrive_as_pointers_and_git_lfs_does_not_run() {
    let scene = Scene::new();
    scene.send().await;
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    scene.write("inside/big.bin", pointer);
    scene.inside("echo '*.bin filter=lfs diff=lfs merge=lfs -text' > .gitattributes && git add -A && git commit -qm big");
    let lfs = ["clean", "smudge", "process"].map(|verb| (verb, scene.trap(verb)));
    let settings: String =
        lfs.iter().map(|(verb, trap)| format!("git config filter.lfs.{verb} '{trap}';")).collect();
    let settings = format!("{settings} git config filter.lfs.required true;");
    scene.plain(&format!("{settings} git pull -q ../inside main"));
    assert_eq!(scene.sprung(), ["process"], "the control");

    scene.host(&settings);
    assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Forwarded(1));
    assert_eq!((scene.read("host/big.bin").as_str(), scene.sprung()), (pointer, vec![]));
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
    scene.send().await;
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
        scene.sync(Divergence::Wait).await;
        scene.send().await;
        scene.inside("echo again >> code && git commit -qam again");
    }
    scene.host("git -c core.hooksPath=/dev/null commit -q --allow-empty -m users");
    assert_eq!(scene.sync(Divergence::Merge).await.commits, Commits::Merged(1));
    assert_eq!(scene.sprung(), Vec::<String>::new());
}

#[tokio::test]
async fn configuration_in_the_working_tree_that_the_user_includes_runs_nothing() {
    for condition in ["include.path", "includeIf.onbranch:main.path"] {
        let scene = Scene::new();
        scene.host("touch .gitconfig && git add -A && git commit -qm config");
        scene.send().await;
        scene.host(&format!("git config {condition} ../.gitconfig"));
        let trap = scene.trap("late");
        scene.inside(&format!(
            "git config -f .gitconfig filter.late.clean '{trap}' && git config -f .gitconfig filter.late.smudge '{trap}'
             echo '* filter=late' > .gitattributes && echo x >> code && git add -A && git commit -qm late
             echo y >> code && echo z > new"
        ));
        scene.plain("git pull -q ../inside main; touch code; git status; git checkout -q HEAD~1");
        assert_eq!(scene.sprung(), ["late"], "the control");

        assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Forwarded(1));
        scene.inside("echo more >> code");
        scene.sync(Divergence::Wait).await;
        assert_eq!(scene.sprung(), Vec::<String>::new());
    }
}

/// What the sandbox's own configuration names runs inside, where its pack programs run, or nowhere.
#[tokio::test]
async fn a_sandboxs_own_configuration_and_hooks_stay_inside() {
    let scene = Scene::new();
    scene.send().await;
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

    scene.sync(Divergence::Wait).await;
    scene.host("git commit -qam taken");
    scene.send().await;
    assert_eq!((scene.sprung(), scene.read("host/code").as_str()), (vec![], "agent\n"));
}
