//! From the text of an `infra.toml` to what it declares. Everything wrong is collected, each with its line.

use super::fields::{self, PORT, Section};
use super::{
    CodeMount, Health, INFRA_FILE, Infra, InfraFile, InfraProject, InfraSandbox, InfraSecret, MountAccess,
};
use crate::document::{self, Lines};
use crate::error::{ConfigError, Problem};
use crate::file;
use crate::manifest::Located;
use crate::value::{Checked, Written};
use palisade_core::{GuestPath, ProjectPath, SecretReference, VariableName, printable};
use std::path::Path;
use std::time::Duration;
use toml_edit::{Item, TableLike};

const MOST_SECONDS: i64 = 3600;
/// Leaves room for the number of a slot.
pub const HIGHEST_PORT: u16 = 65_335;
/// Nobody declares more by hand, and somebody else may have written the file.
const MOST_NAMES: usize = 1000;
const LONGEST_NAME: usize = 40;

/// Variables by which programs on the host are steered. A project cannot set them: Compose takes what its env files
/// declare for its own environment, and so does whatever it starts, such as the helpers that keep a registry's
/// passwords, which are scripts of many a language.
const OURS: &[&str] = &[
    "PATH",
    "HOME",
    "PWD",
    "SHELL",
    "IFS",
    "ENV",
    "BASH_ENV",
    "TMPDIR",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "GCONV_PATH",
    "GNUPGHOME",
    "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES",
    "NODE_OPTIONS",
    "NODE_PATH",
    "PERL5LIB",
    "PERL5OPT",
    "PYTHONHOME",
    "PYTHONPATH",
    "PYTHONSTARTUP",
    "RUBYLIB",
    "RUBYOPT",
    "SSH_AUTH_SOCK",
];
const OUR_PREFIXES: &[&str] = &[
    "LD_",
    "DYLD_",
    "DOCKER_",
    "COMPOSE_",
    "BUILDKIT_",
    "BUILDX_",
    "CONTAINER_",
    "GIT_",
    "SSH_ASKPASS",
    "SSH_SK_",
    "SSL_CERT_",
    "XDG_",
    "CLOUDSDK_PYTHON",
    "PASSWORD_STORE_",
];

/// Reads the file of the project whose root this is; `None` when it has none.
pub fn read_file(root: &Path) -> Result<Option<Infra>, ConfigError> {
    let path = root.join(INFRA_FILE);
    let Some(bytes) = file::read_foreign(&path)? else { return Ok(None) };
    read(&file::shown(&path), &bytes).map(Some)
}

/// The root of the nearest project around a directory that has the file.
pub fn find_root(directory: &Path) -> Option<&Path> {
    directory.ancestors().find(|root| root.join(INFRA_FILE).is_file())
}

/// As [`read_file`], with the text itself, for whoever adds to it.
pub fn read_file_and_text(root: &Path) -> Result<Option<(Infra, String)>, ConfigError> {
    let path = root.join(INFRA_FILE);
    let Some(bytes) = file::read_foreign(&path)? else { return Ok(None) };
    let infra = read(&file::shown(&path), &bytes)?;
    // What is not UTF-8 was refused.
    Ok(Some((infra, String::from_utf8_lossy(&bytes).into_owned())))
}

/// Whether a variable of this name steers programs of the host, so that a project cannot declare it.
pub fn is_reserved(name: &str) -> bool {
    OURS.contains(&name) || OUR_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// `file` is the printable name used in problems.
pub fn read(file: &str, bytes: &[u8]) -> Result<Infra, ConfigError> {
    let mut problems = Vec::new();
    let Some((document, lines)) = document::parse(file, bytes, &mut problems) else {
        return Err(ConfigError::of(problems));
    };
    let mut reader = Reader { file, lines, problems, draft: Draft::default() };
    reader.table(document.as_table(), "");
    reader.finish()
}

#[derive(Default)]
struct Draft {
    name: Option<String>,
    /// It stands there, rightly or wrongly.
    named: bool,
    prefix: Option<String>,
    sandbox: InfraSandbox,
    health: Option<HealthDraft>,
}

#[derive(Default)]
struct HealthDraft {
    endpoint: Option<String>,
    port_var: Option<Located<VariableName>>,
    timeout: Option<Duration>,
}

impl Default for InfraSandbox {
    fn default() -> Self {
        Self {
            compose_file: default_compose_file(),
            method: None,
            health: None,
            ports: Vec::new(),
            env: Vec::new(),
            secrets: Vec::new(),
            files: Vec::new(),
            mounts: Vec::new(),
            otel: None,
        }
    }
}

#[allow(clippy::expect_used, reason = "a constant that a test reads")]
fn default_compose_file() -> ProjectPath {
    ProjectPath::new("docker-compose.yml").expect("a plain name is a path of the project")
}

struct Reader<'a> {
    file: &'a str,
    lines: Lines,
    problems: Vec<Problem>,
    draft: Draft,
}

