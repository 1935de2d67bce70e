//! From the text of one file to a layer, with the line of every value. Everything wrong is collected.

use crate::error::Problem;
use crate::keys::{self, KeyDoc, ProjectRule};
use crate::layer::Layer;
use crate::value::Written;
use palisade_core::{Origin, printable};
use std::ops::Range;
use toml_edit::{Document, Item, TableLike, Value};

/// The longest list. Every element is compared with all others, and a project's file may be anybody's.
const MOST_ELEMENTS: usize = 1000;

/// Whose file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Owner {
    System,
    User,
    Project,
}

impl Owner {
    fn origin(self, file: &str, line: usize) -> Origin {
        let file = file.to_owned();
        match self {
            Owner::System => Origin::System { file, line },
            Owner::User => Origin::User { file, line },
            Owner::Project => Origin::Project { file, line },
        }
    }
}

/// `file` is the printable name used in origins and problems.
pub(crate) fn read(owner: Owner, file: &str, bytes: &[u8], problems: &mut Vec<Problem>) -> Layer {
    let Some((document, lines)) = parse(file, bytes, problems) else { return Layer::default() };
    let mut reader = Reader { owner, file, lines, layer: Layer::default(), problems };
    reader.table(document.as_table(), None);
    reader.layer
}

/// The document that the bytes are, and its lines; nothing when they are none, which is told.
pub(crate) fn parse<'a>(
    file: &str,
    bytes: &'a [u8],
    problems: &mut Vec<Problem>,
) -> Option<(Document<&'a str>, Lines)> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let line = line_of(bytes, error.valid_up_to());
            problems.push(Problem::Syntax { file: file.into(), line, reason: "it is not UTF-8".into() });
            return None;
        }
    };
    match Document::parse(text) {
        Ok(document) => Some((document, Lines::of(bytes))),
        Err(error) => {
            let line = line_of(bytes, error.span().map_or(0, |span| span.start));
            let reason = printable(error.message().replace('\n', ", ").trim());
            problems.push(Problem::Syntax { file: file.into(), line, reason });
            None
        }
    }
}

struct Reader<'a> {
    owner: Owner,
    file: &'a str,
    lines: Lines,
    layer: Layer,
    problems: &'a mut Vec<Problem>,
}

