use super::*;

#[test]
fn what_runs_by_itself_is_known_by_its_name_wherever_it_lies() {
    use RunTrigger::*;
    for (path, trigger) in [
        ("sub/.git", Repository),
        ("sub/.git/config", Repository),
        (".hg/hgrc", Repository),
        (".jj/repo/config.toml", Repository),
        (".svn/wc.db", Repository),
        (".husky/_/pre-commit", Git),
        (".githooks/post-merge", Git),
        ("lefthook.yml", Git),
        (".pre-commit-config.yaml", Git),
        (".gitattributes", GitSettings),
        (".gitmodules", GitSettings),
        ("vendor/x/HEAD", GitSettings),
        (".envrc", Entering),
        ("deep/er/.envrc", Entering),
        ("mise.toml", Entering),
        (".config/mise/config.toml", Entering),
        (".tool-versions", Entering),
        (".vscode/tasks.json", Opening),
        (".VSCode/settings.json", Opening),
        (".vscode", Opening),
        (".idea/runConfigurations/x.xml", Opening),
        (".devcontainer/devcontainer.json", Opening),
        (".exrc", Opening),
        (".dir-locals.el", Opening),
        (".claude/settings.json", Agents),
        ("claude.md", Agents),
        (".mcp.json", Agents),
        (".cursor/mcp.json", Agents),
        (".gemini/settings.json", Agents),
        (".codex/config.toml", Agents),
        (".npmrc", Installing),
        (".yarnrc.yml", Installing),
        (".yarn/releases/yarn.cjs", Installing),
        ("setup.py", Installing),
        ("crates/a/build.rs", Building),
        (".cargo/config.toml", Building),
        ("tests/conftest.py", Building),
        ("sitecustomize.py", Building),
        (".github/workflows/ci.yml", Pipeline),
    ] {
        assert_eq!(by_path(Path::new(path)), Some(trigger), "{path}");
    }
    for path in [
        "src/main.rs",
        "HEAD",
        "vscode/tasks.json",
        ".github/CODEOWNERS",
        "envrc",
        "package.json",
        "Makefile",
        "justfile",
        ".yarn/cache/left-pad.zip",
        ".cargo/registry/index",
        ".claude/worktrees/topic/src/main.rs",
        "gitattributes",
    ] {
        assert_eq!(by_path(Path::new(path)), None, "{path}");
    }
    // An ordinary directory in one that counts is looked into like any other.
    assert_eq!(by_path(Path::new(".claude/worktrees/topic/.envrc")), Some(Entering));
}

#[test]
fn every_row_is_found_by_the_first_letter_and_length_of_its_name() {
    for (text, trigger) in TABLE {
        let path = format!("some/{}", text.trim_end_matches('/'));
        assert_eq!(by_path(Path::new(&path)), Some(*trigger), "{text}");
    }
}

#[test]
fn the_scripts_of_a_manifest_are_read_as_a_package_manager_reads_them() {
    let found = |text: &str| lifecycle_scripts(text.as_bytes());
    assert_eq!(found(r#"{"scripts":{"test":"jest","build":"tsc"}}"#), []);
    assert_eq!(found(r#"{"scripts":{"prepare":"husky"}}"#), [("prepare", r#""husky""#.to_owned())]);
    // The same name, written so that a search for it finds nothing.
    assert_eq!(found(r#"{"scripts":{"\u0070ostinstall":"x"}}"#)[0].0, "postinstall");
    assert_eq!(found(r#"{"packageManager":"yarn@https://example.com/y.js"}"#)[0].0, "packageManager");
    // One that only some package managers can read.
    assert_eq!(found("{ /* x */ }").len(), 1);
}
