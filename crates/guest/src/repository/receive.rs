//! Takes a pack of objects from the host, into a repository that is made when there is none.

use super::git::{Git, GitFailure};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::Stdio;

/// As git does it: fewer objects become files of their own.
const UNPACK_LIMIT: u32 = 100;
/// `PACK`, a version and the number of objects.
const HEADER: usize = 12;

/// Lets a repository find objects in another directory, too. `common` is its git directory.
pub(crate) fn use_objects(common: &Path, objects: &str) -> io::Result<()> {
    let info = common.join("objects/info");
    let file = info.join("alternates");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    if text.lines().any(|line| line == objects) {
        return Ok(());
    }
    std::fs::create_dir_all(info)?;
    std::fs::write(file, format!("{objects}\n{text}"))
}

/// Reads a pack from standard input. `format` is the name of the hash that names objects; `objects` is a directory that
/// has objects, too.
pub(crate) fn receive(directory: &Path, format: &str, objects: Option<&str>) -> Result<Vec<u8>, GitFailure> {
    let failed = |error: io::Error| GitFailure::new("receive", error.to_string());
    let git = Git::at(directory);
    if !directory.join(".git").exists() {
        std::fs::create_dir_all(directory).map_err(failed)?;
        let mut command = git.command(&["init", "--quiet", &format!("--object-format={format}")]);
        command.env("GIT_DEFAULT_REF_FORMAT", "files");
        git.feed_command(command, &["init"], &[])?;
    }
    if let Some(objects) = objects {
        use_objects(&directory.join(".git"), objects).map_err(failed)?;
    }
    let mut input = io::stdin().lock();
    let mut header = [0; HEADER];
    match input.read_exact(&mut header) {
        // The host had nothing to send.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Vec::new()),
        read => read.map_err(failed)?,
    }
    let [.., a, b, c, d] = header;
    let arguments: &[&str] = match u32::from_be_bytes([a, b, c, d]) {
        0 => return Ok(Vec::new()),
        1..UNPACK_LIMIT => &["unpack-objects", "-q"],
        UNPACK_LIMIT.. => &["index-pack", "--stdin", "--fix-thin"],
    };
    let mut command = git.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // Git says with its exit code why it did not want all of it.
        let _ = stdin.write_all(&header).and_then(|()| io::copy(&mut input, &mut stdin).map(drop));
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        Ok(Vec::new())
    } else {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(GitFailure::new(arguments.first().copied().unwrap_or("unpack"), message))
    }
}
