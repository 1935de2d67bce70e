//! Draws what a terminal would show, as SVG: the bytes that a program wrote to its terminal come in, a picture of a
//! window goes out. See `scripts/picture`.
//!
//! The picture stands alone: no script, no font or file from elsewhere. Every run of letters is stretched to the cells
//! it fills, so that columns line up in whichever monospaced font a reader has.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a tool for whoever works on the project; it fails loudly and writes to stdout"
)]

use std::fmt::Write as _;
use std::io::Read as _;
use vt100::{Cell, Color, Parser, Screen};

const CELL_WIDTH: f32 = 8.4;
const CELL_HEIGHT: f32 = 19.0;
const FONT_SIZE: f32 = 14.0;
const PADDING: f32 = 22.0;
const TITLE_BAR: f32 = 40.0;
const BASELINE: f32 = 14.0;
/// More than any recording has, so that nothing scrolls away.
const ROWS: u16 = 1000;

const BACKGROUND: &str = "#0f1419";
const BAR: &str = "#1b222c";
const BORDER: &str = "#2c3541";
const TEXT: &str = "#d5dbe3";
const BRIGHT: &str = "#ffffff";
const FAINT: &str = "#6b7785";
/// The sixteen colours of a terminal, dark half first.
const PALETTE: [&str; 16] = [
    "#3b4450", "#f07178", "#7fd962", "#ffb454", "#59c2ff", "#d2a6ff", "#73d0ff", "#c7cdd6", "#6b7785",
    "#ff8f95", "#a6e88c", "#ffd173", "#82d2ff", "#e2c4ff", "#a0e3ff", "#ffffff",
];

/// `terminal-picture COLUMNS TITLE < bytes > picture.svg`
fn main() {
    let mut arguments = std::env::args().skip(1);
    let columns = arguments.next().and_then(|text| text.parse().ok()).expect("the number of columns");
    let title = arguments.next().expect("a title");
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).expect("what the terminal was sent");
    let mut parser = Parser::new(ROWS, columns, 0);
    parser.process(&bytes);
    print!("{}", draw(parser.screen(), &title));
}

fn draw(screen: &Screen, title: &str) -> String {
    let (_, columns) = screen.size();
    let lines = used_rows(screen);
    let width = f32::from(columns) * CELL_WIDTH + 2.0 * PADDING;
    let height = f32::from(lines) * CELL_HEIGHT + TITLE_BAR + 2.0 * PADDING;
    let (title, middle) = (escape(title), width / 2.0);
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{title}">
<title>{title}</title>
<style>
text {{ font: {FONT_SIZE}px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace; fill: {TEXT}; white-space: pre; }}
.b {{ font-weight: bold; fill: {BRIGHT}; }}
.d {{ fill: {FAINT}; }}
</style>
<rect x="0.5" y="0.5" width="{}" height="{}" rx="10" fill="{BACKGROUND}" stroke="{BORDER}"/>
<path d="M0.5 {TITLE_BAR} V10.5 a10 10 0 0 1 10 -10 H{} a10 10 0 0 1 10 10 V{TITLE_BAR} Z" fill="{BAR}" stroke="{BORDER}"/>
<circle cx="24" cy="20" r="6" fill="#ff5f57"/><circle cx="44" cy="20" r="6" fill="#febc2e"/><circle cx="64" cy="20" r="6" fill="#28c840"/>
<text x="{middle}" y="25" text-anchor="middle" class="d">{title}</text>
"##,
        width - 1.0,
        height - 1.0,
        width - 10.5,
    );
    for row in 0..lines {
        for run in runs(screen, row) {
            svg.push_str(&run.draw(row));
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// Rows up to the last that has anything on it.
fn used_rows(screen: &Screen) -> u16 {
    let (rows, columns) = screen.size();
    let is_used = |row: &u16| (0..columns).any(|column| screen.cell(*row, column).is_some_and(is_visible));
    (0..rows).rev().find(is_used).map_or(0, |last| last + 1)
}

fn is_visible(cell: &Cell) -> bool {
    !cell.contents().trim().is_empty()
}

/// Neighbouring letters that look alike.
struct Run {
    column: u16,
    cells: u16,
    text: String,
    look: Look,
}

#[derive(Clone, Copy, PartialEq)]
struct Look {
    colour: Color,
    bold: bool,
    dim: bool,
}

impl Look {
    fn of(cell: &Cell) -> Self {
        Self { colour: cell.fgcolor(), bold: cell.bold(), dim: cell.dim() }
    }

    fn attributes(self) -> String {
        let class = match (self.bold, self.dim) {
            (true, _) => " class=\"b\"",
            (_, true) => " class=\"d\"",
            _ => "",
        };
        let colour = match self.colour {
            Color::Idx(index) => PALETTE.get(usize::from(index)).map(|colour| (*colour).to_owned()),
            Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
            Color::Default => None,
        };
        // As a style, because a class would win over an attribute.
        class.to_owned() + &colour.map(|colour| format!(" style=\"fill:{colour}\"")).unwrap_or_default()
    }
}

/// Words are runs of their own: a gap of several blanks is left empty, one blank belongs to the text around it.
fn runs(screen: &Screen, row: u16) -> Vec<Run> {
    let (_, columns) = screen.size();
    let mut runs: Vec<Run> = Vec::new();
    for column in 0..columns {
        let Some(cell) = screen.cell(row, column).filter(|cell| is_visible(cell)) else { continue };
        let look = Look::of(cell);
        match runs.last_mut() {
            Some(run) if run.look == look && column <= run.column + run.cells + 1 => {
                if column > run.column + run.cells {
                    run.text.push(' ');
                }
                run.text.push_str(cell.contents());
                run.cells = column - run.column + 1;
            }
            _ => runs.push(Run { column, cells: 1, text: cell.contents().to_owned(), look }),
        }
    }
    runs
}

impl Run {
    fn draw(&self, row: u16) -> String {
        let x = PADDING + f32::from(self.column) * CELL_WIDTH;
        let y = TITLE_BAR + PADDING + f32::from(row) * CELL_HEIGHT + BASELINE;
        let length = f32::from(self.cells) * CELL_WIDTH;
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            r#"<text x="{x:.1}" y="{y:.1}" textLength="{length:.1}" lengthAdjust="spacingAndGlyphs"{}>{}</text>"#,
            self.look.attributes(),
            escape(&self.text)
        );
        text
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
