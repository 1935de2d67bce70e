//! The variables that a text of a compose file refers to, as Compose reads them: `$V`, `${V}`, and with a default
//! (`:-`, `-`), an error (`:?`, `?`) or a replacement (`:+`, `+`), each of which may hold variables again; `$$` is
//! a dollar sign.

use std::ops::Range;

/// A nested default beyond this depth is left unread; Compose's own files stay far below.
const MOST_NESTED: usize = 16;

/// What stands for a variable that is not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Otherwise {
    /// `$V` or `${V}`: nothing, with a warning.
    Nothing,
    /// `${V:-text}` or `${V-text}`.
    Default(String),
    /// `${V:?text}` or `${V?text}`.
    Refused(String),
    /// `${V:+text}` or `${V+text}`: nothing; the text stands for one that is set.
    Replaced(String),
}

/// A variable where a text refers to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    pub name: String,
    pub otherwise: Otherwise,
    /// Its bytes in the text, from the dollar sign on.
    pub bytes: Range<usize>,
}

/// Every variable a text refers to, in its order, those within defaults behind the one they are a default of.
pub fn references(text: &str) -> Vec<Reference> {
    let mut found = Vec::new();
    scan(text, 0, 0, &mut found);
    found
}

fn scan(text: &str, offset: usize, depth: usize, found: &mut Vec<Reference>) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(dollar) = bytes[at..].iter().position(|byte| *byte == b'$').map(|found| at + found) {
        let rest = &text[dollar + 1..];
        at = dollar + 1;
        if rest.starts_with('$') {
            at += 1;
        } else if let Some(braced) = rest.strip_prefix('{') {
            let Some(length) = closing(braced) else { continue };
            let inner = &braced[..length];
            let end = dollar + 2 + length + 1;
            if let Some((name, otherwise)) = braced_variable(inner) {
                let nested = dollar + 2 + name.len();
                let bytes = offset + dollar..offset + end;
                found.push(Reference { name: name.to_owned(), otherwise, bytes });
                if depth < MOST_NESTED {
                    scan(&inner[name.len()..], offset + nested, depth + 1, found);
                }
            }
            at = end;
        } else {
            let length = name_length(rest);
            if length > 0 {
                let bytes = offset + dollar..offset + dollar + 1 + length;
                let name = rest[..length].to_owned();
                found.push(Reference { name, otherwise: Otherwise::Nothing, bytes });
                at += length;
            }
        }
    }
}

/// Where the brace closes that is open before `text`, braces of nested variables left out.
fn closing(text: &str) -> Option<usize> {
    let mut open = 1_usize;
    let mut before = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' if before == b'$' => open += 1,
            b'}' => open -= 1,
            _ => {}
        }
        if open == 0 {
            return Some(at);
        }
        before = byte;
    }
    None
}

fn braced_variable(inner: &str) -> Option<(&str, Otherwise)> {
    let length = name_length(inner);
    if length == 0 {
        return None;
    }
    let (name, rest) = inner.split_at(length);
    let operator = rest.strip_prefix(':').unwrap_or(rest);
    let mut characters = operator.chars();
    let otherwise = match characters.next() {
        None if rest.is_empty() => Otherwise::Nothing,
        Some('-') => Otherwise::Default(characters.as_str().to_owned()),
        Some('?') => Otherwise::Refused(characters.as_str().to_owned()),
        Some('+') => Otherwise::Replaced(characters.as_str().to_owned()),
        _ => return None,
    };
    Some((name, otherwise))
}

fn name_length(text: &str) -> usize {
    match text.bytes().next() {
        Some(first) if first.is_ascii_alphabetic() || first == b'_' => {
            text.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, Otherwise, &str)> {
        references(text).into_iter().map(|it| (it.name, it.otherwise, &text[it.bytes])).collect()
    }

    #[test]
    fn every_form_is_found() {
        let default = |text: &str| Otherwise::Default(text.into());
        for (text, name, otherwise) in [
            ("$A", "A", Otherwise::Nothing),
            ("${A}", "A", Otherwise::Nothing),
            ("${A:-b}", "A", default("b")),
            ("${A-}", "A", default("")),
            ("${A:?set A}", "A", Otherwise::Refused("set A".into())),
            ("${A?}", "A", Otherwise::Refused(String::new())),
            ("${A:+x}", "A", Otherwise::Replaced("x".into())),
            ("${_a1}", "_a1", Otherwise::Nothing),
        ] {
            assert_eq!(found(text), [(name.to_owned(), otherwise, text)], "{text}");
        }
    }

    #[test]
    fn what_is_no_variable_is_not_found() {
        for text in ["$$A", "$", "$1", "${}", "${1}", "${A", "${A B}", "cost: 5$", "$${A}"] {
            assert_eq!(found(text), [], "{text}");
        }
    }

    #[test]
    fn variables_within_a_default_are_found_too() {
        assert_eq!(
            found("x ${A:-${B:-$C}} $$ü$D"),
            [
                ("A".to_owned(), Otherwise::Default("${B:-$C}".into()), "${A:-${B:-$C}}"),
                ("B".to_owned(), Otherwise::Default("$C".into()), "${B:-$C}"),
                ("C".to_owned(), Otherwise::Nothing, "$C"),
                ("D".to_owned(), Otherwise::Nothing, "$D"),
            ]
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_and_every_place_lies_in_it(text in "(\\$|\\{|\\}|:|-|[A-Zü ]){0,40}") {
            for reference in references(&text) {
                proptest::prop_assert!(text[reference.bytes].starts_with('$'));
            }
        }
    }
}
