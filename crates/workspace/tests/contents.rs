//! What files hold, what they are called, and what kind they are: all of it comes back as it was.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_workspace::{Arrival, CommitsOutcome, OnUncommitted};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use support::{Scene, paths};

const MOVED: CommitsOutcome = CommitsOutcome::Moved { count: 1, dropped: 0 };

/// Git knows files by second and size; a change right after a commit has neither.
#[tokio::test]
async fn a_change_within_the_same_second_and_of_the_same_size_comes_back() {
    let scene = Scene::new();
    scene.start().await;
    for round in ["a", "b", "c"] {
        scene.inside(&format!("echo {round}1 > readme && git commit -qam {round} && echo {round}2 > readme"));
        assert_eq!(scene.sync().await.written(), paths(&["readme"]), "{round}");
        assert_eq!(scene.read("host/readme"), format!("{round}2\n"));
    }
    // The same on the host: its change is seen.
    scene.inside("echo d1 > readme && git commit -qam d");
    scene.sync().await;
    scene.host("echo X1 > readme");
    scene.inside("echo d2 > readme");
    assert_eq!(scene.sync().await.files().conflicts, paths(&["readme"]));
}

#[tokio::test]
async fn odd_names_come_back() {
    let names: [&[u8]; 9] = [
        b"new\nline",
        b"tab\tquote\"back\\slash",
        b"not \xff\xfe utf-8",
        b"-option",
        b":(glob)**",
        b"*?[a]",
        b" blank ",
        "grün".as_bytes(),
        b"d/e/f/.hidden",
    ];
    let scene = Scene::new();
    scene.start().await;
    let place = |side: &str, name: &[u8]| scene.path(side).join(OsStr::from_bytes(name));
    std::fs::create_dir_all(scene.path("inside/d/e/f")).unwrap();
    for name in names {
        std::fs::write(place("inside", name), "1\n").unwrap();
    }
    // Not committed, then committed, then changed and removed again.
    let mut expected: Vec<PathBuf> =
        names.iter().map(|name| PathBuf::from(OsStr::from_bytes(name))).collect();
    expected.sort();
    assert_eq!(scene.sync().await.written(), expected);
    scene.inside("git add -A && git commit -qm names");
    assert_eq!(scene.sync().await.commits(), MOVED);
    for name in names {
        assert_eq!(std::fs::read(place("host", name)).unwrap(), b"1\n", "{name:?}");
        std::fs::write(place("inside", name), "2\n").unwrap();
    }
    assert_eq!(scene.sync().await.written(), expected);
    scene.inside("git rm -q -r --cached . && git reset -q && git add -A && git commit -qm changed && git rm -q -r -- ':(exclude)code' ':(exclude)readme' && git commit -qm removed");
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 2, dropped: 0 });
    assert_eq!(scene.host("git status --porcelain; ls -A"), ".git\ncode\nreadme");
}

#[tokio::test]
async fn modes_and_links_come_back() {
    let scene = Scene::new();
    scene.start().await;
    for commit in ["true", "git add -A && git commit -qm kinds"] {
        scene.inside(&format!(
            "chmod +x code; ln -sf nowhere link; printf '#!/bin/sh\\n' > tool; chmod +x tool; {commit}"
        ));
        scene.sync().await;
        assert_eq!(
            scene.host("test -x code && test -x tool && test ! -x readme && readlink link"),
            "nowhere",
            "{commit}"
        );
    }
    assert_eq!(scene.host("git status --porcelain"), "");
    // Only the mode, and one kind for another.
    scene.inside("chmod -x code; rm link; echo file > link; rm tool; ln -s code tool");
    assert_eq!(scene.sync().await.written(), paths(&["code", "link", "tool"]));
    assert_eq!(scene.host("test ! -x code && cat link && readlink tool"), "file\ncode");
}

