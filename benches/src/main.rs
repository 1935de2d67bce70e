//! `palisade-bench TARGET [PART...]`: measures what was built in TARGET, prints a table, writes
//! `TARGET/bench/report.json`, and fails when a bar is missed or could not be measured. With PARTs, only the
//! comparisons whose names hold one of them.

use palisade_bench::{Comparison, Entry, Failure, Measured, Scene, comparisons, entries, interrupt, table};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// 128 + SIGINT, as a shell would tell it.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let Some(target) = arguments.next().map(PathBuf::from) else {
        say("usage: palisade-bench TARGET [PART...]");
        return ExitCode::from(2);
    };
    let parts: Vec<String> = arguments.map(|part| part.to_string_lossy().into_owned()).collect();
    match bench(&target, &parts) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Failure::Interrupted) => {
            say("interrupted; everything that was started is stopped");
            ExitCode::from(INTERRUPTED)
        }
        Err(failure) => {
            say(&failure.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Whether every bar was reached.
fn bench(target: &Path, parts: &[String]) -> Result<bool, Failure> {
    interrupt::watch().map_err(Failure::io("watch for signals"))?;
    let search_path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    let scene = Scene::new(target, search_path)?;
    let chosen = |comparison: &&Comparison| {
        parts.is_empty() || parts.iter().any(|part| comparison.name.contains(part.as_str()))
    };
    let mut results: Vec<(&Comparison, Result<Measured, Failure>)> = Vec::new();
    for comparison in comparisons::ALL.iter().filter(chosen) {
        say(&format!("{} ({} runs each)", comparison.name, comparison.runs));
        match comparison.measure(&scene) {
            // What a signal made fail was not the comparison's fault.
            Err(_) if interrupt::check().is_err() => return Err(Failure::Interrupted),
            result => results.push((comparison, result)),
        }
    }
    print(&table(&results));
    let entries = entries(&results);
    write_report(&target.join("bench/report.json"), &entries)?;
    Ok(!entries.is_empty() && entries.iter().all(|entry| entry.pass))
}

fn write_report(path: &Path, entries: &[Entry]) -> Result<(), Failure> {
    let failed = || Failure::io(format!("write {}", path.display()));
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(failed())?;
    }
    let text = serde_json::to_string_pretty(entries).map_err(|error| failed()(error.into()))?;
    std::fs::write(path, text + "\n").map_err(failed())
}

fn print(text: &str) {
    // Nobody reads a closed standard output; the report is written all the same.
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "bench: {text}");
}
