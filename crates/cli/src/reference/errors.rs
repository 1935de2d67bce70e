//! `docs/reference/exit-codes.md`: every exit code, and every error by its stable name, read from the sources of the
//! errors themselves.

use super::markdown::{code, codes, heading, table};
use super::sources::{self, Source};
use palisade_core::ExitCode;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Expr, ExprCall, ExprStruct, ImplItem, ImplItemFn, Item, ItemEnum, ItemImpl, Lit, Pat};

pub(super) fn page() -> String {
    let mut text = heading("Exit codes");
    let rows = ExitCode::ALL
        .map(|exit| [(exit as u8).to_string(), exit.name().to_owned(), exit.meaning().to_owned()]);
    text.push_str(&table(["code", "name", "when"], rows));
    text.push_str(
        "\n`palisade run` and `palisade exec` end with the code of the command they ran. When it could not be started\n\
         they give 126 (there, but cannot be executed) or 127 (not found), as the guest reported it, and 128+n when\n\
         signal n ended it. A command that itself ends with one of the codes above cannot be told apart by the\n\
         number; the `error:` line on stderr tells it apart.\n\n\
         ## Errors by name\n\n\
         Every error has a stable name, which the log carries as `code` at level `debug`. The words that people read\n\
         may change; the name and the exit code stay.\n\n",
    );
    let rows = errors().into_iter().map(|(name, error)| {
        let exits: Vec<String> = error.exits.iter().map(ToString::to_string).collect();
        let says = if error.messages.is_empty() { "differs".into() } else { codes(error.messages) };
        [code(&name), exits.join(", "), says]
    });
    text.push_str(&table(["name", "exit code", "says"], rows));
    text
}

#[derive(Default)]
struct Error {
    exits: BTreeSet<u8>,
    /// With `…` for what differs from case to case.
    messages: BTreeSet<String>,
}

type Errors = BTreeMap<String, Error>;

fn errors() -> Errors {
    let sources = sources::of_the_program();
    let mut errors = Errors::new();
    for source in &sources {
        of_enums(source, &mut errors);
        let mut told = Told { errors: &mut errors };
        source.items.iter().for_each(|item| told.visit_item(item));
    }
    errors
}

/// The errors of a file whose types say their own code: `fn code` and `fn exit`, a match on the variants each.
fn of_enums(source: &Source, errors: &mut Errors) {
    let implementations: Vec<&ItemImpl> = source.items.iter().filter_map(implementation).collect();
    let any_exit = implementations.iter().find_map(|item| method(item, "exit"));
    for item in &implementations {
        let Some(codes) = method(item, "code") else { continue };
        // A type without exit codes of its own is part of one in the same file.
        let exits = method(item, "exit").or(any_exit).map(arms).unwrap_or_default();
        let messages =
            self_type(item).and_then(|name| enumeration(source, &name)).map(messages).unwrap_or_default();
        for (variant, value) in arms(codes) {
            let Some(code) = literal(&value) else { continue };
            let exit = exits.iter().find(|(of, _)| *of == variant || of.is_none());
            let exit = exit.and_then(|(_, value)| exit_code(value));
            let error = errors.entry(code).or_default();
            error.exits.extend(exit.map(|exit| exit as u8));
            error.messages.extend(variant.and_then(|variant| messages.get(&variant).cloned()));
        }
    }
}

fn implementation(item: &Item) -> Option<&ItemImpl> {
    if let Item::Impl(item) = item { Some(item) } else { None }
}

fn method<'a>(item: &'a ItemImpl, name: &str) -> Option<&'a ImplItemFn> {
    item.items.iter().find_map(|item| match item {
        ImplItem::Fn(function) if function.sig.ident == name => Some(function),
        _ => None,
    })
}

fn self_type(item: &ItemImpl) -> Option<String> {
    let syn::Type::Path(path) = &*item.self_ty else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

fn enumeration<'a>(source: &'a Source, name: &str) -> Option<&'a ItemEnum> {
    source.items.iter().find_map(|item| match item {
        Item::Enum(item) if item.ident == name => Some(item),
        _ => None,
    })
}

/// The `#[error("…")]` of each variant.
fn messages(item: &ItemEnum) -> BTreeMap<String, String> {
    let message = |variant: &syn::Variant| {
        let attribute = variant.attrs.iter().find(|attribute| attribute.path().is_ident("error"))?;
        let syn::Meta::List(list) = &attribute.meta else { return None };
        let text = list.tokens.to_string();
        let literal = text.strip_prefix('"')?.split('"').next()?.to_owned();
        Some((variant.ident.to_string(), shown(&literal)))
    };
    item.variants.iter().filter_map(message).collect()
}

