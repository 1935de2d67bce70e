//! Reads what `palisade agent sync --json` prints back as the report that it was made from, so that the rules are the
//! same for the library and the program.

use palisade_core::{GuestPath, HostPath};
use palisade_workspace::{
    ArchiveReport, BranchName, BranchReport, CommitsOutcome, ExchangeReport, FilesOutcome, LeftOut, ObjectId,
    SyncReport, TagReport, TreeOutcome, TreeReport, WaitingCommits, WhyFilesWait, WhyWaiting,
};
use serde_json::Value;
use std::path::PathBuf;

/// How the reason begins when a merge was left with its conflicts in a working tree.
const CONFLICTS: &str = "the merge has conflicts in ";

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_else(|| panic!("no text '{field}' in {value}")).to_owned()
}

fn number(value: &Value, field: &str) -> u32 {
    let number = value[field].as_u64().unwrap_or_else(|| panic!("no number '{field}' in {value}"));
    u32::try_from(number).unwrap()
}

fn list<T>(value: &Value, field: &str, read: impl Fn(&Value) -> T) -> Vec<T> {
    let items = value[field].as_array().unwrap_or_else(|| panic!("no list '{field}' in {value}"));
    items.iter().map(read).collect()
}

fn id(value: &Value, field: &str) -> Option<ObjectId> {
    value[field].as_str().map(|text| ObjectId::parse(text).unwrap())
}

/// Why a file of the agents cannot be archived: there is no other reason among what they do.
const REFUSED_NAME: &str = ": git refuses its name";

/// What a command says that it has left out of an archive, in its words for people.
pub(crate) fn left_out(words: &str) -> ArchiveReport {
    let listed = words.split(['\n', ';']).filter_map(|item| {
        let item = item.trim().strip_suffix(REFUSED_NAME)?;
        Some(item.trim_start_matches("warning: its work is not archived: "))
    });
    let stayed = words.lines().filter_map(|line| {
        let line = line.strip_prefix("warning: the agent's working tree stays as it is: ")?;
        line.strip_suffix(" cannot be archived")
    });
    let paths = listed.chain(stayed.flat_map(|names| names.split(", ")));
    let left_out = paths.map(|path| LeftOut { path: path.into(), reason: REFUSED_NAME.into() });
    ArchiveReport { left_out: left_out.collect(), ..ArchiveReport::default() }
}

/// The rules look at some of it; the rest is left empty.
pub(crate) fn read(json: &Value) -> ExchangeReport {
    let left_out = |item: &Value| LeftOut { path: text(item, "path"), reason: text(item, "reason") };
    let tag = |tag: &Value| TagReport {
        name: text(tag, "name"),
        id: id(tag, "commit").unwrap(),
        made: tag["created"].as_bool().unwrap(),
    };
    ExchangeReport {
        archived: ArchiveReport { left_out: list(json, "left_out", left_out), ..ArchiveReport::default() },
        sync: SyncReport {
            branches: list(json, "branches", branch),
            trees: list(json, "trees", tree),
            tags: list(json, "tags", tag),
            removed_branches: list(json, "removed_branches", |name| name.as_str().unwrap().to_owned()),
            ..SyncReport::default()
        },
        host_branch: None,
    }
}

fn branch(json: &Value) -> BranchReport {
    let count = number(json, "count");
    let commits = match json["commits"].as_str().unwrap() {
        "same" => CommitsOutcome::Nothing,
        "forwarded" => CommitsOutcome::Moved { count, dropped: number(json, "dropped") },
        "created" => CommitsOutcome::Created { count, name: text(json, "created_branch") },
        "merged" => CommitsOutcome::Merged { count },
        "waiting" => CommitsOutcome::Waiting(WaitingCommits {
            count,
            why: match text(json, "waits").starts_with(CONFLICTS) {
                true => WhyWaiting::Conflicts(Vec::new()),
                false => WhyWaiting::NotAsked,
            },
            branch: text(json, "waiting_branch"),
            replayed: false,
        }),
        other => panic!("commits are {other}: {json}"),
    };
    BranchReport {
        name: BranchName::new(&text(json, "name")).unwrap(),
        commits,
        from: id(json, "from"),
        to: id(json, "to"),
        autorun: Vec::new(),
    }
}

fn tree(json: &Value) -> TreeOutcome {
    let paths = |field: &str| list(json, field, |path| PathBuf::from(path.as_str().unwrap()));
    let mut report = TreeReport::default();
    report.written = paths("written");
    report.merged = paths("merged");
    report.taken_back = paths("taken_back");
    report.conflicts = paths("conflicts");
    report.waiting = paths("waiting");
    let files = match json["place"].as_str() {
        Some(place) => FilesOutcome::Applied { place: HostPath::new(PathBuf::from(place)).unwrap(), report },
        None => FilesOutcome::Waiting(WhyFilesWait::NoCommit),
    };
    let branch = json["branch"].as_str().map(|name| BranchName::new(name).unwrap());
    TreeOutcome { path: GuestPath::new(text(json, "path")).unwrap(), branch, files, archive: None }
}
