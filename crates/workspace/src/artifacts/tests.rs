use super::*;

fn item(path: &str) -> ArtifactPath {
    ArtifactPath::new(Path::new(path)).unwrap()
}

#[test]
fn a_path_stays_in_the_working_tree_and_out_of_git() {
    assert_eq!(item("./target//debug/").to_path(), Path::new("target/debug"));
    assert_eq!(item("a\\b").names(), ["a\\b"]);
    for (path, why) in [
        ("/etc", InvalidArtifact::LeadsOut),
        ("..", InvalidArtifact::LeadsOut),
        ("target/../..", InvalidArtifact::LeadsOut),
        ("", InvalidArtifact::Whole),
        ("./.", InvalidArtifact::Whole),
        (".git/hooks", InvalidArtifact::Git),
        ("vendor/x/.GIT", InvalidArtifact::Git),
        ("git~1/config", InvalidArtifact::Git),
    ] {
        assert_eq!(ArtifactPath::new(Path::new(path)), Err(why), "{path:?}");
    }
}

#[test]
fn only_what_git_ignores_is_taken_from_its_answer_and_nonsense_is_counted() {
    let answer =
        b" M code\0?? new\0!! target/\0!! a b\xff\0!! .git/x\0!! ../out\0!! /abs\0!! target\0!! \0junk";
    let (items, strange) = parse_ignored(answer);
    let paths: Vec<PathBuf> = items.iter().map(ArtifactPath::to_path).collect();
    assert_eq!(paths, [Path::new(OsStr::from_bytes(b"a b\xff")), Path::new("target")]);
    assert_eq!(strange, 4);
    assert_eq!(parse_ignored(b""), (vec![], 0));
}

#[test]
fn a_link_stays_when_it_climbs_no_higher_than_what_is_brought() {
    let modules = item("web/node_modules");
    let stays = |link: &str, target: &str| link_stays(&modules, Path::new(link), Path::new(target));
    for (link, target) in [
        ("web/node_modules/.bin/tsc", "../typescript/bin/tsc"),
        ("web/node_modules/a", "b/c"),
        ("web/node_modules/a", "./b"),
        ("web/node_modules/x/y/z", "../.."),
    ] {
        assert!(stays(link, target), "{link} -> {target}");
    }
    for (link, target) in [
        ("web/node_modules/a", "/etc/passwd"),
        ("web/node_modules/a", "../package.json"),
        ("web/node_modules/.bin/a", "../../package.json"),
        ("web/node_modules/.bin/a", "b/../../c"),
        ("web/node_modules/a", "x/.git/hooks"),
        ("web/node_modules/a", ""),
        ("web/node_modules", "x"),
        ("web", "x"),
    ] {
        assert!(!stays(link, target), "{link} -> {target}");
    }
}

#[test]
fn what_git_has_is_known_with_what_lies_above_and_below_it() {
    let tracked: Tracked = ["src/main.rs", "link", "sub.mod"].into_iter().collect();
    for path in ["src/main.rs", "link", "link/below", "sub.mod/a/b"] {
        assert!(tracked.holds(Path::new(path)), "{path}");
    }
    for path in ["src", "src/main", "lin", "sub.mod2", "sub"] {
        assert!(!tracked.holds(Path::new(path)), "{path}");
    }
    assert!(tracked.lies_below(Path::new("src")));
    for path in ["sr", "src/main.rs", "sub", "link"] {
        assert!(!tracked.lies_below(Path::new(path)), "{path}");
    }
}

#[test]
fn the_tree_of_a_branch_is_found_among_all() {
    let list = b"worktree /a\0HEAD 1\0branch refs/heads/main\0\0worktree /b c\0HEAD 2\0branch refs/heads/side\0locked\0\0\
                 worktree /d\0HEAD 3\0detached\0\0";
    let found = |branch: &str| find_tree(list, &format!("refs/heads/{branch}"));
    assert_eq!(found("main"), Some(HostPath::new("/a").unwrap()));
    assert_eq!(found("side"), Some(HostPath::new("/b c").unwrap()));
    assert_eq!(found("mai"), None);
}
