//! Makes the fixed ports of a compose file variables, in place: `"8080:80"` becomes `"${SHOP_API_PORT:-8080}:80"`.
//! The default keeps the file working by itself. A range becomes one entry for each port, because every sandbox
//! shifts each port by itself. All other bytes stay as they are, and a second run changes nothing.

use crate::compose::{ComposeFile, Service};
use crate::ports::{Place, Port, Protocol, Published};
use crate::yaml::{Kind, Layout, NodeId, Quoting, Tree};
use palisade_config::infra;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// A longer range is left alone: it would become that many lines and variables.
const LONGEST_RANGE: u16 = 16;

const NO_ROOM: &str = "no port above 65335 can be shifted for every sandbox";

/// A port of the project that every sandbox shifts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortVariable {
    pub name: String,
    /// The port of the project itself; sandbox N has this plus N.
    pub base: u16,
    pub service: String,
    pub target: Option<u16>,
}

/// Something published that stays as it is, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untouched {
    pub service: String,
    pub line: usize,
    pub reason: &'static str,
}

/// What parameterising a file comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parameterised {
    /// The file's new text; the old one when nothing was to be changed.
    pub text: String,
    /// The variables that were there and those that are new.
    pub ports: Vec<PortVariable>,
    pub untouched: Vec<Untouched>,
}

/// `prefix` begins the names of new variables: `shop` gives `SHOP_API_PORT`.
pub fn parameterise(file: &ComposeFile, prefix: &str) -> Parameterised {
    parameterise_beside(file, prefix, &[])
}

/// As [`parameterise`], with no new name that other files of the project have: `taken`.
pub(crate) fn parameterise_beside(file: &ComposeFile, prefix: &str, taken: &[&str]) -> Parameterised {
    let mut plan = Plan::new(file, prefix);
    plan.taken.extend(taken.iter().map(|name| ((*name).to_owned(), 0)));
    for service in &file.services {
        for port in &service.ports {
            plan.port(service, port);
        }
    }
    let Plan { mut edits, ports, untouched, .. } = plan;
    edits.sort_by_key(|edit| std::cmp::Reverse(edit.bytes.start));
    let mut text = file.text.clone();
    for edit in edits {
        text.replace_range(edit.bytes, &edit.text);
    }
    Parameterised { text, ports, untouched }
}

struct Edit {
    bytes: Range<usize>,
    text: String,
}

struct Plan<'a> {
    file: &'a ComposeFile,
    prefix: String,
    edits: Vec<Edit>,
    ports: Vec<PortVariable>,
    untouched: Vec<Untouched>,
    /// Entries that another service shares by an alias are looked at once.
    seen: HashSet<NodeId>,
    taken: HashMap<String, u16>,
}

impl<'a> Plan<'a> {
    fn new(file: &'a ComposeFile, prefix: &str) -> Self {
        let taken = file.variables.iter().map(|variable| (variable.name.clone(), 0)).collect();
        let (edits, ports, untouched) = (Vec::new(), Vec::new(), Vec::new());
        let mut prefix = word(prefix);
        // No variable's name begins with a digit, and none that steers programs of the host can be declared.
        if prefix.starts_with(|it: char| it.is_ascii_digit()) || infra::is_reserved(&format!("{prefix}_")) {
            prefix.insert(0, '_');
        }
        Self { file, prefix, edits, ports, untouched, seen: HashSet::new(), taken }
    }