impl Reader<'_> {
    /// `path` is the table's own, empty for the whole file.
    fn table(&mut self, table: &dyn TableLike, path: &str) {
        if table.len() > MOST_NAMES {
            let reason = format!("has more than {MOST_NAMES} entries");
            return self.invalid(fields::section(path).map_or("infra.toml", |(name, _)| name), 1, reason);
        }
        for (name, item) in table.iter() {
            let segment = document::segment(name);
            let inner = if path.is_empty() { segment } else { format!("{path}.{segment}") };
            let span = table.key(name).and_then(toml_edit::Key::span);
            let line = self.lines.at(span.or_else(|| item.span()));
            match (fields::section(&inner), fields::section(path)) {
                (Some((section, _)), _) => match item.as_table_like() {
                    Some(table) => {
                        if section == "sandbox.health" {
                            self.draft.health.get_or_insert_default();
                        }
                        self.table(table, section);
                    }
                    None => {
                        let reason = format!("is {}; write a table", document::of_item(item).type_name());
                        self.invalid(section, line, reason);
                    }
                },
                (None, Some((section, Section::Fields(known)))) => {
                    match known.iter().find(|field| field.key == name) {
                        Some(field) => {
                            let read = self.field(section, field.key, field.kind, item, line);
                            self.told(section, line, read.map_err(|reason| format!("{name} {reason}")));
                        }
                        None => self.unknown(&inner, line),
                    }
                }
                (None, Some((section, Section::Names { kind, .. }))) => {
                    let read = self.named(section, name, kind, item, line);
                    self.told(section, line, read);
                }
                (None, None) => self.unknown(&inner, line),
            }
        }
    }

    fn field(&mut self, section: &str, key: &str, kind: &str, item: &Item, line: usize) -> Checked<()> {
        let written = document::of_item(item);
        let draft = &mut self.draft;
        match (section, key) {
            ("project", "name") => {
                draft.named = true;
                draft.name = Some(word(&written, kind, ['-', '_', '.'])?);
            }
            ("project", "prefix") => draft.prefix = Some(word(&written, kind, ['-', '_', '_'])?),
            ("sandbox", "compose_file") => draft.sandbox.compose_file = path(written.text(kind)?)?,
            ("sandbox", "method") => {
                draft.sandbox.method = Some(Located { value: written.parsed(kind)?, line });
            }
            ("sandbox.health", "endpoint") => {
                draft.health.get_or_insert_default().endpoint = Some(endpoint(&written, kind)?);
            }
            ("sandbox.health", "port_var") => {
                let value = variable(written.text(kind)?)?;
                draft.health.get_or_insert_default().port_var = Some(Located { value, line });
            }
            ("sandbox.health", "timeout") => {
                let seconds = number(&written, 1..=MOST_SECONDS, kind)?;
                draft.health.get_or_insert_default().timeout = Some(Duration::from_secs(seconds));
            }
            ("sandbox.otel", "endpoint") => {
                draft.sandbox.otel.get_or_insert_default().endpoint = Some(url(&written, kind)?);
            }
            ("sandbox.otel", "network") => {
                let name = word(&written, kind, ['-', '_', '.'])?;
                draft.sandbox.otel.get_or_insert_default().network = Some(name);
            }
            // The table of fields and this one are the same; a test reads every field.
            _ => return Err("cannot be read".into()),
        }
        Ok(())
    }

    fn named(&mut self, section: &str, name: &str, kind: &str, item: &Item, line: usize) -> Checked<()> {
        let written = document::of_item(item);
        let shown = printable(name);
        let of = |reason: String| format!("{shown} {reason}");
        let sandbox = &mut self.draft.sandbox;
        match section {
            "sandbox.ports" => {
                let port = number(&written, 1..=i64::from(HIGHEST_PORT), PORT).map_err(of)?;
                let port = u16::try_from(port).map_err(|error| of(error.to_string()))?;
                sandbox.ports.push((own_variable(name)?, port));
            }
            "sandbox.env" => sandbox.env.push((own_variable(name)?, value(&written, kind).map_err(of)?)),
            "sandbox.secrets" => {
                let (reference, services) = secret(item, kind).map_err(of)?;
                sandbox.secrets.push(InfraSecret { name: own_variable(name)?, reference, services, line });
            }
            "sandbox.files" => {
                let source = written.text(kind).and_then(path).map_err(of)?;
                sandbox.files.push(InfraFile { destination: path(name)?, source });
            }
            "sandbox.mounts" => sandbox.mounts.extend(mounts(name, item, kind).map_err(of)?),
            _ => return Err(of("cannot be read".into())),
        }
        Ok(())
    }

    fn unknown(&mut self, path: &str, line: usize) {
        let (file, key) = (self.file.to_owned(), document::shown(path));
        self.problems.push(Problem::UnknownDeclaration {
            file,
            line,
            key,
            suggestion: fields::nearest(path),
        });
    }

    fn told(&mut self, section: &'static str, line: usize, read: Checked<()>) {
        if let Err(reason) = read {
            self.invalid(section, line, reason);
        }
    }

    fn invalid(&mut self, key: &'static str, line: usize, reason: String) {
        let place = format!("{}:{line}", self.file);
        self.problems.push(Problem::InvalidValue { place, key, reason });
    }

    /// Looks at the whole, which only makes sense once every part was seen.
    fn finish(mut self) -> Result<Infra, ConfigError> {
        if !self.draft.named {
            let place = self.file.to_owned();
            let reason = "name is missing; write the project's name".into();
            self.problems.push(Problem::InvalidValue { place, key: "project", reason });
        }
        self.twice();
        let Draft { name, prefix, mut sandbox, health, .. } = self.draft;
        if let Some(health) = health {
            if let Some(port) = &health.port_var
                && !sandbox.ports.iter().any(|(name, _)| *name == port.value)
            {
                let place = format!("{}:{}", self.file, port.line);
                let reason = format!("port_var {} is not in [sandbox.ports]", port.value);
                self.problems.push(Problem::InvalidValue { place, key: "sandbox.health", reason });
            }
            sandbox.health = Some(Health {
                endpoint: health.endpoint.unwrap_or_else(|| "/".into()),
                port_var: health.port_var,
                timeout: health.timeout.unwrap_or(Duration::from_secs(60)),
            });
        }
        match name {
            Some(name) if self.problems.is_empty() => {
                let prefix = prefix.unwrap_or_else(|| name.clone());
                Ok(Infra { project: InfraProject { name, prefix }, sandbox })
            }
            _ => Err(ConfigError::of(self.problems)),
        }
    }

    /// A variable has one value, so it is declared in one section.
    fn twice(&mut self) {
        let sandbox = &self.draft.sandbox;
        let ports = sandbox.ports.iter().map(|(name, _)| (name, "sandbox.ports"));
        let env = sandbox.env.iter().map(|(name, _)| (name, "sandbox.env"));
        let secrets = sandbox.secrets.iter().map(|secret| (&secret.name, "sandbox.secrets"));
        let mut seen: std::collections::HashMap<&VariableName, &str> = std::collections::HashMap::new();
        let mut found = Vec::new();
        for (name, section) in ports.chain(env).chain(secrets) {
            if let Some(first) = seen.insert(name, section) {
                let reason = format!("{name} is declared in [{first}] already");
                found.push(Problem::InvalidValue { place: self.file.to_owned(), key: section, reason });
            }
        }
        self.problems.extend(found);
    }
}

