//! From the text of one file to a manifest. Everything wrong is collected, each with its line and what is possible.

use super::fields::{self, DENIED, Field, FieldDoc};
use super::init::{Init, Pattern, Rule};
use super::{Located, Manifest, Security};
use crate::document::{self, Lines};
use crate::error::{ConfigError, Problem};
use crate::file;
use crate::value::{Checked, Written};
use palisade_core::{EnvironmentName, GuestPath, HostPath, ImageReference, Root, ToolName, printable};
use std::path::Path;
use toml_edit::{Array, Item, TableLike, Value};

/// The longest list; nobody writes a longer one by hand, and somebody else may have written the file.
const MOST_ELEMENTS: usize = 100;
/// The longest text that is shown to people.
const LONGEST_LINE: usize = 200;

/// Reads a manifest. `file` is the printable name used in problems.
pub fn read(file: &str, bytes: &[u8]) -> Result<Manifest, Vec<Problem>> {
    let mut problems = Vec::new();
    let Some((document, lines)) = document::parse(file, bytes, &mut problems) else { return Err(problems) };
    let mut reader = Reader { file, lines, draft: Draft::default(), problems };
    reader.table(document.as_table(), None);
    reader.finish()
}

/// Reads the manifest in a file of the user's own choice.
pub fn check_file(path: &Path) -> Result<Manifest, ConfigError> {
    let shown = file::shown(path);
    let bytes = file::read_own(path)?;
    let absent = || Problem::Unreadable { file: shown.clone(), reason: "there is no such file".into() };
    let manifest = read(&shown, &bytes.ok_or_else(absent)?);
    manifest.map_err(ConfigError::of)
}

/// The name that a file gives its environment, as far as one can be read: also when the rest of it is wrong.
pub(super) fn name_of(bytes: &[u8]) -> Option<EnvironmentName> {
    let (document, _) = document::parse("", bytes, &mut Vec::new())?;
    document.get(Field::Name.key())?.as_str()?.parse().ok()
}

/// A text that may be long or hostile, as it is shown in a refusal.
pub(super) fn abridged(text: &str) -> String {
    document::shown(text)
}

/// What was read so far.
#[derive(Default)]
struct Draft {
    name: Option<Located<EnvironmentName>>,
    description: Option<String>,
    image: Option<ImageReference>,
    root: Option<Located<Root>>,
    requires: Vec<ToolName>,
    command: Option<String>,
    args: Option<Located<Vec<String>>>,
    workdir: Option<GuestPath>,
    timeout: Option<super::TimeLimit>,
    init: Init,
    /// The rule whose table is being read.
    rule: RuleDraft,
    security: Security,
    /// Fields that stand there, rightly or wrongly.
    seen: Vec<Field>,
}

#[derive(Default)]
struct RuleDraft {
    patterns: Vec<Pattern>,
    message: Option<String>,
}