    fn port(&mut self, service: &Service, port: &Port) {
        let entry = match &port.place {
            Place::Short { entry, .. } | Place::Long { entry, .. } => *entry,
            Place::None => return,
        };
        if !self.seen.insert(entry) {
            return;
        }
        match &port.published {
            Published::Any => {}
            Published::Variable { name, .. } if infra::is_reserved(name) => {
                self.leave(service, entry, "its variable has a name that cannot be declared");
            }
            Published::Variable { name, default } => {
                let known = self.ports.iter().any(|known| known.name == *name);
                let base = default.or(port.target);
                if base.is_some_and(|base| base > infra::HIGHEST_PORT) {
                    return self.leave(service, entry, NO_ROOM);
                }
                if let (false, Some(base)) = (known, base) {
                    let (name, target) = (name.clone(), port.target);
                    self.ports.push(PortVariable { name, base, service: service.name.clone(), target });
                }
            }
            Published::Other(_) => self.leave(service, entry, "the port is put together from several parts"),
            Published::Fixed { first, last } => self.fixed(service, port, entry, *first..=*last),
        }
    }

    fn fixed(&mut self, service: &Service, port: &Port, entry: NodeId, range: std::ops::RangeInclusive<u16>) {
        let (first, last) = (*range.start(), *range.end());
        if last > infra::HIGHEST_PORT {
            return self.leave(service, entry, NO_ROOM);
        }
        if last - first >= LONGEST_RANGE {
            return self.leave(service, entry, "the range is longer than 16 ports");
        }
        if first != last && port.targets == Some(1) {
            return self.leave(service, entry, "the engine takes any free port of the range");
        }
        if port.targets.is_some_and(|count| count != last - first + 1)
            || first != last && port.targets.is_none()
        {
            return self.leave(service, entry, "the service's side is not a range of the same length");
        }
        let Some(style) = Style::of(&self.file.tree, &self.file.text, port, entry) else {
            return self.leave(service, entry, "it is written in a way that cannot be changed in place");
        };
        let mut written = Vec::new();
        for (step, base) in range.enumerate() {
            let target = port.target.and_then(|target| target.checked_add(step as u16));
            let name = self.name(service, port.protocol, target.unwrap_or(base));
            written.push(style.entry(
                &name,
                base,
                if first == last && !style.is_range { None } else { target },
            ));
            self.ports.push(PortVariable { name, base, service: service.name.clone(), target });
        }
        self.edits.push(Edit { bytes: style.bytes.clone(), text: written.join(&style.separator) });
    }

    fn leave(&mut self, service: &Service, entry: NodeId, reason: &'static str) {
        let line = self.file.tree.node(entry).line;
        self.untouched.push(Untouched { service: service.name.clone(), line, reason });
    }

    /// `PREFIX_SERVICE_PORT`, and for every further port of a service with the port inside behind it.
    fn name(&mut self, service: &Service, protocol: Protocol, target: u16) -> String {
        let base = format!("{}_{}_PORT", self.prefix, word(&service.name));
        let udp = if protocol == Protocol::Udp { "_UDP" } else { "" };
        let candidates = [base.clone(), format!("{base}_{target}"), format!("{base}_{target}{udp}")];
        let numbered = (2..).map(|number: u32| format!("{base}_{target}{udp}_{number}"));
        let taken = &self.taken;
        let name = candidates.into_iter().chain(numbered).find(|name| !taken.contains_key(name));
        let name = name.unwrap_or(base);
        self.taken.insert(name.clone(), target);
        name
    }
}

/// How an entry is written, so that the new one is written alike.
struct Style {
    bytes: Range<usize>,
    before: String,
    after: String,
    /// What stands between two entries.
    separator: String,
    /// For a range in the short syntax: the quote and the protocol behind the service's own port.
    short: Option<(String, String)>,
    /// The service's side is written as a range, be it one of a single port.
    is_range: bool,
}