/// Variants with what the method answers for them; no variant for `_` and for a method that always says the same.
fn arms(function: &ImplItemFn) -> Vec<(Option<String>, Expr)> {
    match function.block.stmts.last() {
        Some(syn::Stmt::Expr(Expr::Match(choice), _)) => choice
            .arms
            .iter()
            .flat_map(|arm| variants(&arm.pat).into_iter().map(|variant| (variant, (*arm.body).clone())))
            .collect(),
        Some(syn::Stmt::Expr(other, _)) => vec![(None, other.clone())],
        _ => Vec::new(),
    }
}

fn variants(pattern: &Pat) -> Vec<Option<String>> {
    let last = |path: &syn::Path| path.segments.last().map(|segment| segment.ident.to_string());
    match pattern {
        Pat::Or(choice) => choice.cases.iter().flat_map(variants).collect(),
        Pat::Struct(pattern) => vec![last(&pattern.path)],
        Pat::TupleStruct(pattern) => vec![last(&pattern.path)],
        Pat::Path(pattern) => vec![last(&pattern.path)],
        _ => vec![None],
    }
}

fn literal(expression: &Expr) -> Option<String> {
    match expression {
        Expr::Lit(literal) => match &literal.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        // A message is often made by a macro or turned into another type.
        Expr::Macro(made) => made.mac.tokens.to_string().split('"').nth(1).map(str::to_owned),
        Expr::MethodCall(call) => literal(&call.receiver),
        _ => None,
    }
}

fn exit_code(expression: &Expr) -> Option<ExitCode> {
    // Where the line would be too long, the formatter puts braces around it.
    if let Expr::Block(block) = expression
        && let [syn::Stmt::Expr(inner, None)] = &block.block.stmts[..]
    {
        return exit_code(inner);
    }
    let Expr::Path(path) = expression else { return None };
    let name = path.path.segments.last()?.ident.to_string();
    ExitCode::ALL.into_iter().find(|exit| format!("{exit:?}") == name)
}

/// A message with its gaps.
fn shown(template: &str) -> String {
    let mut text = String::new();
    let mut depth = 0;
    for letter in template.chars() {
        match letter {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                text.push('…');
            }
            _ if depth == 0 => text.push(letter),
            _ => {}
        }
    }
    text
}

/// The errors that the program finds itself: `Failure::Told { … }`, `Failure::failed(…)`, `Failure::internal(…)`.
struct Told<'a> {
    errors: &'a mut Errors,
}

impl<'ast> Visit<'ast> for Told<'_> {
    fn visit_expr_struct(&mut self, made: &'ast ExprStruct) {
        let field = |name: &str| {
            let is_it = |field: &&syn::FieldValue| matches!(&field.member, syn::Member::Named(ident) if ident == name);
            made.fields.iter().find(is_it).map(|field| &field.expr)
        };
        if made.path.segments.last().is_some_and(|segment| segment.ident == "Told")
            && let Some(code) = field("code").and_then(literal)
        {
            let error = self.errors.entry(code).or_default();
            error.exits.extend(field("exit").and_then(exit_code).map(|exit| exit as u8));
            error.messages.extend(field("message").and_then(literal).map(|text| shown(&text)));
        }
        visit::visit_expr_struct(self, made);
    }

    fn visit_expr_call(&mut self, call: &'ast ExprCall) {
        if let Expr::Path(function) = &*call.func {
            let names: Vec<String> =
                function.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            let argument = |index: usize| call.args.get(index).and_then(literal);
            let (code, exit, message) = match &names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                ["Failure", "failed"] => (argument(0), ExitCode::Failed, argument(1)),
                ["Failure", "internal"] => (Some("internal".into()), ExitCode::Internal, argument(0)),
                _ => (None, ExitCode::Ok, None),
            };
            if let Some(code) = code {
                let error = self.errors.entry(code).or_default();
                error.exits.insert(exit as u8);
                error.messages.extend(message.map(|text| shown(&text)));
            }
        }
        visit::visit_expr_call(self, call);
    }
}

#[test]
fn every_error_has_a_proper_name_and_an_exit_code() {
    let errors = errors();
    assert!(errors.len() > 25, "the errors were not found: {:?}", errors.keys());
    for (name, error) in errors {
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'), "{name:?}");
        assert!(!error.exits.is_empty(), "{name} has no exit code that this page understands");
    }
}
