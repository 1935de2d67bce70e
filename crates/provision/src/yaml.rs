//! A YAML document as a tree in which every node knows the bytes it was written with.
//!
//! Compose files are edited in place, and a file that is written anew from its values loses comments, order and
//! quoting. So a place is found in the tree, and only its bytes are exchanged.
//!
//! Nodes live in one table and refer to each other by index: an alias is the index of its anchor, so a file that
//! nests aliases to blow up when it is expanded costs no more than its own size.

use granit_parser::{Event, Parser, ScalarStyle, StructureStyle};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// More nodes than any compose file has; a bound for a file that somebody else wrote.
const MOST_NODES: usize = 200_000;

/// How often a merge may lead to another merge.
const MOST_MERGES: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct NodeId(usize);

/// How a scalar is written. Block scalars (`|`, `>`) are read and never edited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quoting {
    Plain,
    Single,
    Double,
    Block,
}

/// How a list or mapping is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One element a line.
    Block,
    /// `[a, b]`, `{a: b}`.
    Flow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    Scalar { text: String, quoting: Quoting },
    Sequence(Vec<NodeId>),
    Mapping(Vec<(NodeId, NodeId)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// What the node is written with, without its anchor and tag.
    pub(crate) bytes: Range<usize>,
    /// From 1.
    pub(crate) line: usize,
    pub(crate) layout: Layout,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct YamlError {
    pub line: usize,
    pub reason: String,
}

/// The first document of a file.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    root: Option<NodeId>,
}

impl Tree {
    pub(crate) fn read(text: &str) -> Result<Self, YamlError> {
        let options = granit_parser::options! { emit_comments: false };
        Builder::default().read(Parser::new_from_str_with_options(text, options))
    }

    pub(crate) fn root(&self) -> Option<NodeId> {
        self.root
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    pub(crate) fn text(&self, id: NodeId) -> Option<&str> {
        match &self.node(id).kind {
            Kind::Scalar { text, .. } => Some(text),
            Kind::Sequence(_) | Kind::Mapping(_) => None,
        }
    }

    pub(crate) fn elements(&self, id: NodeId) -> &[NodeId] {
        match &self.node(id).kind {
            Kind::Sequence(elements) => elements,
            Kind::Scalar { .. } | Kind::Mapping(_) => &[],
        }
    }

    /// The entries of a mapping in their order, with what `<<` merges in behind the mapping's own. A key that is
    /// there already is not merged, which is what merging means.
    pub(crate) fn entries(&self, id: NodeId) -> Vec<(&str, NodeId)> {
        let mut found = Vec::new();
        self.collect(id, &mut HashSet::new(), &mut found, 0);
        found
    }

    fn collect<'tree>(
        &'tree self,
        id: NodeId,
        seen: &mut HashSet<&'tree str>,
        found: &mut Vec<(&'tree str, NodeId)>,
        depth: usize,
    ) {
        let Kind::Mapping(entries) = &self.node(id).kind else { return };
        let mut merged = Vec::new();
        for (key, value) in entries {
            match self.text(*key) {
                Some("<<") => merged.push(*value),
                Some(key) if seen.insert(key) => found.push((key, *value)),
                Some(_) | None => {}
            }
        }
        if depth == MOST_MERGES {
            return;
        }
        for value in merged {
            match &self.node(value).kind {
                Kind::Mapping(_) => self.collect(value, seen, found, depth + 1),
                Kind::Sequence(several) => {
                    for one in several {
                        self.collect(*one, seen, found, depth + 1);
                    }
                }
                Kind::Scalar { .. } => {}
            }
        }
    }

    pub(crate) fn get(&self, id: NodeId, key: &str) -> Option<NodeId> {
        self.entries(id).into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }
}

/// A collection that is being read.
enum Open {
    Sequence { node: NodeId, elements: Vec<NodeId> },
    Mapping { node: NodeId, entries: Vec<(NodeId, NodeId)>, key: Option<NodeId> },
}

#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, NodeId>,
    root: Option<NodeId>,
}