impl Style {
    fn of(tree: &Tree, text: &str, port: &Port, entry: NodeId) -> Option<Self> {
        match &port.place {
            Place::None => None,
            Place::Short { address, rest, .. } => {
                let node = tree.node(entry);
                let Kind::Scalar { quoting, .. } = node.kind else { return None };
                let quote = quote(quoting, text, &node.bytes)?;
                let protocol = rest.rfind('/').map_or("", |at| &rest[at..]);
                Some(Self {
                    bytes: node.bytes.clone(),
                    before: format!("{quote}{address}"),
                    after: format!("{rest}{quote}"),
                    separator: separator(text, &node.bytes),
                    short: Some((quote.to_owned(), protocol.to_owned())),
                    is_range: port.targets.is_some() && rest.contains('-'),
                })
            }
            Place::Long { published, .. } => {
                let node = tree.node(*published);
                let Kind::Scalar { quoting, .. } = node.kind else { return None };
                // A range in the long syntax would need the whole mapping several times.
                if matches!(port.published, Published::Fixed { first, last } if first != last) {
                    return None;
                }
                let quote = quote(quoting, text, &node.bytes)?;
                let in_flow = tree.node(entry).layout == Layout::Flow;
                let quote = if in_flow && quote.is_empty() { "\"" } else { quote };
                Some(Self {
                    bytes: node.bytes.clone(),
                    before: quote.to_owned(),
                    after: quote.to_owned(),
                    separator: String::new(),
                    short: None,
                    is_range: false,
                })
            }
        }
    }

    fn entry(&self, name: &str, base: u16, target: Option<u16>) -> String {
        let variable = format!("${{{name}:-{base}}}");
        match (&self.short, target) {
            (Some((quote, protocol)), Some(target)) => {
                format!("{}{variable}:{target}{protocol}{quote}", self.before)
            }
            _ => format!("{}{variable}{}", self.before, self.after),
        }
    }
}

/// The quotes of the new value. In a flow list a plain value with braces would be a mapping, so it gets some.
fn quote(quoting: Quoting, text: &str, bytes: &Range<usize>) -> Option<&'static str> {
    match quoting {
        Quoting::Single => Some("'"),
        Quoting::Double => Some("\""),
        Quoting::Plain if is_block_item(text, bytes) => Some(""),
        Quoting::Plain => Some("\""),
        Quoting::Block => None,
    }
}

/// The indentation and dash before an entry that has a line of its own.
fn line_start<'text>(text: &'text str, bytes: &Range<usize>) -> &'text str {
    let line = text[..bytes.start].rfind('\n').map_or(0, |at| at + 1);
    &text[line..bytes.start]
}

fn is_block_item(text: &str, bytes: &Range<usize>) -> bool {
    let before = line_start(text, bytes);
    let key = before.trim_start().trim_end();
    key == "-" || key.ends_with(':') && !key.contains(['{', '['])
}

fn separator(text: &str, bytes: &Range<usize>) -> String {
    let before = line_start(text, bytes);
    if before.trim() != "-" {
        return ", ".to_owned();
    }
    let ending = if text[bytes.end..].lines().next().is_some_and(|_| text[..bytes.start].contains("\r\n")) {
        "\r\n"
    } else {
        "\n"
    };
    format!("{ending}{before}")
}

