//! What a `.env` file says, without running any of it. The file lies in a sandbox's workspace, so anybody may have
//! written it; what comes out goes back into that sandbox and nowhere else.
//!
//! - A line is `NAME=value` or `export NAME=value`; blanks around `=` do not count. `#` begins a comment on a line of
//!   its own, and behind a value after a blank.
//! - Without quotes, a value ends with its line or comment, blanks at both ends left out. In single quotes everything
//!   is itself. In double quotes `\n`, `\r`, `\t`, `\\`, `\"` and `\$` have their usual meaning, and a backslash before
//!   anything else is a backslash. A quoted value may have several lines.
//! - `$NAME`, `${NAME}` and `${NAME:-default}` stand for what was said before, in this file or around it; not in single
//!   quotes. Commands (`$(…)`, backquotes) are text like any other.
//! - A name that is given twice has its last value. A line that is none of this is left out and told by its number;
//!   what it says is not repeated, since it may be a secret.

use palisade_core::VariableName;

/// No variable can be longer: the kernel takes at most 128 KiB for a name and its value.
pub const LONGEST: usize = 120 * 1024;
/// All values of a file, however often they stand for one another.
pub const MOST: usize = 1024 * 1024;
/// Each is looked for among all of them.
pub const MOST_VARIABLES: usize = 2048;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Said {
    pub variables: Vec<(VariableName, String)>,
    pub left_out: Vec<LeftOut>,
}

/// A line that says nothing, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    pub line: usize,
    pub reason: &'static str,
}

/// Reads a file; `known` has the variables that are there before it.
pub fn parse(text: &str, known: &dyn Fn(&str) -> Option<String>) -> Said {
    let mut reader = Reader {
        rest: text.strip_prefix('\u{feff}').unwrap_or(text),
        line: 1,
        left: MOST,
        said: Said::default(),
    };
    while !reader.rest.is_empty() {
        let (start, line) = (reader.rest, reader.line);
        match reader.statement(known) {
            Ok(None) => {}
            Ok(Some((name, value))) => {
                reader.said.variables.retain(|(earlier, _)| *earlier != name);
                reader.said.variables.push((name, value));
            }
            Err(reason) => {
                reader.said.left_out.push(LeftOut { line, reason });
                // Go on behind the line it began in: a quote that is never closed costs one line and not the file.
                (reader.rest, reader.line) = (start, line);
                reader.end_line();
            }
        }
    }
    reader.said
}

struct Reader<'a> {
    rest: &'a str,
    line: usize,
    /// How much of [`MOST`] is left.
    left: usize,
    said: Said,
}

