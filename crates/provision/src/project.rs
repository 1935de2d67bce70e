//! What kind of project a directory holds and what it is called, told by the file that its tools know it by.

/// The file that says what a project is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Marker {
    pub(crate) file: &'static str,
    /// For people: `Python`.
    pub(crate) language: &'static str,
    name: fn(&str) -> Option<String>,
}

impl Marker {
    /// The project's name, when the file tells one that sandboxes can be named after.
    pub(crate) fn name(&self, text: &str) -> Option<String> {
        (self.name)(text).and_then(|name| usable_name(&name))
    }
}

/// The likelier to be the project's own first: a Python project with a `package.json` has it for its tools.
pub(crate) const MARKERS: &[Marker] = &[
    Marker { file: "pyproject.toml", language: "Python", name: of_pyproject },
    Marker { file: "Cargo.toml", language: "Rust", name: of_cargo },
    Marker { file: "go.mod", language: "Go", name: of_go },
    Marker { file: "pom.xml", language: "Java", name: of_maven },
    Marker { file: "settings.gradle.kts", language: "Kotlin", name: of_gradle },
    Marker { file: "settings.gradle", language: "Java", name: of_gradle },
    Marker { file: "build.gradle.kts", language: "Kotlin", name: nothing },
    Marker { file: "build.gradle", language: "Java", name: nothing },
    Marker { file: "mix.exs", language: "Elixir", name: of_mix },
    Marker { file: "Gemfile", language: "Ruby", name: nothing },
    Marker { file: "composer.json", language: "PHP", name: of_json },
    Marker { file: "package.json", language: "Node", name: of_json },
    Marker { file: "deno.json", language: "Deno", name: of_json },
    Marker { file: "setup.py", language: "Python", name: nothing },
    Marker { file: "requirements.txt", language: "Python", name: nothing },
];

/// More than any sandbox's name needs; the limit of `infra.toml`.
const LONGEST: usize = 40;

/// A name as `infra.toml` takes it: what else stands in it becomes a dash. Nothing when nothing is left.
pub fn usable_name(text: &str) -> Option<String> {
    let good = |it: char| it.is_ascii_alphanumeric() || matches!(it, '-' | '_' | '.');
    let dashed: String = text.chars().map(|it| if good(it) { it } else { '-' }).collect();
    let begun = dashed.trim_start_matches(|it: char| !it.is_ascii_alphanumeric());
    let name: String = begun.chars().take(LONGEST).collect();
    let name = name.trim_end_matches(['-', '_', '.']);
    (!name.is_empty()).then(|| name.to_owned())
}

fn nothing(_: &str) -> Option<String> {
    None
}

fn of_pyproject(text: &str) -> Option<String> {
    let document: toml_edit::DocumentMut = text.parse().ok()?;
    let standard = document.get("project").and_then(|project| project.get("name"));
    let poetry =
        || document.get("tool").and_then(|tool| tool.get("poetry")).and_then(|poetry| poetry.get("name"));
    standard.or_else(poetry)?.as_str().map(str::to_owned)
}

fn of_cargo(text: &str) -> Option<String> {
    let document: toml_edit::DocumentMut = text.parse().ok()?;
    document.get("package")?.get("name")?.as_str().map(str::to_owned)
}

/// `@scope/name` and `vendor/name` are called by their last part.
fn of_json(text: &str) -> Option<String> {
    let document: serde_json::Value = serde_json::from_str(text).ok()?;
    last_part(document.get("name")?.as_str()?)
}

fn last_part(path: &str) -> Option<String> {
    path.rsplit('/').next().map(str::to_owned)
}

/// The last part of the module's path that is not its version.
fn of_go(text: &str) -> Option<String> {
    let module = text.lines().find_map(|line| line.trim().strip_prefix("module "))?.trim();
    let is_version = |part: &&str| {
        part.strip_prefix('v')
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_digit()))
    };
    module.rsplit('/').find(|part| !is_version(part)).map(str::to_owned)
}

/// The `artifactId` of the project itself, not of its parent or of what it needs.
fn of_maven(text: &str) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if let Some(comment) = rest.strip_prefix("!--") {
            rest = comment.split_once("-->")?.1;
            continue;
        }
        let (tag, after) = rest.split_once('>')?;
        rest = after;
        if tag.starts_with(['?', '!']) || tag.ends_with('/') {
            continue;
        }
        if tag.starts_with('/') {
            open.pop();
            continue;
        }
        open.push(tag.split_whitespace().next().unwrap_or_default());
        if open == ["project", "artifactId"] {
            return rest.split('<').next().map(|name| name.trim().to_owned());
        }
    }
    None
}

fn of_gradle(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix("rootProject.name"))?;
    let value = line.trim_start().strip_prefix('=')?.trim();
    value.trim_matches(['"', '\'']).split(['"', '\'']).next().map(str::to_owned)
}

fn of_mix(text: &str) -> Option<String> {
    let (_, after) = text.split_once("app: :")?;
    after.split(|it: char| !it.is_ascii_alphanumeric() && it != '_').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(file: &str, text: &str) -> Option<String> {
        MARKERS.iter().find(|marker| marker.file == file).unwrap().name(text)
    }

    #[test]
    fn a_project_is_called_as_its_tools_call_it() {
        for (file, text, expected) in [
            ("pyproject.toml", "[project]\nname = \"my-project\"\n", Some("my-project")),
            ("pyproject.toml", "[tool.poetry]\nname = 'poet'\n", Some("poet")),
            ("pyproject.toml", "[tool.black]\nline-length = 100\n", None),
            ("Cargo.toml", "[package]\nname = \"shop\"\n", Some("shop")),
            ("Cargo.toml", "[workspace]\nmembers = []\n", None),
            ("go.mod", "// the shop\nmodule example.org/team/shop/v2\n\ngo 1.22\n", Some("shop")),
            ("package.json", "{\"name\": \"@team/shop\", \"private\": true}", Some("shop")),
            ("package.json", "{\"private\": true}", None),
            ("package.json", "not json", None),
            ("composer.json", "{\"name\": \"team/shop\"}", Some("shop")),
            (
                "pom.xml",
                "<?xml version=\"1.0\"?>\n<!-- <artifactId>no</artifactId> -->\n<project xmlns=\"x\">\n<parent><artifactId>base</artifactId></parent>\n<properties/>\n<artifactId> shop </artifactId>\n<dependencies><dependency><artifactId>junit</artifactId></dependency></dependencies></project>",
                Some("shop"),
            ),
            ("settings.gradle.kts", "rootProject.name = \"shop\"\ninclude(\"api\")\n", Some("shop")),
            ("settings.gradle", "rootProject.name='shop' // ours\n", Some("shop")),
            ("mix.exs", "def project do\n [app: :shop, version: \"1\"]\n", Some("shop")),
            ("Gemfile", "source 'x'\n", None),
        ] {
            assert_eq!(name(file, text).as_deref(), expected, "{file}: {text}");
        }
    }

    #[test]
    fn a_name_is_one_that_infra_toml_takes() {
        for (text, expected) in [
            ("Shop", Some("Shop")),
            ("my shop!", Some("my-shop")),
            ("_büro", Some("b-ro")),
            ("...", None),
            ("", None),
            ("x\u{1b}[31m", Some("x--31m")),
        ] {
            assert_eq!(usable_name(text).as_deref(), expected, "{text:?}");
        }
        assert_eq!(usable_name(&"a".repeat(60)).unwrap().len(), LONGEST);
    }
}