struct Reader<'a> {
    file: &'a str,
    lines: Lines,
    draft: Draft,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    /// `section` is the table's own path.
    fn table(&mut self, table: &dyn TableLike, section: Option<&str>) {
        for (name, item) in table.iter() {
            let segment = document::segment(name);
            let path = section.map_or_else(|| segment.clone(), |section| format!("{section}.{segment}"));
            let key_span = table.key(name).and_then(toml_edit::Key::span);
            let line = self.lines.at(key_span.or_else(|| item.span()));
            match (fields::by_path(&path), fields::section(&path)) {
                (Some(doc), _) => self.field(doc, item, line),
                (None, Some(DENIED)) => self.denied(item, line),
                (None, Some(section)) => match item.as_table_like() {
                    Some(inner) => self.section(inner, section, line),
                    None => self.not_a_table(section, item, line, "write a table"),
                },
                (None, None) => {
                    let suggestion = fields::nearest(&path);
                    let file = self.file.into();
                    let key = abridged(&path);
                    self.problems.push(Problem::UnknownField { file, line, key, suggestion });
                }
            }
        }
    }

    fn section(&mut self, table: &dyn TableLike, section: &'static str, line: usize) {
        self.table(table, Some(section));
        if section == "init.allowed" {
            self.draft.init.allowed = self.rule(Field::AllowedPatterns, line);
        }
    }

    /// `[[init.denied]]`, or a single `[init.denied]`.
    fn denied(&mut self, item: &Item, line: usize) {
        let tables: Vec<(&dyn TableLike, Option<std::ops::Range<usize>>)> = match item {
            Item::ArrayOfTables(tables) => {
                tables.iter().map(|table| (table as &dyn TableLike, table.span())).collect()
            }
            Item::Table(table) => vec![(table, None)],
            Item::Value(Value::InlineTable(table)) => vec![(table, None)],
            Item::Value(Value::Array(array)) if array.iter().all(Value::is_inline_table) => {
                let inline = array
                    .iter()
                    .filter_map(|value| value.as_inline_table().map(|table| (table, value.span())));
                inline.map(|(table, span)| (table as &dyn TableLike, span)).collect()
            }
            other => return self.not_a_table(DENIED, other, line, "write [[init.denied]]"),
        };
        if tables.len() > MOST_ELEMENTS {
            return self.invalid(DENIED, line, format!("has more than {MOST_ELEMENTS} elements"));
        }
        for (table, span) in tables {
            let line = span.map_or(line, |span| self.lines.at(Some(span)));
            self.table(table, Some(DENIED));
            let rule = self.rule(Field::DeniedPatterns, line);
            self.draft.init.denied.extend(rule);
        }
    }

    /// Ends the reading of a rule's table. A rule without patterns would do nothing and look as if it did.
    fn rule(&mut self, patterns: Field, line: usize) -> Option<Rule> {
        let RuleDraft { patterns: found, message } = std::mem::take(&mut self.draft.rule);
        let read = self.draft.seen.iter().position(|seen| *seen == patterns);
        match read {
            None => {
                let doc = patterns.doc();
                self.invalid(doc.key, line, format!("is missing; write {}", doc.kind));
            }
            Some(at) => {
                self.draft.seen.swap_remove(at);
            }
        }
        (!found.is_empty()).then_some(Rule { patterns: found, message })
    }

    fn field(&mut self, doc: &'static FieldDoc, item: &Item, line: usize) {
        self.draft.seen.push(doc.field);
        if let Err(reason) = self.put(doc, item, line) {
            self.invalid(doc.key, line, reason);
        }
    }

    fn put(&mut self, doc: &'static FieldDoc, item: &Item, line: usize) -> Checked<()> {
        let written = document::of_item(item);
        let expected = doc.kind;
        let draft = &mut self.draft;
        let security = &mut draft.security;
        match doc.field {
            Field::Name => draft.name = Some(Located { value: written.parsed(expected)?, line }),
            Field::Description => draft.description = Some(one_line(&written, expected)?),
            Field::Image => draft.image = Some(written.parsed(expected)?),
            Field::Root => draft.root = Some(Located { value: root(&written, expected)?, line }),
            Field::Command => draft.command = Some(program(&written, expected)?),
            Field::Workdir => draft.workdir = Some(guest_path(&written, expected)?),
            Field::Timeout => draft.timeout = Some(written.time_limit(expected)?),
            Field::InitMode => draft.init.mode = written.parsed(expected)?,
            Field::InitTimeout => draft.init.timeout = written.time_limit(expected)?,
            Field::AllowedMessage | Field::DeniedMessage => {
                draft.rule.message = Some(one_line(&written, expected)?);
            }
            Field::Network => security.network = Some(Located { value: written.network(expected)?, line }),
            Field::ReadOnlyRoot => {
                security.read_only_root = Some(Located { value: written.boolean(expected)?, line });
            }
            Field::Memory => security.memory = Some(Located { value: written.size(expected)?, line }),
            Field::Cpus => security.cpus = Some(Located { value: written.cpus(expected)?, line }),
            Field::Pids => security.pids = Some(Located { value: written.pids(expected)?, line }),
            Field::Requires => {
                self.draft.requires = self.list(doc, item, line, |text| text.parsed(expected))?
            }
            Field::Args => {
                let value = self.list(doc, item, line, |text| word(text, expected))?;
                self.draft.args = Some(Located { value, line });
            }
            Field::AllowedPatterns | Field::DeniedPatterns => {
                self.draft.rule.patterns = self.list(doc, item, line, |text| text.parsed(expected))?;
                if item.as_array().is_some_and(Array::is_empty) {
                    return Err(format!("is empty; write {expected}"));
                }
            }
        }
        Ok(())
    }

    /// Every element that is right; each one that is not is told with its own line.
    fn list<T>(
        &mut self,
        doc: &'static FieldDoc,
        item: &Item,
        line: usize,
        read: impl Fn(&Written<'_>) -> Checked<T>,
    ) -> Checked<Vec<T>> {
        let Some(elements) = item.as_array() else {
            return Err(format!("is {}; write {}", document::of_item(item).type_name(), doc.kind));
        };
        if elements.len() > MOST_ELEMENTS {
            return Err(format!("has more than {MOST_ELEMENTS} elements"));
        }
        let mut good = Vec::new();
        for element in elements {
            match read(&document::written(element)) {
                Ok(value) => good.push(value),
                Err(reason) => {
                    let line = element.span().map_or(line, |span| self.lines.at(Some(span)));
                    self.invalid(doc.key, line, reason);
                }
            }
        }
        Ok(good)
    }

    fn not_a_table(&mut self, section: &'static str, item: &Item, line: usize, instead: &str) {
        self.invalid(section, line, format!("is {}; {instead}", document::of_item(item).type_name()));
    }

    fn invalid(&mut self, key: &'static str, line: usize, reason: String) {
        let place = format!("{}:{line}", self.file);
        self.problems.push(Problem::InvalidValue { place, key, reason });
    }

    /// Looks at the whole, which only makes sense once every part was seen.
    fn finish(mut self) -> Result<Manifest, Vec<Problem>> {
        let missing = |field: Field| !self.draft.seen.contains(&field);
        let mut absent: Vec<Problem> = [Field::Name, Field::Description]
            .into_iter()
            .filter(|field| missing(*field))
            .map(|field| self.missing(field.key(), field.doc().kind))
            .collect();
        if missing(Field::Image) && missing(Field::Root) {
            let what = "an image for docker and podman, a root for bwrap, or both";
            absent.push(self.missing("image", what));
        }
        if let (Some(args), true) = (&self.draft.args, missing(Field::Command)) {
            let place = format!("{}:{}", self.file, args.line);
            let reason = "has no command to go with; write one".into();
            absent.push(Problem::InvalidValue { place, key: Field::Args.key(), reason });
        }
        self.problems.extend(absent);
        let draft = self.draft;
        match (draft.name, draft.description) {
            (Some(name), Some(description)) if self.problems.is_empty() => Ok(Manifest {
                name,
                description,
                image: draft.image,
                root: draft.root,
                requires: draft.requires,
                command: draft
                    .command
                    .into_iter()
                    .chain(draft.args.map(|args| args.value).unwrap_or_default())
                    .collect(),
                workdir: draft.workdir,
                timeout: draft.timeout,
                init: draft.init,
                security: draft.security,
            }),
            _ => Err(self.problems),
        }
    }

    fn missing(&self, key: &'static str, what: &str) -> Problem {
        Problem::InvalidValue {
            place: self.file.to_owned(),
            key,
            reason: format!("is missing; write {what}"),
        }
    }
}

