//! Which names stand for a repository's own directory. A file written under such a name is a hook, a setting or an object
//! for the next git that comes along, so what a sandbox sends never lands there.
//!
//! More names than one do: file systems that fold case, leave out characters that nobody sees, drop dots and blanks at the
//! end, give long names a short form or files a second stream would all open `.git` for them. They are refused
//! everywhere, since the tree may be moved to such a file system.

/// Whether a name in a directory would be `.git` to git or to some file system.
pub fn stands_for_git(name: &[u8]) -> bool {
    // Where a backslash separates names, each part is one.
    name.split(|byte| *byte == b'\\').any(|part| folds_to_git(part) || shortens_to_git(part))
}

/// As HFS+, APFS and ext4 with folded case compare: without case, and without what is not seen.
fn folds_to_git(name: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(name) else { return false };
    let visible = text.chars().filter(|letter| !unseen(*letter)).map(|letter| letter.to_ascii_lowercase());
    visible.eq(".git".chars())
}

/// As NTFS and FAT open names: `.git` or its short form, then any dots and blanks, then perhaps a stream's name.
fn shortens_to_git(name: &[u8]) -> bool {
    let lower = name.to_ascii_lowercase();
    let rest = if let Some(rest) = lower.strip_prefix(b".git") {
        rest
    } else if let Some(rest) = lower.strip_prefix(b"git~") {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return false;
        }
        &rest[digits..]
    } else {
        return false;
    };
    let end = rest.iter().position(|byte| !matches!(byte, b'.' | b' '));
    end.is_none_or(|end| rest[end] == b':')
}

/// Unicode's `Default_Ignorable_Code_Point`, which includes all that HFS+ leaves out.
fn unseen(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_the_repository_is_known_and_neighbours_are_not() {
        let spellings = [
            ".git",
            ".GIT",
            ".gIt",
            ".git ",
            ".git.",
            ".git. . .",
            ".git:",
            ".git::$INDEX_ALLOCATION",
            ".git . :stream",
            "git~1",
            "GIT~1",
            "git~2",
            "GIT~1.",
            "x\\.git",
            ".git\\hooks",
            "a\\GIT~1\\b",
            ".g\u{200c}it",
            "\u{feff}.git",
            ".git\u{200d}",
            ".G\u{ad}I\u{2060}T",
            ".gi\u{e0001}t",
        ];
        for name in spellings {
            assert!(stands_for_git(name.as_bytes()), "{name:?}");
        }
        for name in
            ["git", ".gitignore", ".gitx", ".git-rewrite", "git~", "git~x", "x.git", ".g it", ".git..x", ""]
        {
            assert!(!stands_for_git(name.as_bytes()), "{name:?}");
        }
        assert!(!stands_for_git(b".g\xffit"));
    }
}