impl Builder {
    fn read<'input>(
        mut self,
        events: Parser<'input, granit_parser::StrInput<'input>>,
    ) -> Result<Tree, YamlError> {
        for event in events {
            let (event, span) =
                event.map_err(|error| YamlError { line: error.marker().line(), reason: error.info() })?;
            let bytes = span.byte_range().unwrap_or(0..0);
            let place = Place { bytes, line: span.start.line() };
            match event {
                Event::Scalar(text, style, anchor, _) => {
                    let kind = Kind::Scalar { text: text.into_owned(), quoting: quoting(style) };
                    let id = self.add(kind, place, Layout::Block, anchor)?;
                    self.put(id);
                }
                Event::SequenceStart(style, anchor, _) => {
                    let node = self.add(Kind::Sequence(Vec::new()), place, layout(style), anchor)?;
                    self.open.push(Open::Sequence { node, elements: Vec::new() });
                }
                Event::MappingStart(style, anchor, _) => {
                    let node = self.add(Kind::Mapping(Vec::new()), place, layout(style), anchor)?;
                    self.open.push(Open::Mapping { node, entries: Vec::new(), key: None });
                }
                Event::SequenceEnd | Event::MappingEnd => self.close(place.bytes.end),
                Event::Alias(anchor) => {
                    // An anchor around its own alias is a loop, which compose refuses as well.
                    let looped =
                        || YamlError { line: place.line, reason: "an alias of what it lies in".into() };
                    let id = *self.anchors.get(&anchor).ok_or_else(looped)?;
                    if self.open.iter().any(|open| open.node() == id) {
                        return Err(looped());
                    }
                    self.put(id);
                }
                // What follows the first document is not compose's either.
                Event::DocumentEnd => break,
                _ => {}
            }
        }
        Ok(Tree { nodes: self.nodes, root: self.root })
    }

    fn add(&mut self, kind: Kind, place: Place, layout: Layout, anchor: usize) -> Result<NodeId, YamlError> {
        if self.nodes.len() == MOST_NODES {
            return Err(YamlError { line: place.line, reason: format!("more than {MOST_NODES} values") });
        }
        let id = NodeId(self.nodes.len());
        self.nodes.push(Node { kind, bytes: place.bytes, line: place.line, layout });
        if anchor != 0 {
            self.anchors.insert(anchor, id);
        }
        Ok(id)
    }

    /// Puts a whole node into the collection it stands in.
    fn put(&mut self, id: NodeId) {
        match self.open.last_mut() {
            None => self.root = self.root.or(Some(id)),
            Some(Open::Sequence { elements, .. }) => elements.push(id),
            Some(Open::Mapping { entries, key, .. }) => match key.take() {
                None => *key = Some(id),
                Some(name) => entries.push((name, id)),
            },
        }
    }

    fn close(&mut self, end: usize) {
        let (id, kind) = match self.open.pop() {
            Some(Open::Sequence { node, elements }) => (node, Kind::Sequence(elements)),
            Some(Open::Mapping { node, entries, .. }) => (node, Kind::Mapping(entries)),
            None => return,
        };
        let node = &mut self.nodes[id.0];
        node.kind = kind;
        node.bytes.end = end.max(node.bytes.end);
        self.put(id);
    }
}

impl Open {
    fn node(&self) -> NodeId {
        match self {
            Open::Sequence { node, .. } | Open::Mapping { node, .. } => *node,
        }
    }
}

struct Place {
    bytes: Range<usize>,
    line: usize,
}

fn quoting(style: ScalarStyle) -> Quoting {
    match style {
        ScalarStyle::Plain => Quoting::Plain,
        ScalarStyle::SingleQuoted => Quoting::Single,
        ScalarStyle::DoubleQuoted => Quoting::Double,
        _ => Quoting::Block,
    }
}

fn layout(style: StructureStyle) -> Layout {
    match style {
        StructureStyle::Flow => Layout::Flow,
        _ => Layout::Block,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(text: &str) -> Vec<String> {
        let tree = Tree::read(text).unwrap();
        let mut found = Vec::new();
        walk(&tree, tree.root().unwrap(), "", &mut found);
        found
    }

    fn walk(tree: &Tree, id: NodeId, path: &str, found: &mut Vec<String>) {
        match &tree.node(id).kind {
            Kind::Scalar { text, .. } => found.push(format!("{path}={text}")),
            Kind::Sequence(elements) => {
                for (index, element) in elements.iter().enumerate() {
                    walk(tree, *element, &format!("{path}[{index}]"), found);
                }
            }
            Kind::Mapping(_) => {
                for (key, value) in tree.entries(id) {
                    walk(tree, value, &format!("{path}.{key}"), found);
                }
            }
        }
    }

    #[test]
    fn a_merge_gives_what_the_mapping_lacks() {
        let text = "x: &base {image: a, tty: true}\ny: &other\n  user: root\n  image: c\nservice:\n  <<: [*base, *other]\n  image: b\n";
        assert_eq!(
            paths(text),
            [
                ".x.image=a",
                ".x.tty=true",
                ".y.user=root",
                ".y.image=c",
                ".service.image=b",
                ".service.tty=true",
                ".service.user=root"
            ]
        );
    }

    #[test]
    fn a_scalar_knows_its_bytes_with_its_quotes() {
        let text = "# ü\nports:\n  - \"80:80\" # web\n  - '81:81'\n  - &p 82:82\r\n  - !!str 83\n";
        let tree = Tree::read(text).unwrap();
        let written: Vec<(&str, Quoting, usize)> = tree
            .elements(tree.get(tree.root().unwrap(), "ports").unwrap())
            .iter()
            .map(|id| {
                let node = tree.node(*id);
                let Kind::Scalar { quoting, .. } = node.kind else { unreachable!() };
                (&text[node.bytes.clone()], quoting, node.line)
            })
            .collect();
        assert_eq!(
            written,
            [
                ("\"80:80\"", Quoting::Double, 3),
                ("'81:81'", Quoting::Single, 4),
                ("82:82", Quoting::Plain, 5),
                ("83", Quoting::Plain, 6)
            ]
        );
    }

    #[test]
    fn a_file_that_would_blow_up_costs_its_own_size() {
        let mut text = "a0: &a0 [x, x]\n".to_owned();
        for level in 1..60 {
            text += &format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1);
        }
        assert!(Tree::read(&text).unwrap().nodes.len() < 200);
    }

    #[test]
    fn what_is_not_yaml_is_told_with_its_line() {
        for (text, line) in [("a: 1\nb: [1}\n", 2), ("a: *nowhere\n", 1), ("a: &a\n  b: *a\n", 2)] {
            assert_eq!(Tree::read(text).unwrap_err().line, line, "{text}");
        }
    }
}
