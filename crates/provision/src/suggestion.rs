//! The lines of `infra.toml` that declare what was found, and their place in a file that is there already.

use crate::discovery::Findings;
use palisade_core::ProjectPath;
use toml_edit::{DocumentMut, Item, Table, value};

/// How one variable is to be provided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provided {
    pub name: String,
    pub how: How,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// A value that is no secret: `[sandbox.env]`.
    Literal(String),
    /// `$NAME` or a provider's address: `[sandbox.secrets]`.
    Reference(String),
}

/// What goes into `infra.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Additions {
    pub ports: Vec<(String, u16)>,
    pub variables: Vec<Provided>,
    pub files: Vec<(ProjectPath, ProjectPath)>,
}

/// What a new file has besides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    pub name: String,
    pub prefix: String,
    pub compose_file: ProjectPath,
    pub method: Option<String>,
    pub health: Option<(String, Option<String>)>,
}

impl Additions {
    /// What to propose when nobody is asked: variables from the host's environment of the same name, and the likeliest
    /// source of each file. A file without any source is its own: creating it is then the user's to do.
    pub fn proposed(findings: &Findings) -> Self {
        let variable =
            |name: &String| Provided { name: name.clone(), how: How::Reference(format!("${name}")) };
        Self {
            ports: findings.ports.iter().map(|port| (port.name.clone(), port.base)).collect(),
            variables: findings.variables.iter().map(|it| variable(&it.name)).collect(),
            files: findings
                .files
                .iter()
                .map(|file| (file.path.clone(), file.sources.first().unwrap_or(&file.path).clone()))
                .collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.variables.is_empty() && self.files.is_empty()
    }

    /// The lines alone, as they are shown to somebody who writes them down by hand.
    pub fn lines(&self) -> String {
        let mut document = DocumentMut::new();
        self.add(&mut document);
        let secrets = document.get_mut("sandbox").and_then(|sandbox| sandbox.get_mut("secrets"));
        for (_, secret) in secrets.and_then(Item::as_table_mut).into_iter().flat_map(Table::iter_mut) {
            if let Some(reference) = secret.as_value_mut().filter(|it| it.as_str().is_some_and(is_variable)) {
                reference.decor_mut().set_suffix("   # or op://vault/item/field");
            }
        }
        document.to_string().trim().to_owned()
    }

    /// A file with these additions; all that is in it, comments too, stays.
    pub fn added_to(&self, text: &str) -> Result<String, String> {
        if self.is_empty() {
            return Ok(text.to_owned());
        }
        let mut document: DocumentMut =
            text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
        self.add(&mut document);
        let added = document.to_string();
        // Lines end as they do in the file.
        Ok(if text.contains("\r\n") { added.replace("\r\n", "\n").replace('\n', "\r\n") } else { added })
    }

    /// A new file.
    pub fn headed(&self, heading: &Heading) -> String {
        let mut document = DocumentMut::new();
        let project = section(&mut document, "project");
        project["name"] = value(&heading.name);
        project["prefix"] = value(&heading.prefix);
        let mut sandbox = Table::new();
        sandbox["compose_file"] = value(heading.compose_file.as_str());
        if let Some(method) = &heading.method {
            sandbox["method"] = value(method);
        }
        document["sandbox"] = Item::Table(sandbox);
        if let Some((endpoint, port)) = &heading.health {
            let health = section(&mut document, "health");
            health["endpoint"] = value(endpoint);
            if let Some(port) = port {
                health["port_var"] = value(port);
            }
        }
        self.add(&mut document);
        document.to_string()
    }

    fn add(&self, document: &mut DocumentMut) {
        for (name, port) in &self.ports {
            section(document, "ports")[name] = value(i64::from(*port));
        }
        for Provided { name, how } in &self.variables {
            match how {
                How::Literal(text) => section(document, "env")[name] = value(text),
                How::Reference(text) => section(document, "secrets")[name] = value(text),
            }
        }
        for (destination, source) in &self.files {
            section(document, "files")[destination.as_str()] = value(source.as_str());
        }
    }
}

fn is_variable(reference: &str) -> bool {
    reference.starts_with('$')
}

/// `[project]`, or `[sandbox.NAME]`, made when it is missing.
fn section<'a>(document: &'a mut DocumentMut, name: &str) -> &'a mut Item {
    let table = || Item::Table(Table::new());
    if name == "project" {
        return document.entry(name).or_insert_with(table);
    }
    let sandbox = document.entry("sandbox").or_insert_with(|| {
        let mut table = Table::new();
        // Without fields of its own it needs no heading of its own.
        table.set_implicit(true);
        Item::Table(table)
    });
    match sandbox {
        Item::Table(sandbox) => sandbox.entry(name).or_insert_with(table),
        // Somebody wrote it on one line.
        other => &mut other[name],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn additions() -> Additions {
        let path = |text| ProjectPath::new(text).unwrap();
        Additions {
            ports: vec![("SHOP_API_PORT".into(), 8080)],
            variables: vec![
                Provided { name: "TOKEN".into(), how: How::Reference("$TOKEN".into()) },
                Provided { name: "LEVEL".into(), how: How::Literal("a \"b\"".into()) },
            ],
            files: vec![(path("config.yaml"), path("config.example.yaml")), (path(".env"), path(".env"))],
        }
    }

    const LINES: &str = r#"[sandbox.ports]
SHOP_API_PORT = 8080

[sandbox.secrets]
TOKEN = "$TOKEN"

[sandbox.env]
LEVEL = 'a "b"'

[sandbox.files]
"config.yaml" = "config.example.yaml"
".env" = ".env"
"#;

    #[test]
    fn the_lines_alone() {
        let shown = LINES.replace("\"$TOKEN\"", "\"$TOKEN\"   # or op://vault/item/field");
        assert_eq!(additions().lines() + "\n", shown);
    }

    #[test]
    fn what_is_in_a_file_stays() {
        let text = "# ours\n[project]\nname = 'shop' # the shop\n\n[sandbox]\ncompose_file = \"c.yml\"\n\n[sandbox.ports]\nOTHER = 1 # one\n";
        let added = additions().added_to(text).unwrap();
        let expected = text.to_owned() + &LINES.replacen("[sandbox.ports]\n", "", 1);
        assert_eq!(added, expected);
        palisade_config::infra::read("infra.toml", added.as_bytes()).unwrap();
        let inline = "sandbox = { env = { A = 'a' } }\n[project]\nname = 'shop'\n";
        palisade_config::infra::read("infra.toml", additions().added_to(inline).unwrap().as_bytes()).unwrap();
    }

    #[test]
    fn line_ends_stay_and_a_last_line_without_one_is_ended() {
        let text = "[project]\r\nname = 'shop' # ü\r\n\r\n[sandbox.env]\r\nA = 'a'";
        let added = additions().added_to(text).unwrap();
        assert!(added.starts_with(&format!("{text}\r\nLEVEL = ")), "{added}");
        assert_eq!(added.matches('\n').count(), added.matches("\r\n").count());
        palisade_config::infra::read("infra.toml", added.as_bytes()).unwrap();
        assert_eq!(Additions::default().added_to(text).unwrap(), text);
    }

    #[test]
    fn a_new_file_reads_back() {
        let heading = Heading {
            name: "shop".into(),
            prefix: "shop".into(),
            compose_file: ProjectPath::new("docker-compose.yml").unwrap(),
            method: Some("bwrap".into()),
            health: Some(("/health".into(), Some("SHOP_API_PORT".into()))),
        };
        let text = additions().headed(&heading);
        let begins = "[project]\nname = \"shop\"\nprefix = \"shop\"\n\n[sandbox]\ncompose_file = \"docker-compose.yml\"\nmethod = \"bwrap\"\n\n[sandbox.health]\nendpoint = \"/health\"\nport_var = \"SHOP_API_PORT\"\n\n";
        assert_eq!(text, begins.to_owned() + LINES);
        palisade_config::infra::read("infra.toml", text.as_bytes()).unwrap();
    }
}