impl Reader<'_> {
    /// One line, or several when a quoted value has them.
    fn statement(
        &mut self,
        known: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Option<(VariableName, String)>, &'static str> {
        self.blanks();
        if self.rest.is_empty() || self.rest.starts_with(['#', '\n', '\r']) {
            self.end_line();
            return Ok(None);
        }
        if let Some(rest) = self.rest.strip_prefix("export").filter(|rest| rest.starts_with([' ', '\t'])) {
            self.rest = rest;
            self.blanks();
        }
        let end =
            self.rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        let name = VariableName::new(name).map_err(|_| "it does not begin with the name of a variable")?;
        self.rest = rest;
        self.blanks();
        self.rest = self.rest.strip_prefix('=').ok_or("there is no '=' behind the name")?;
        self.blanks();
        let value = match self.rest.chars().next() {
            Some('\'') => self.single()?,
            Some('"') => self.double(known)?,
            _ => self.plain(known)?,
        };
        if value.contains('\0') {
            return Err("the value holds a NUL, which no variable can");
        }
        if self.said.variables.len() >= MOST_VARIABLES {
            return Err("there are more variables than a file may have");
        }
        if value.len() > LONGEST {
            return Err("the value is longer than a variable can be");
        }
        Ok(Some((name, value)))
    }

    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    fn end_line(&mut self) {
        self.rest = match self.rest.split_once('\n') {
            Some((_, rest)) => {
                self.line += 1;
                rest
            }
            None => "",
        };
    }

    fn plain(&mut self, known: &dyn Fn(&str) -> Option<String>) -> Result<String, &'static str> {
        let line = self.rest.split('\n').next().unwrap_or_default();
        let comment =
            line.char_indices().find(|(at, c)| *c == '#' && (*at == 0 || line[..*at].ends_with([' ', '\t'])));
        let value = line[..comment.map_or(line.len(), |(at, _)| at)].trim_matches([' ', '\t', '\r']);
        let value = self.expanded(value, known)?;
        self.end_line();
        Ok(value)
    }

    fn single(&mut self) -> Result<String, &'static str> {
        let inner = &self.rest[1..];
        let (value, rest) = inner.split_once('\'').ok_or(NOT_CLOSED)?;
        let value = value.to_owned();
        self.close(&value, rest.len())?;
        Ok(value)
    }

    fn double(&mut self, known: &dyn Fn(&str) -> Option<String>) -> Result<String, &'static str> {
        let inner = &self.rest[1..];
        let (mut value, mut piece) = (String::new(), 0);
        let mut characters = inner.char_indices();
        // What lies between two escapes is expanded, an escaped dollar sign is not.
        let end = loop {
            match characters.next().ok_or(NOT_CLOSED)? {
                (at, '"') => break at,
                (at, '\\') => {
                    let (_, escaped) = characters.next().ok_or(NOT_CLOSED)?;
                    let meant = match escaped {
                        'n' => '\n',
                        'r' => '\r',
                        't' => '\t',
                        '\\' | '"' | '$' => escaped,
                        _ => continue,
                    };
                    value.push_str(&self.expanded(&inner[piece..at], known)?);
                    value.push(meant);
                    piece = at + 1 + escaped.len_utf8();
                }
                _ => {}
            }
        };
        value.push_str(&self.expanded(&inner[piece..end], known)?);
        let written = inner[..end].to_owned();
        self.close(&written, inner.len() - end - 1)?;
        Ok(value)
    }

    /// Behind the closing quote, with `left` bytes of the text to go, only a comment may follow.
    fn close(&mut self, written: &str, left: usize) -> Result<(), &'static str> {
        self.line += written.matches('\n').count();
        self.rest = &self.rest[self.rest.len() - left..];
        self.blanks();
        if !self.rest.is_empty() && !self.rest.starts_with(['#', '\n', '\r']) {
            return Err("there is more behind the closing quote");
        }
        self.end_line();
        Ok(())
    }

    /// A short file may ask for very much by doubling a value again and again, so there is an end to it.
    fn expanded(
        &mut self,
        text: &str,
        known: &dyn Fn(&str) -> Option<String>,
    ) -> Result<String, &'static str> {
        let value = |name: &str| {
            let own = self.said.variables.iter().find(|(known, _)| known.as_str() == name);
            own.map(|(_, value)| value.clone()).or_else(|| known(name))
        };
        let mut whole = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            if whole.len() > self.left {
                break;
            }
            whole.push_str(before);
            match Expansion::read(after) {
                Some(expansion) => {
                    let found = value(expansion.name)
                        .filter(|found| expansion.default.is_empty() || !found.is_empty());
                    whole.push_str(found.as_deref().unwrap_or(expansion.default));
                    rest = expansion.rest;
                }
                None => {
                    whole.push('$');
                    rest = after;
                }
            }
        }
        whole.push_str(rest);
        self.left =
            self.left.checked_sub(whole.len()).ok_or("the values of the file are too much together")?;
        Ok(whole)
    }
}

const NOT_CLOSED: &str = "a quote is opened and never closed";

/// What follows a dollar sign, when it names a variable.
struct Expansion<'a> {
    name: &'a str,
    default: &'a str,
    rest: &'a str,
}

impl<'a> Expansion<'a> {
    fn read(text: &'a str) -> Option<Self> {
        let Some(inner) = text.strip_prefix('{') else {
            let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
            let (name, rest) = text.split_at(end);
            return VariableName::new(name).ok().map(|_| Self { name, default: "", rest });
        };
        let end = inner.find(['}', '{']).filter(|end| inner[*end..].starts_with('}'))?;
        let (inner, rest) = (&inner[..end], &inner[end + 1..]);
        let (name, default) = inner.split_once(":-").unwrap_or((inner, ""));
        VariableName::new(name).ok().map(|_| Self { name, default, rest })
    }
}

#[cfg(test)]
mod tests;