#[tokio::test]
async fn a_host_whose_file_system_keeps_no_modes_is_not_taken_for_changed() {
    let scene = Scene::new();
    scene.start().await;
    scene.host("git config core.fileMode false; chmod +x readme code; git diff --exit-code");
    scene.inside("echo agent > code; git commit -qam second; echo more > readme; echo new > new");
    let synced = scene.sync().await;
    assert_eq!((synced.commits(), synced.written()), (MOVED, paths(&["new", "readme"])));
    scene.host("chmod +x readme code new");
    scene.inside("echo again > readme; echo again > new");
    assert_eq!(scene.sync().await.written(), paths(&["new", "readme"]));
    assert_eq!(scene.start().await.arrival, Arrival::Followed { moved: false });
}

#[tokio::test]
async fn line_ends_are_what_each_side_wants_them_to_be() {
    let scene = Scene::new();
    scene.host("git config core.autocrlf true; rm readme code; git checkout -q .; git diff --exit-code");
    scene.start().await;
    assert_eq!(scene.inside("cat -A readme"), "one$\ntwo$\nthree$");
    scene.inside("echo four >> readme; git commit -qam second; echo 6 >> code; printf 'a\\nb\\n' > new");
    let synced = scene.sync().await;
    assert_eq!((synced.commits(), synced.written()), (MOVED, paths(&["code", "new"])));
    assert_eq!(
        scene.host("cat -A readme code new | sort -u"),
        "1^M$\n2^M$\n3^M$\n4^M$\n5^M$\n6^M$\na^M$\nb^M$\nfour^M$\none^M$\nthree^M$\ntwo^M$"
    );
    assert_eq!(scene.host("git status --porcelain"), " M code\n?? new");
    assert!(scene.sync().await.is_nothing());
    // The same with attributes that the work brings along.
    scene.inside("git add -A; git commit -qm all; echo '*.txt eol=crlf' > .gitattributes; printf 'x\\ny\\n' > t.txt; git add -A; git commit -qm attributes");
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 2, dropped: 0 });
    assert_eq!(scene.host("git status --porcelain; cat -A t.txt"), "x^M$\ny^M$");
    // And a change of the user's goes in.
    scene.host("printf 'z\\r\\n' > code");
    scene.start_with(|options| options.on_uncommitted = OnUncommitted::Include).await.unwrap();
    assert_eq!(scene.inside("cat -A code; git status --porcelain"), "z$\n M code");
}

#[tokio::test]
async fn carriage_returns_that_belong_to_a_file_stay() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("printf 'a\\r\\nb\\n\\r' > mixed; printf '\\0\\r\\n' > binary; git add -A; git commit -qm bytes; printf 'c\\r\\n' > loose");
    assert_eq!(scene.sync().await.commits(), MOVED);
    assert_eq!(scene.host("cmp mixed ../inside/mixed; cmp binary ../inside/binary; cmp loose ../inside/loose; git status --porcelain"), "?? loose");
}

#[tokio::test]
async fn many_files_come_back() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("mkdir m; for n in $(seq 200); do echo $n > m/$n; done; git add -A; git commit -qm many; for n in $(seq 50); do echo x >> m/$n; echo $n > m/loose$n; done");
    let synced = scene.sync().await;
    assert_eq!((synced.commits(), synced.written().len()), (MOVED, 100));
    assert_eq!(scene.host("diff -r m ../inside/m; git status --porcelain | wc -l"), "100");
    scene.inside("rm m/200; git add -A; git commit -qm rest");
    assert_eq!(scene.sync().await.commits(), MOVED);
    assert_eq!(scene.host("git status --porcelain; ls m | wc -l"), "249");
}

#[tokio::test]
async fn empty_files_and_directories_that_come_and_go() {
    let scene = Scene::new();
    scene.host("mkdir -p a/b && echo 1 > a/b/c && git add -A && git commit -qm deep");
    scene.start().await;
    scene.inside(": > empty; mkdir void; git rm -q -r a; mkdir -p a/b/c; echo 2 > a/b/c/d");
    assert_eq!(scene.sync().await.written(), paths(&["a/b/c", "a/b/c/d", "empty"]));
    assert_eq!(scene.host("cat a/b/c/d; wc -c < empty; ls -d void 2>/dev/null || echo none"), "2\n0\nnone");
    scene.inside("rm -r a; echo 3 > a");
    scene.sync().await;
    assert_eq!(scene.host("cat a"), "3");
}
