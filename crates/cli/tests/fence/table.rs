//! The attacks of a sandbox on the host's git: how the user's repository is set up, what the sandbox does in it, and what
//! the user does afterwards that would run it.

use crate::place::Place;

/// One attack. In its texts `MARK` stands for a file that must not appear.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    pub(crate) prepare: fn(&Place),
    /// What the sandbox does, again and again.
    pub(crate) script: &'static str,
    /// What the user does on the host after it, besides `git status`, `git diff` and a prompt.
    pub(crate) trigger: &'static str,
}

/// Words that the scripts use: a configuration that makes `git status` run something, a repository and a layout without
/// `.git` that have it, and a program that leaves the mark.
pub(crate) const WORDS: &str = "poison() { printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = \"touch MARK; false\"\\n' > \"$1\"; }
    repository() { mkdir -p $1/objects $1/refs; echo 'ref: refs/heads/main' > $1/HEAD; poison $1/config; }
    bare() { poison config; printf '\\tbare = false\\n\\tworktree = .\\n' >> config; }
    program() { mkdir -p $(dirname $1); printf '#!/bin/sh\\ntouch MARK\\n%s\\n' \"$2\" > $1; chmod +x $1; }\n";

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "configuration",
        prepare: nothing,
        script: "git config core.fsmonitor 'touch MARK; false'",
        trigger: "",
    },
    Attack {
        name: "bare layout with a dangling HEAD",
        prepare: nothing,
        script: "rm -f .git/HEAD; ln -s refs/heads/main HEAD; for f in objects refs; do echo > $f; chmod +x $f; done; bare",
        trigger: "",
    },
    Attack {
        name: "bare layout of directories",
        prepare: nothing,
        script: "rm -f .git/HEAD; mkdir -p objects refs; echo 'ref: refs/heads/main' > HEAD; bare",
        trigger: "",
    },
    Attack {
        name: "the git directory replaced",
        prepare: nothing,
        script: "mv .git old && repository .git",
        trigger: "",
    },
    Attack {
        name: "a link in the place of the git directory",
        prepare: nothing,
        script: "repository evil; mv .git old && ln -s evil .git",
        trigger: "",
    },
    Attack {
        name: "a .git file",
        prepare: nothing,
        script: "repository evil; mv .git old && echo 'gitdir: evil' > .git",
        trigger: "",
    },
    Attack {
        name: "a .git file that leads on by commondir",
        prepare: nothing,
        script: "repository evil; mkdir -p step; cp evil/HEAD step; echo ../evil > step/commondir
                 mv .git old && echo 'gitdir: step' > .git",
        trigger: "",
    },
    Attack {
        name: "commondir",
        prepare: nothing,
        script: "repository evil; echo ../evil > .git/commondir",
        trigger: "",
    },
    Attack {
        name: "a hard link to the configuration",
        prepare: nothing,
        script: "ln .git/config alias && poison alias",
        trigger: "",
    },
    Attack {
        name: "objects of the sandbox's choice",
        prepare: nothing,
        script: "mkdir -p evil/info evil/pack; echo planted | GIT_OBJECT_DIRECTORY=$PWD/evil git hash-object -w --stdin
                 mkdir -p .git/objects/info; echo ../../evil > .git/objects/info/alternates",
        trigger: "git cat-file -e $(echo planted | git hash-object --stdin) && touch MARK",
    },
    Attack {
        name: "worktree configuration",
        prepare: |place| place.configure("[extensions]\n\tworktreeConfig = true\n"),
        script: "poison .git/config.worktree",
        trigger: "",
    },
    Attack {
        name: "the git data of a worktree beside",
        prepare: |place| place.git(&["worktree", "add", "-q", "--detach", &place.beside()]),
        script: "repository evil; for w in .git/worktrees/*; do echo ../../../evil > $w/commondir; done",
        trigger: "git -C $BESIDE status",
    },
    Attack {
        name: "a rebase that waits to go on",
        prepare: nothing,
        script: "test -d .git/rebase-merge || GIT_SEQUENCE_EDITOR='sed -i 1ibreak' git rebase -q -i HEAD~1
                 echo 'exec touch MARK' > .git/rebase-merge/git-rebase-todo",
        trigger: "git rebase --continue; git rebase --abort",
    },
    Attack {
        name: "a sequence with a strategy of its own",
        prepare: nothing,
        script: "program git-merge-/x 'exit 1'; mkdir -p .git/sequencer; git rev-parse HEAD > .git/sequencer/head
                 pick=\"pick $(git rev-parse HEAD) x\"; printf '%s\\n' \"$pick\" \"$pick\" > .git/sequencer/todo
                 printf '[options]\\n\\tstrategy = /x\\n' > .git/sequencer/opts",
        trigger: "git cherry-pick --continue; git cherry-pick --abort",
    },
    Attack {
        name: "a program that fsmonitor names",
        prepare: |place| {
            place.program("watch.sh", "exit 1");
            place.configure("[core]\n\tfsmonitor = ./watch.sh\n");
        },
        script: "program watch.sh 'exit 1'",
        trigger: "",
    },
    Attack {
        name: "a program that fsmonitor names, moved over it",
        prepare: |place| {
            place.program("watch.sh", "exit 1");
            place.configure("[core]\n\tfsmonitor = ./watch.sh\n");
        },
        script: "program new.sh 'exit 1'; mv -f new.sh watch.sh",
        trigger: "",
    },
    Attack {
        name: "the directory of a program that fsmonitor names",
        prepare: |place| {
            place.program("tools/watch.sh", "exit 1");
            place.configure("[core]\n\tfsmonitor = tools/watch.sh\n");
        },
        script: "mv tools old; program tools/watch.sh 'exit 1'",
        trigger: "",
    },
    Attack {
        name: "a filter's program",
        prepare: |place| {
            place.program("clean.sh", "cat");
            place.configure("[filter \"x\"]\n\tclean = sh ./clean.sh\n");
            place.write(".gitattributes", "* filter=x\n");
            place.commit();
        },
        script: "program clean.sh cat; echo changed > file",
        trigger: "",
    },
    Attack {
        name: "a filter of the user's own settings, with its program in the tree",
        prepare: |place| {
            place.program("team-clean.sh", "cat");
            place.configure_user("[filter \"team\"]\n\tclean = ./team-clean.sh\n");
            place.commit();
        },
        script: "program team-clean.sh cat; echo '* filter=team' > .gitattributes; echo changed > file",
        trigger: "",
    },
    Attack {
        name: "a filter whose program is absent",
        prepare: |place| place.configure_user("[filter \"later\"]\n\tclean = ./tools/later.sh\n"),
        script: "program tools/later.sh cat; echo '* filter=later' > .gitattributes; echo changed > file",
        trigger: "",
    },
    Attack {
        name: "a filter's program, named by a command",
        prepare: |place| {
            place.program("tools/top.sh", "cat");
            place.configure("[filter \"t\"]\n\tclean = \"$(git rev-parse --show-toplevel)/tools/top.sh\"\n");
            place.commit();
        },
        script: "program tools/top.sh cat; echo '* filter=t' > .gitattributes; echo changed > file",
        trigger: "",
    },
    Attack {
        name: "a program that shows differences",
        prepare: |place| {
            place.program("show.sh", "exit 0");
            place.configure("[diff]\n\texternal = ./show.sh\n");
        },
        script: "program show.sh 'exit 0'; echo changed > file",
        trigger: "",
    },
    Attack {
        name: "a program that turns files into text",
        prepare: |place| {
            place.program("text.sh", "cat \"$1\"");
            place.configure("[diff \"t\"]\n\ttextconv = ./text.sh\n");
        },
        script: "program text.sh 'cat \"$1\"'; echo '* diff=t' > .gitattributes; echo changed > file",
        trigger: "",
    },
    Attack {
        name: "a file that the user's configuration includes",
        prepare: |place| {
            place.write("team.config", "");
            place.configure_user(&format!("[include]\n\tpath = {}/team.config\n", place.path.display()));
        },
        script: "poison team.config",
        trigger: "",
    },
    Attack {
        name: "a file that the repository's configuration includes",
        prepare: |place| {
            place.write("team.config", "[core]\n\thooksPath = team-hooks\n");
            place.configure("[include]\n\tpath = ../team.config\n");
        },
        script: "poison team.config",
        trigger: "",
    },
    Attack {
        name: "hooks that an included file names",
        prepare: |place| {
            place.write("team.config", "[core]\n\thooksPath = team-hooks\n");
            place.configure("[include]\n\tpath = ../team.config\n");
        },
        script: "program team-hooks/pre-commit",
        trigger: "git commit -q --allow-empty -m x",
    },
    Attack {
        name: "a file that an included file includes",
        prepare: |place| {
            place.write("one.config", "[include]\n\tpath = two.config\n");
            place.write("two.config", "");
            place.configure("[include]\n\tpath = ../one.config\n");
        },
        script: "poison two.config",
        trigger: "",
    },
    Attack {
        name: "the directory of an included file",
        prepare: |place| {
            place.write("settings/team.config", "");
            place.configure("[include]\n\tpath = ../settings/team.config\n");
        },
        script: "mv settings old; mkdir -p settings; poison settings/team.config",
        trigger: "",
    },
    Attack {
        name: "a file that is included for a place",
        prepare: |place| {
            place.write("place.config", "");
            place.configure("[includeIf \"gitdir:/\"]\n\tpath = ../place.config\n");
        },
        script: "poison place.config",
        trigger: "",
    },
    Attack {
        name: "a file that is included on one branch, and is absent",
        prepare: |place| place.configure("[includeIf \"onbranch:main\"]\n\tpath = ../main.config\n"),
        script: "poison main.config",
        trigger: "",
    },
    Attack {
        name: "a file that is included by one for another branch",
        prepare: |place| {
            place.write("topic.config", "[include]\n\tpath = more.config\n");
            place.write("more.config", "");
            place.configure("[includeIf \"onbranch:topic\"]\n\tpath = ../topic.config\n");
        },
        script: "poison more.config",
        trigger: "git switch -qc topic; git status",
    },
    Attack {
        name: "a program that is named for another branch",
        prepare: |place| {
            place.write("topic.config", "[core]\n\tfsmonitor = ./watch.sh\n");
            place.program("watch.sh", "exit 1");
            place.configure("[includeIf \"onbranch:topic\"]\n\tpath = ../topic.config\n");
        },
        script: "program watch.sh 'exit 1'",
        trigger: "git switch -qc topic; git status",
    },
    Attack {
        name: "hooks of husky",
        prepare: |place| {
            place.program(".husky/_/pre-commit", ". \"$(dirname \"$0\")/../pre-commit\"");
            place.program(".husky/pre-commit", "exit 0");
            place.configure("[core]\n\thooksPath = .husky/_\n");
        },
        script: "program .husky/pre-commit; mv .husky old; program .husky/_/pre-commit",
        trigger: "git commit -q --allow-empty -m x",
    },
    Attack {
        name: "a directory of hooks that is absent",
        prepare: |place| place.configure("[core]\n\thooksPath = githooks\n"),
        script: "program githooks/pre-commit",
        trigger: "git commit -q --allow-empty -m x",
    },
    Attack {
        name: "a hook that is a link into the tree",
        prepare: |place| {
            place.program("scripts/check.sh", "exit 0");
            place.link("../../scripts/check.sh", ".git/hooks/pre-commit");
        },
        script: "program scripts/check.sh; mv scripts old; program scripts/check.sh",
        trigger: "git commit -q --allow-empty -m x",
    },
    Attack {
        name: "the program for ssh",
        prepare: |place| {
            place.program("ssh.sh", "exit 1");
            place.configure("[core]\n\tsshCommand = ./ssh.sh -v\n");
        },
        script: "program ssh.sh 'exit 1'",
        trigger: "git ls-remote ssh://nowhere.invalid/x",
    },
    Attack {
        name: "the program for signatures",
        prepare: |place| {
            place.program("sign.sh", "exit 1");
            place.configure("[gpg]\n\tprogram = ./sign.sh\n");
        },
        script: "program sign.sh 'exit 1'",
        trigger: "git commit -q -S --allow-empty -m x",
    },
    Attack {
        name: "the program for credentials",
        prepare: |place| {
            place.program("login.sh", "exit 1");
            place.configure("[credential]\n\thelper = !./login.sh\n");
        },
        script: "program login.sh 'exit 1'",
        trigger: "printf 'protocol=https\\nhost=nowhere.invalid\\n\\n' | git credential fill",
    },
    Attack {
        name: "the program that asks for a password",
        prepare: |place| {
            place.program("ask.sh", "exit 1");
            place.configure("[core]\n\taskPass = ./ask.sh\n");
        },
        script: "program ask.sh 'exit 1'",
        trigger: "printf 'protocol=https\\nhost=nowhere.invalid\\n\\n' | git credential fill",
    },
    Attack {
        name: "the pager",
        prepare: |place| {
            place.program("page.sh", "cat");
            place.configure("[core]\n\tpager = ./page.sh\n");
        },
        script: "program page.sh cat",
        trigger: "script -qec 'git log -1' /dev/null",
    },
    Attack {
        name: "the editor",
        prepare: |place| {
            place.program("edit.sh", "exit 1");
            place.configure("[core]\n\teditor = ./edit.sh --wait\n");
        },
        script: "program edit.sh 'exit 1'",
        trigger: "git commit -q --allow-empty",
    },
    Attack {
        name: "the editor of a rebase",
        prepare: |place| {
            place.program("order.sh", "exit 1");
            place.configure("[sequence]\n\teditor = ./order.sh\n");
        },
        script: "program order.sh 'exit 1'",
        trigger: "git rebase -q -i HEAD~1",
    },
    Attack {
        name: "a nested repository, in its place",
        prepare: |place| place.git(&["init", "-q", "nested"]),
        script: "poison nested/.git/config; mv nested old; repository nested/.git",
        trigger: "git -C nested status",
    },
    Attack {
        name: "an unpopulated submodule",
        prepare: |place| {
            place.record_submodule("sub");
            place.make_directory("sub");
        },
        script: "repository sub/.git",
        trigger: "",
    },
    Attack {
        name: "a populated submodule, moved away",
        prepare: Place::add_submodule,
        script: "mv lib old; mkdir -p lib/sub; rm -f lib/sub/.git 2>/dev/null; repository lib/sub/.git",
        trigger: "",
    },
    Attack {
        name: "the configuration of a submodule",
        prepare: Place::add_submodule,
        script: "git -C lib/sub config core.fsmonitor 'touch MARK; false'",
        trigger: "",
    },
    Attack {
        name: "the .git file of a submodule",
        prepare: Place::add_submodule,
        script: "repository evil; rm -f lib/sub/.git; echo 'gitdir: ../../evil' > lib/sub/.git",
        trigger: "",
    },
    Attack {
        name: "a program that the settings of a submodule name",
        prepare: |place| {
            place.add_submodule();
            place.program("lib/sub/watch.sh", "exit 1");
            place.git(&["-C", "lib/sub", "config", "core.fsmonitor", "./watch.sh"]);
        },
        script: "program lib/sub/watch.sh 'exit 1'",
        trigger: "",
    },
];

fn nothing(_: &Place) {}
