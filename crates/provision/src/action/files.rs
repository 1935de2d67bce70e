//! Which files a worktree gets from the main working tree: those the project declares, and those that the repository's
//! `.worktreeinclude` names.

use super::event::{Event, ProvisionedFile, Surface};
use super::{Options, ProvisionError};
use crate::copying::{self, DeclaredFile, FileFailure};
use crate::slots::Slot;
use palisade_config::infra::Infra;
use palisade_core::ProjectPath;
use palisade_workspace::Worktrees;
use std::collections::BTreeSet;

/// Patterns as in `.gitignore`; other tools for worktrees read it, too.
const INCLUDE: &str = ".worktreeinclude";

/// Copies them, and writes down what was copied. The inner failures are for the user to mend.
pub(super) async fn provision(
    slot: &mut Slot,
    trees: &Worktrees,
    infra: &Infra,
    options: Options,
    surface: &mut dyn Surface,
) -> Result<Result<Vec<ProvisionedFile>, Vec<FileFailure>>, ProvisionError> {
    let files = wanted(trees, infra, surface).await?;
    let record = &mut slot.record;
    let copied = copying::copy(&files, trees.main(), &record.worktree, &record.files, options.files);
    let (outcomes, digests) = match copied {
        Ok(copied) => copied,
        Err(failures) => return Ok(Err(failures)),
    };
    if record.files != digests {
        record.files = digests;
        slot.write()?;
    }
    let told = files.into_iter().zip(outcomes);
    let told = told.map(|(DeclaredFile { destination, source }, outcome)| ProvisionedFile {
        destination,
        source,
        outcome,
    });
    Ok(Ok(told.collect()))
}

/// What is declared comes first, and wins over a pattern.
async fn wanted(
    trees: &Worktrees,
    infra: &Infra,
    surface: &mut dyn Surface,
) -> Result<Vec<DeclaredFile>, ProvisionError> {
    let declared = infra.sandbox.files.iter();
    let mut files: Vec<DeclaredFile> = declared
        .map(|file| DeclaredFile { destination: file.destination.clone(), source: file.source.clone() })
        .collect();
    let patterns = trees.main().join(INCLUDE);
    if !patterns.as_path().is_file() {
        return Ok(files);
    }
    let known: BTreeSet<ProjectPath> = files.iter().map(|file| file.destination.clone()).collect();
    let mut left = 0;
    for path in trees.ignored_files(&patterns).await? {
        let plain = std::fs::symlink_metadata(trees.main().join(&path)).is_ok_and(|found| found.is_file());
        match path.to_str().and_then(|path| ProjectPath::new(path).ok()) {
            Some(path) if plain && !known.contains(&path) => {
                files.push(DeclaredFile { destination: path.clone(), source: path });
            }
            Some(_) if plain => {}
            _ => left += 1,
        }
    }
    if left > 0 {
        surface.tell(Event::NotCopied { count: left });
    }
    Ok(files)
}
