//! A host tree as a tar stream. Links stay links; what is neither file, directory nor link is named and left out.

use super::{CopyReport, Skipped};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(super) fn pack(source: &Path, name: &OsStr, mut writer: impl Write) -> io::Result<CopyReport> {
    let mut report = CopyReport::default();
    {
        let mut archive = tar::Builder::new(&mut writer);
        archive.follow_symlinks(false);
        archive.mode(tar::HeaderMode::Complete);
        // Depth first without recursion; parents before children.
        let mut pending: Vec<(PathBuf, PathBuf)> = vec![(source.to_owned(), PathBuf::from(name))];
        while let Some((host, inside)) = pending.pop() {
            let meta = std::fs::symlink_metadata(&host)?;
            report.entries += 1;
            let kind = meta.file_type();
            if kind.is_dir() {
                archive.append_dir(&inside, &host)?;
                for entry in std::fs::read_dir(&host)? {
                    let entry = entry?;
                    pending.push((entry.path(), inside.join(entry.file_name())));
                }
            } else if kind.is_file() || kind.is_symlink() {
                archive.append_path_with_name(&host, &inside)?;
                report.files += 1;
                report.bytes += if kind.is_file() { meta.len() } else { 0 };
            } else {
                report.skipped.push(Skipped {
                    path: host.display().to_string(),
                    why: "neither a file, a directory nor a link".into(),
                });
            }
        }
        archive.finish()?;
    }
    writer.flush()?;
    Ok(report)
}