/// A word of a variable's name: capitals, digits and underscores.
fn word(text: &str) -> String {
    text.chars().map(|it| if it.is_ascii_alphanumeric() { it.to_ascii_uppercase() } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str) -> Parameterised {
        parameterise(&ComposeFile::read(text).unwrap(), "my-shop")
    }

    /// The lines that differ, new ones only.
    fn new_lines(before: &str, after: &str) -> Vec<String> {
        let old: HashSet<&str> = before.lines().collect();
        after.lines().filter(|line| !old.contains(line)).map(|line| line.trim().to_owned()).collect()
    }

    #[test]
    fn only_the_ports_change() {
        let text = "\
# The shop.\t(tabs in comments)
services:
  api:
    ports:
      - \"8080:80\"   # web
      - '127.0.0.1:9090:90/udp'
      - 7000:7000
      - 3000
      - target: 81
        published: 8081
        mode: host
  db:  {image: postgres, ports: [5432:5432, \"5433:5433\"]}
  web.ui:
    ports: [ {target: 1, published: 8001} ]
";
        let result = changed(text);
        assert_eq!(
            new_lines(text, &result.text),
            [
                "- \"${MY_SHOP_API_PORT:-8080}:80\"   # web",
                "- '127.0.0.1:${MY_SHOP_API_PORT_90:-9090}:90/udp'",
                "- ${MY_SHOP_API_PORT_7000:-7000}:7000",
                "published: ${MY_SHOP_API_PORT_81:-8081}",
                "db:  {image: postgres, ports: [\"${MY_SHOP_DB_PORT:-5432}:5432\", \"${MY_SHOP_DB_PORT_5433:-5433}:5433\"]}",
                "ports: [ {target: 1, published: \"${MY_SHOP_WEB_UI_PORT:-8001}\"} ]",
            ]
        );
        assert_eq!(result.untouched, []);
        let bases: Vec<u16> = result.ports.iter().map(|port| port.base).collect();
        assert_eq!(bases, [8080, 9090, 7000, 8081, 5432, 5433, 8001]);
    }

    #[test]
    fn a_second_run_changes_nothing_and_knows_the_variables() {
        let text = "services:\n  api:\n    ports:\n      - 8080:80\n      - ${OTHER}:91\n";
        let once = changed(text);
        let twice = changed(&once.text);
        assert_eq!(twice.text, once.text);
        assert_eq!(twice.ports, once.ports);
        assert_eq!(
            once.ports[1],
            PortVariable { name: "OTHER".into(), base: 91, service: "api".into(), target: Some(91) }
        );
    }

    #[test]
    fn a_range_becomes_an_entry_for_each_port() {
        let text =
            "services:\r\n  api:\r\n    ports:\r\n      - '3000-3001:4000-4001/tcp'\r\n    image: x\r\n";
        assert_eq!(
            changed(text).text,
            "services:\r\n  api:\r\n    ports:\r\n      - '${MY_SHOP_API_PORT:-3000}:4000/tcp'\r\n      - '${MY_SHOP_API_PORT_4001:-3001}:4001/tcp'\r\n    image: x\r\n"
        );
        let flow = "services: {api: {ports: [\"3000-3001:3000-3001\"]}}\n";
        assert_eq!(
            changed(flow).text,
            "services: {api: {ports: [\"${MY_SHOP_API_PORT:-3000}:3000\", \"${MY_SHOP_API_PORT_3001:-3001}:3001\"]}}\n"
        );
    }

    #[test]
    fn what_cannot_be_changed_is_told() {
        let text = "services:\n  api:\n    ports:\n      - 1000-1999:1000-1999\n      - 1${X}0:80\n      - |\n        90:90\n";
        let result = changed(text);
        assert_eq!(result.text, text);
        let told: Vec<(usize, &str)> = result.untouched.iter().map(|it| (it.line, it.reason)).collect();
        assert_eq!(
            told[..2],
            [(4, "the range is longer than 16 ports"), (5, "the port is put together from several parts"),]
        );
        assert_eq!(told.len(), 3);
    }

    #[test]
    fn every_name_and_base_is_one_that_infra_toml_takes() {
        let text = "services:\n  api:\n    ports: ['80:80', '65400:81', '${DOCKER_PORT:-82}:82', '${P:-65400}:83', '${Q}:$R']\n";
        for (prefix, name) in
            [("git-tools", "_GIT_TOOLS_API_PORT"), ("3d", "_3D_API_PORT"), ("shop", "SHOP_API_PORT")]
        {
            let result = parameterise(&ComposeFile::read(text).unwrap(), prefix);
            let names: Vec<&str> = result.ports.iter().map(|port| port.name.as_str()).collect();
            assert_eq!((names, result.untouched.len()), (vec![name], 3), "{prefix}");
        }
    }

    #[test]
    fn ports_shared_by_an_alias_are_changed_once() {
        let text =
            "x-ports: &ports\n  - 8080:80\nservices:\n  a:\n    ports: *ports\n  b:\n    ports: *ports\n";
        let result = changed(text);
        assert_eq!(result.ports.len(), 1);
        assert_eq!(new_lines(text, &result.text), ["- ${MY_SHOP_A_PORT:-8080}:80"]);
    }
}
