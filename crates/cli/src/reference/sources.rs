//! The program's own sources, parsed: what some pages are made from, and what others are held against.

use super::repository;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprCall, Item, Lit, LitStr, Macro};

/// One file.
pub(super) struct Source {
    pub(super) items: Vec<Item>,
}

/// Every crate, without its tests and without what makes the documents.
pub(super) fn all() -> Vec<Source> {
    read(list(&repository().join("crates")))
}

/// The crates that are part of the program.
pub(super) fn of_the_program() -> Vec<Source> {
    let mut crates = vec![repository().join("crates/cli")];
    let mut next = 0;
    while let Some(directory) = crates.get(next) {
        for dependency in dependencies(directory) {
            if !crates.contains(&dependency) {
                crates.push(dependency);
            }
        }
        next += 1;
    }
    read(crates)
}

/// The crates of ours that this one needs outside its tests. A crate's directory has its name without the prefix.
fn dependencies(directory: &Path) -> Vec<PathBuf> {
    let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).expect("a manifest");
    let section = manifest.lines().skip_while(|line| *line != "[dependencies]").skip(1);
    let lines = section.take_while(|line| !line.starts_with('['));
    let names = lines.filter_map(|line| line.strip_prefix("palisade-")?.split(['.', ' ']).next());
    names.map(|name| repository().join("crates").join(name)).collect()
}

fn read(crates: Vec<PathBuf>) -> Vec<Source> {
    let mut files = Vec::new();
    for directory in crates {
        collect(&directory.join("src"), &mut files);
    }
    files.sort();
    assert!(files.len() > 50, "the sources were not found: {files:?}");
    files
        .into_iter()
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a source");
            let mut items = syn::parse_file(&text).expect("it compiles, so it parses").items;
            items.retain(|item| !attributes(item).iter().any(is_for_tests));
            Source { items }
        })
        .collect()
}

fn list(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for path in list(directory) {
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if stem == "tests" || stem == "reference" {
            continue;
        }
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Mod(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        _ => &[],
    }
}

fn is_for_tests(attribute: &Attribute) -> bool {
    let is_cfg_test = || attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"));
    attribute.path().is_ident("test") || (attribute.path().is_ident("cfg") && is_cfg_test())
}

/// Text in the sources: every string, and those that name a variable to read.
#[derive(Default)]
pub(super) struct Strings {
    pub(super) literals: Vec<String>,
    pub(super) variables_read: Vec<String>,
}

impl Strings {
    pub(super) fn of(sources: &[Source]) -> Self {
        let mut strings = Self::default();
        for item in sources.iter().flat_map(|source| &source.items) {
            strings.visit_item(item);
        }
        strings
    }
}

impl<'ast> Visit<'ast> for Strings {
    fn visit_lit_str(&mut self, literal: &'ast LitStr) {
        self.literals.push(literal.value());
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(function) = &*call.func
            && is_environment_read(&function.path)
            && let Some(Expr::Lit(argument)) = call.args.first()
            && let Lit::Str(name) = &argument.lit
        {
            self.variables_read.push(name.value());
        }
        visit::visit_expr_call(self, call);
    }

    /// What a macro is given need not be an expression; quotes are found in its text.
    fn visit_macro(&mut self, given: &'ast Macro) {
        self.literals.extend(given.tokens.to_string().split('"').skip(1).step_by(2).map(str::to_owned));
    }
}

fn is_environment_read(path: &syn::Path) -> bool {
    let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
    matches!(&names[..], [.., module, function] if module == "env" && (function == "var" || function == "var_os"))
}
