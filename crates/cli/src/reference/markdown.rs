//! The little of Markdown that the pages need.

/// The first line of every page.
pub(super) fn heading(title: &str) -> String {
    format!("<!-- Made from the code by `make reference`; a test compares. -->\n\n# {title}\n\n")
}

pub(super) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut text = format!("| {} |\n|{}\n", header.join(" | "), "---|".repeat(N));
    for row in rows {
        text.push_str(&format!("| {} |\n", row.map(|cell| self::cell(&cell)).join(" | ")));
    }
    text
}

/// A bar would end the cell, a line break the table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

pub(super) fn code(text: &str) -> String {
    format!("`{text}`")
}

pub(super) fn codes<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    texts.into_iter().map(|text| code(text.as_ref())).collect::<Vec<_>>().join(", ")
}

/// With a full stop, which the parser takes off help texts.
pub(super) fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with(['.', ':', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}
