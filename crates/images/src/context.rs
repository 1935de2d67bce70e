//! What a build is given: the recipe, and the certificates that the host's administrator has added. Public
//! certificates only: a file that is not one stays out, whatever its name says.

use crate::recipe::Recipe;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use tar::{Builder, EntryType, Header};

/// Where Debian and its relatives keep what an administrator adds to the trusted certificates.
pub const ADDED_CERTIFICATES: &str = "/usr/local/share/ca-certificates";
const DIRECTORY: &str = "certificates";
/// More than any certificate has.
const LARGEST: u64 = 1 << 20;

/// Certificates in PEM form, by file name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificates(BTreeMap<String, Vec<u8>>);

impl Certificates {
    pub fn new(files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Self {
        Self(files.into_iter().collect())
    }

    /// Those in a directory; none when there is no such directory.
    pub fn of_directory(directory: &Path) -> io::Result<Self> {
        let mut found = BTreeMap::new();
        let entries = match std::fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let small = std::fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST);
            if !small || path.extension().is_none_or(|extension| extension != "crt") {
                continue;
            }
            let contents = std::fs::read(&path)?;
            if is_public(&contents) {
                found.insert(name.to_owned(), contents);
            }
        }
        Ok(Self(found))
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(name, contents)| (name.as_str(), contents.as_slice()))
    }
}

/// Whether it is a certificate and nothing secret beside it.
fn is_public(contents: &[u8]) -> bool {
    let text = String::from_utf8_lossy(contents);
    text.contains("-----BEGIN CERTIFICATE-----") && !text.contains("PRIVATE KEY")
}

/// The archive that a build begins with.
pub fn archive(recipe: &Recipe, certificates: &Certificates) -> io::Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    let mut append = |kind: EntryType, name: String, mode: u32, contents: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(contents.len() as u64);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        archive.append_data(&mut header, name, contents)
    };
    append(EntryType::Regular, "Dockerfile".into(), 0o644, recipe.dockerfile.as_bytes())?;
    // Also when it is empty: the recipe copies it.
    append(EntryType::Directory, format!("{DIRECTORY}/"), 0o755, &[])?;
    for (name, contents) in certificates.files() {
        append(EntryType::Regular, format!("{DIRECTORY}/{name}"), 0o644, contents)?;
    }
    archive.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recipe::recipe;

    const PEM: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    #[test]
    fn only_public_certificates_are_taken() {
        let directory = tempfile::tempdir().unwrap();
        let put = |name: &str, text: String| std::fs::write(directory.path().join(name), text).unwrap();
        put("ours.crt", PEM.into());
        put("key.crt", format!("{PEM}-----BEGIN PRIVATE KEY-----\n"));
        put("notes.txt", PEM.into());
        put("empty.crt", String::new());
        std::fs::create_dir(directory.path().join("directory.crt")).unwrap();
        let taken = Certificates::of_directory(directory.path()).unwrap();
        assert_eq!(taken, Certificates::new([("ours.crt".to_owned(), PEM.as_bytes().to_vec())]));
        let nowhere = Certificates::of_directory(&directory.path().join("missing")).unwrap();
        assert_eq!(nowhere, Certificates::default());
    }

    #[test]
    fn a_build_is_given_its_recipe_and_the_certificates() {
        let certificates = Certificates::new([("ours.crt".to_owned(), PEM.as_bytes().to_vec())]);
        let bytes = archive(recipe("base").unwrap(), &certificates).unwrap();
        let mut archive = tar::Archive::new(bytes.as_slice());
        let names: Vec<String> = archive
            .entries()
            .unwrap()
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(names, ["Dockerfile", "certificates/", "certificates/ours.crt"]);
    }
}