fn word(written: &Written<'_>, kind: &str, also: [char; 3]) -> Checked<String> {
    let text = written.text(kind)?;
    let good = |character: char| character.is_ascii_alphanumeric() || also.contains(&character);
    let begins = text.starts_with(|character: char| character.is_ascii_alphanumeric());
    if begins && text.len() <= LONGEST_NAME && text.chars().all(good) {
        Ok(text.to_owned())
    } else {
        Err(format!("'{}' does not do; write {kind}, at most {LONGEST_NAME}", document::shown(text)))
    }
}

fn number(written: &Written<'_>, range: std::ops::RangeInclusive<i64>, kind: &str) -> Checked<u64> {
    match written {
        Written::Integer(number) if range.contains(number) => Ok(number.unsigned_abs()),
        Written::Integer(_) => Err(format!("is out of range; write {kind}")),
        other => Err(format!("is {}; write {kind}", other.type_name())),
    }
}

/// Any text, also an empty one.
fn value(written: &Written<'_>, kind: &str) -> Checked<String> {
    match written {
        Written::Text("") => Ok(String::new()),
        other => match other.text(kind)? {
            text if text.contains('\0') => Err("has a NUL in it".into()),
            text => Ok(text.to_owned()),
        },
    }
}

fn endpoint(written: &Written<'_>, kind: &str) -> Checked<String> {
    let text = written.text(kind)?;
    let good = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
    if good {
        Ok(text.to_owned())
    } else {
        Err(format!("'{}' does not do; write {kind}", document::shown(text)))
    }
}