/// One line for people: no control characters, and not endless.
fn one_line(written: &Written<'_>, expected: &str) -> Checked<String> {
    let text = written.text(expected)?;
    if text.chars().count() > LONGEST_LINE {
        return Err(format!("is longer than {LONGEST_LINE} characters; write {expected}"));
    }
    if printable(text) != text {
        return Err(format!("has control characters in it; write {expected}"));
    }
    Ok(text.to_owned())
}

/// A word of a command line.
fn word(written: &Written<'_>, expected: &str) -> Checked<String> {
    match written {
        // An empty argument is an argument, too.
        Written::Text("") => Ok(String::new()),
        _ => match written.text(expected)? {
            text if text.contains('\0') => Err("has a NUL in it".into()),
            text => Ok(text.to_owned()),
        },
    }
}

/// A program: by its name or by its absolute path, so that it does not depend on where it is started.
fn program(written: &Written<'_>, expected: &str) -> Checked<String> {
    let text = written.text(expected)?;
    let good = match text.starts_with('/') {
        true => GuestPath::new(text).is_ok_and(|path| path.as_str() == text && text != "/"),
        false => ToolName::new(text).is_ok(),
    };
    if good { Ok(text.to_owned()) } else { Err(refused(text, expected)) }
}

fn root(written: &Written<'_>, expected: &str) -> Checked<Root> {
    match written.text(expected)? {
        "host" => Ok(Root::Host),
        text => {
            let plain = GuestPath::new(text).is_ok_and(|path| path.as_str() == text && text != "/");
            let path = HostPath::new(text).ok().filter(|_| plain);
            path.map(|path| Root::Directory { path }).ok_or_else(|| refused(text, expected))
        }
    }
}

fn guest_path(written: &Written<'_>, expected: &str) -> Checked<GuestPath> {
    let text = written.text(expected)?;
    GuestPath::new(text).map_err(|_| refused(text, expected))
}

fn refused(text: &str, expected: &str) -> String {
    format!("'{}' does not do; write {expected}", abridged(text))
}

impl Written<'_> {
    /// A number is one of seconds.
    fn time_limit(&self, expected: &str) -> Checked<super::TimeLimit> {
        match self {
            Written::Integer(seconds) => Written::Untyped(&seconds.to_string()).parsed(expected),
            other => other.parsed(expected),
        }
    }
}