impl Reader<'_> {
    /// `section` is the table's own name; tables within a section hold no settings.
    fn table(&mut self, table: &dyn TableLike, section: Option<&str>) {
        for (name, item) in table.iter() {
            let segment = segment(name);
            let path = section.map_or_else(|| segment.clone(), |section| format!("{section}.{segment}"));
            let key_span = table.key(name).and_then(toml_edit::Key::span);
            let line = self.lines.at(key_span.or_else(|| item.span()));
            let section_found = if section.is_none() { keys::section(&path) } else { None };
            match (keys::by_path(&path), section_found, item.as_table_like()) {
                // A section may share its name with a setting, as `network = "none"` does with `[network]`.
                (_, Some(name), Some(inner)) => self.table(inner, Some(name)),
                (Some(doc), _, _) => self.setting(doc, item, line),
                (None, Some(name), None) => {
                    self.invalid(name, line, format!("is {}; write a table", of_item(item).type_name()));
                }
                (None, None, inner) => {
                    let as_section = inner.and_then(|_| keys::nearest_section(&path));
                    let suggestion = as_section.or_else(|| keys::nearest(&path));
                    let file = self.file.into();
                    self.problems.push(Problem::UnknownKey { file, line, key: shown(&path), suggestion });
                }
            }
        }
    }

    fn setting(&mut self, doc: &'static KeyDoc, item: &Item, line: usize) {
        if self.owner == Owner::Project && doc.project == ProjectRule::Never {
            self.problems.push(Problem::NotInProject { file: self.file.into(), line, key: doc.key });
            return;
        }
        if doc.is_table() {
            return self.named(doc, item, line);
        }
        let origin = self.owner.origin(self.file, line);
        match (doc.is_list() || doc.is_whole_list(), item.as_array()) {
            (true, Some(elements)) if elements.len() > MOST_ELEMENTS => {
                self.invalid(doc.key, line, format!("has more than {MOST_ELEMENTS} elements"));
            }
            (true, Some(elements)) => {
                self.layer.begin_list(doc.setting, origin);
                for element in elements {
                    let line = element.span().map_or(line, |span| self.lines.at(Some(span)));
                    self.put(doc, &written(element), line);
                }
            }
            (true, None) => {
                let reason = format!("is {}; write {}", of_item(item).type_name(), doc.kind);
                self.invalid(doc.key, line, reason);
            }
            (false, _) => self.put(doc, &of_item(item), line),
        }
    }

    /// A table whose names are the user's choice.
    fn named(&mut self, doc: &'static KeyDoc, item: &Item, line: usize) {
        let Some(table) = item.as_table_like() else {
            let reason = format!("is {}; write {}", of_item(item).type_name(), doc.kind);
            return self.invalid(doc.key, line, reason);
        };
        if table.len() > MOST_ELEMENTS {
            return self.invalid(doc.key, line, format!("has more than {MOST_ELEMENTS} lines"));
        }
        for (name, item) in table.iter() {
            let span = table.key(name).and_then(toml_edit::Key::span).or_else(|| item.span());
            let line = span.map_or(line, |span| self.lines.at(Some(span)));
            let origin = self.owner.origin(self.file, line);
            if let Err(reason) = self.layer.put_named(doc.setting, name, &of_item(item), origin) {
                self.invalid(doc.key, line, reason);
            }
        }
    }

    fn put(&mut self, doc: &'static KeyDoc, written: &Written<'_>, line: usize) {
        if let Err(reason) = self.layer.put(doc.setting, written, self.owner.origin(self.file, line)) {
            self.invalid(doc.key, line, reason);
        }
    }

    fn invalid(&mut self, key: &'static str, line: usize, reason: String) {
        let place = format!("{}:{line}", self.file);
        self.problems.push(Problem::InvalidValue { place, key, reason });
    }
}

/// Something unknown as it is told: printable, and only the beginning of a long one.
pub(crate) fn shown(path: &str) -> String {
    const MOST: usize = 200;
    match path.char_indices().nth(MOST) {
        Some((end, _)) => printable(&path[..end]) + "…",
        None => printable(path),
    }
}

/// A part of a path as one would write it: quoted unless it is a bare key. So a quoted `"resources.memory"` is
/// not taken for the key `memory` in `resources`.
pub(crate) fn segment(name: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(bare) { name.to_owned() } else { format!("\"{name}\"") }
}

pub(crate) fn of_item(item: &Item) -> Written<'_> {
    match item {
        Item::Value(value) => written(value),
        Item::Table(_) => Written::Other("a table"),
        Item::ArrayOfTables(_) => Written::Other("a list of tables"),
        Item::None => Written::Other("nothing"),
    }
}

pub(crate) fn written(value: &Value) -> Written<'_> {
    match value {
        Value::String(text) => Written::Text(text.value()),
        Value::Integer(number) => Written::Integer(*number.value()),
        Value::Float(number) => Written::Float(*number.value()),
        Value::Boolean(value) => Written::Boolean(*value.value()),
        Value::Datetime(_) => Written::Other("a date"),
        Value::Array(_) => Written::Other("a list"),
        Value::InlineTable(_) => Written::Other("a table"),
    }
}

/// Where each line starts, so that the line of a place is found quickly.
pub(crate) struct Lines {
    starts: Vec<usize>,
}

impl Lines {
    fn of(bytes: &[u8]) -> Self {
        let newlines = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        Self { starts: std::iter::once(0).chain(newlines).collect() }
    }

    /// The line, from 1, of a span; the first line for a place that is not known.
    pub(crate) fn at(&self, span: Option<Range<usize>>) -> usize {
        let offset = span.map_or(0, |span| span.start);
        self.starts.partition_point(|start| *start <= offset).max(1)
    }
}

fn line_of(bytes: &[u8], offset: usize) -> usize {
    Lines::of(bytes).at(Some(offset..offset))
}