fn url(written: &Written<'_>, kind: &str) -> Checked<String> {
    let text = written.text(kind)?;
    let schemed = text.starts_with("http://") || text.starts_with("https://");
    let good = schemed && text.bytes().all(|byte| byte.is_ascii_graphic());
    if good {
        Ok(text.to_owned())
    } else {
        Err(format!("'{}' does not do; write {kind}", document::shown(text)))
    }
}

fn path(text: &str) -> Checked<ProjectPath> {
    ProjectPath::new(text).map_err(|error| error.to_string())
}

fn variable(text: &str) -> Checked<VariableName> {
    VariableName::new(text).map_err(|error| error.to_string())
}

fn own_variable(text: &str) -> Checked<VariableName> {
    let name = variable(text)?;
    if is_reserved(text) {
        Err(format!("{name} steers programs on the host, so a project cannot set it"))
    } else {
        Ok(name)
    }
}

fn secret(item: &Item, kind: &str) -> Checked<(SecretReference, Option<Vec<String>>)> {
    let parse = |text: &str| SecretReference::parse(text).map_err(|error| error.to_string());
    let Some(table) = item.as_table_like() else {
        let written = document::of_item(item);
        return Ok((parse(&value(&written, kind)?)?, None));
    };
    if let Some((unknown, _)) = table.iter().find(|(key, _)| !["ref", "services"].contains(key)) {
        return Err(format!("has an unknown key '{}'; write {kind}", document::shown(unknown)));
    }
    let reference = table.get("ref").ok_or_else(|| format!("has no ref; write {kind}"))?;
    let reference = parse(&value(&document::of_item(reference), kind)?)?;
    let services = match table.get("services") {
        None => None,
        Some(list) => Some(strings(list, kind)?),
    };
    Ok((reference, services))
}

fn strings(item: &Item, kind: &str) -> Checked<Vec<String>> {
    let list = item.as_array().ok_or_else(|| format!("is not a list; write {kind}"))?;
    list.iter().map(|element| document::written(element).text(kind).map(str::to_owned)).collect()
}

fn mounts(service: &str, item: &Item, kind: &str) -> Checked<Vec<CodeMount>> {
    let mut found = Vec::new();
    for text in strings(item, kind)? {
        let refused = || format!("'{}' does not do; write {kind}", document::shown(&text));
        let (source, rest) = text.split_once(':').ok_or_else(refused)?;
        let (target, access) = match rest.strip_suffix(":ro") {
            Some(target) => (target, MountAccess::ReadOnly),
            None => (rest, MountAccess::ReadWrite),
        };
        if target.contains(':') {
            return Err(refused());
        }
        let target = GuestPath::new(target).map_err(|error| error.to_string())?;
        found.push(CodeMount { service: service.to_owned(), source: path(source)?, target, access });
    }
    Ok(found)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
