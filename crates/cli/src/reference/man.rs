//! `docs/man`: one manual page per command, with the closing sections made from the same tables as the pages of the
//! reference.

use super::{Documents, environment};
use clap::Command;
use palisade_core::ExitCode;
use roff::{Roff, bold, italic, roman};

pub(super) fn pages(root: &Command) -> Documents {
    let mut pages = Documents::new();
    add(root, root, &mut pages);
    pages
}

fn add(root: &Command, command: &Command, pages: &mut Documents) {
    for below in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        add(root, below, pages);
    }
    let name = page_name(command);
    pages.insert(format!("docs/man/{name}.1"), page(root, command));
}

/// As `man` is asked for it: `palisade-config-show`.
fn page_name(command: &Command) -> String {
    super::command_line::full_name(command).replace(' ', "-")
}

fn page(root: &Command, command: &Command) -> String {
    let mut text = Vec::new();
    let man = clap_mangen::Man::new(command.clone().version(None::<&str>));
    man.render(&mut text).expect("writing to memory");
    let text = String::from_utf8(text).expect("a page is text");
    // The page has no date, so that it changes only with the code. The generator leaves an empty date out, whereupon
    // the version would be taken for it.
    let version = root.get_version().unwrap_or_default();
    let title =
        format!(".TH {} 1 \"\" \"palisade {version}\" \"Palisade\"", page_name(command).to_uppercase());
    let lines = text.lines().map(|line| if line.starts_with(".TH ") { &title } else { line.trim_end() });
    let body: String = lines.map(|line| format!("{line}\n")).collect();
    body + &closing(root, command).to_roff()
}

fn closing(root: &Command, command: &Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for exit in ExitCode::ALL {
        roff.control("TP", []).text([bold((exit as u8).to_string())]).text([roman(exit.meaning())]);
    }
    roff.control("PP", []).text([
        bold("palisade run"),
        roman(" and "),
        bold("palisade exec"),
        roman(" end with the code of the command they ran; with 126 or 127 when it could not start or was not found, and with 128+n when signal n ended it."),
    ]);
    if page_name(command) == "palisade" {
        roff.control("SH", ["ENVIRONMENT"]);
        for [name, meaning] in environment::settings().into_iter().chain(environment::places()) {
            roff.control("TP", []).text([bold(name)]).text([roman(meaning.replace('`', ""))]);
        }
        roff.control("SH", ["FILES"]);
        for (path, meaning) in files() {
            roff.control("TP", []).text([italic(path)]).text([roman(meaning)]);
        }
    }
    roff.control("SH", ["SEE ALSO"]);
    let mut others: Vec<String> = see_also(root, command);
    let last = others.pop();
    for other in others {
        roff.text([bold(other), roman("(1),")]);
    }
    if let Some(last) = last {
        roff.text([bold(last), roman("(1)")]);
    }
    roff
}

fn files() -> [(&'static str, &'static str); 4] {
    [
        (crate::context::SYSTEM_CONFIG, "Settings of the machine."),
        ("$XDG_CONFIG_HOME/palisade/config.toml", "Settings of the user."),
        (
            palisade_config::PROJECT_FILE,
            "Settings of a project, in its directory; may widen the policy only once trusted.",
        ),
        (
            "$XDG_STATE_HOME/palisade/",
            "State: the database state.db, and a directory per sandbox below sandboxes/.",
        ),
    ]
}

/// From the page of the whole program, its commands are listed already.
fn see_also(root: &Command, command: &Command) -> Vec<String> {
    if page_name(command) == page_name(root) {
        return vec!["bwrap".into()];
    }
    let below = command.get_subcommands().filter(|command| !command.is_hide_set());
    std::iter::once(page_name(root)).chain(below.map(page_name)).collect()
}
