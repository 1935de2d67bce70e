//! Generated repositories: large ones, and ones with many files or refs.
//!
//! `git fast-import` writes them, and they are the same in every run. Each is made once in a run of the bench, for all
//! comparisons that use it, and goes with the scene.

use crate::comparison::Result;
use crate::failure::Failure;
use crate::repository::Repository;
use crate::scene::Scene;
use std::io::{BufWriter, Write};
use std::process::{Child, ChildStdin, Stdio};

/// The time of the first commit, in seconds.
const BEGIN: usize = 1_600_000_000;
/// A file that every repository of the bench has, to be changed.
pub(crate) const CHANGED: &str = "file-0";

/// What a repository is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Small,
    /// 1 000 commits, each of which adds a file of 200 KB that cannot be compressed.
    Binaries,
    /// 35 000 commits and 600 MB, most of it in earlier versions of files.
    LongHistory,
    ManyFiles,
    /// As large a tree as one binds: 50 000 files in 250 directories. No agent of the bench works on it.
    LargeTree,
    /// 20 000 commits, and no more refs than any.
    FewRefs,
    /// The same with a branch or a tag at each.
    ManyRefs,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Small, Self::Binaries, Self::LongHistory, Self::ManyFiles, Self::FewRefs, Self::ManyRefs];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Binaries => "binaries",
            Self::LongHistory => "long-history",
            Self::ManyFiles => "many-files",
            Self::LargeTree => "large-tree",
            Self::FewRefs => "few-refs",
            Self::ManyRefs => "many-refs",
        }
    }

    fn write(self, import: &mut Import) -> std::io::Result<()> {
        match self {
            Self::Small => import.add_files(20),
            Self::Binaries => import.add_binaries(),
            Self::LongHistory => import.add_long_history(),
            Self::ManyFiles => import.add_files(20_000),
            Self::LargeTree => import.add_files(50_000),
            Self::FewRefs => import.add_refs(|_| None),
            Self::ManyRefs => import.add_refs(|number| {
                let directory = match number % 10 {
                    0 => "heads/topic",
                    1..=4 => "remotes/origin/topic",
                    _ => "tags/v",
                };
                Some(format!("refs/{directory}-{number}"))
            }),
        }
    }
}

impl Repository {
    /// The repository of this kind.
    pub(crate) fn generated(scene: &Scene, kind: Kind) -> Result<Self> {
        let path = scene.path(kind.name());
        if path.is_dir() {
            return Self::at(scene, path);
        }
        // Half a repository is never taken for a whole one.
        let unfinished = Self::empty(scene, "unfinished")?;
        unfinished.import(kind)?;
        unfinished.git().args(["pack-refs", "--all"]).check()?;
        unfinished.git().args(["reset", "--quiet", "--hard"]).check()?;
        std::fs::rename(unfinished.path(), &path).map_err(Failure::io(format!("make {}", path.display())))?;
        Self::at(scene, path)
    }

    fn import(&self, kind: Kind) -> Result<()> {
        // What is in here cannot be compressed, or hardly: no time is spent on trying.
        let program = self.git().args(["-c", "pack.compression=1", "fast-import", "--quiet"]);
        let mut child = program
            .command()
            .stdin(Stdio::piped())
            .spawn()
            .map_err(Failure::io(format!("start {program}")))?;
        let written = Import::new(&mut child).and_then(|mut import| {
            kind.write(&mut import)?;
            import.out.flush()
        });
        let status = child.wait().map_err(Failure::io(format!("wait for {program}")))?;
        written.map_err(Failure::io(format!("write to {program}")))?;
        match status.success() {
            true => Ok(()),
            false => Err(Failure::Plan(format!("{program} failed"))),
        }
    }
}

/// A stream of commits for `git fast-import`.
struct Import {
    out: BufWriter<ChildStdin>,
    numbers: Numbers,
    commits: usize,
}

impl Import {
    /// Takes the input of a process; dropping this ends it.
    fn new(child: &mut Child) -> std::io::Result<Self> {
        let input = child.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        Ok(Self { out: BufWriter::new(input), numbers: Numbers(0x9e37_79b9_7f4a_7c15), commits: 0 })
    }

    /// Begins a commit; its files follow.
    fn commit(&mut self) -> std::io::Result<()> {
        self.commits += 1;
        let number = self.commits;
        writeln!(
            self.out,
            "commit refs/heads/main\ncommitter Bench <bench@localhost> {} +0000",
            BEGIN + number * 60
        )?;
        self.data(format!("commit {number}").as_bytes())
    }

    fn data(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        writeln!(self.out, "data {}", bytes.len())?;
        self.out.write_all(bytes)?;
        self.out.write_all(b"\n")
    }

    fn file(&mut self, path: &str, content: &[u8]) -> std::io::Result<()> {
        writeln!(self.out, "M 644 inline {path}")?;
        self.data(content)
    }

    /// Begins the first commit, with the file that is to be changed.
    fn first_commit(&mut self) -> std::io::Result<()> {
        self.commit()?;
        self.file(CHANGED, b"the first line\n")
    }

    fn binary(&mut self, bytes: usize) -> Vec<u8> {
        (0..bytes / 8).flat_map(|_| self.numbers.next().to_le_bytes()).collect()
    }

    fn add_files(&mut self, count: usize) -> std::io::Result<()> {
        self.first_commit()?;
        for number in 1..count {
            self.file(
                &format!("files/{}/file-{number}", number / 200),
                format!("the file {number}\n").as_bytes(),
            )?;
        }
        Ok(())
    }

    fn add_binaries(&mut self) -> std::io::Result<()> {
        self.first_commit()?;
        for number in 1..=1000 {
            self.commit()?;
            let content = self.binary(200 * 1024);
            self.file(&format!("{}/{number}", number % 32), &content)?;
        }
        Ok(())
    }

    /// Each commit changes a line of one of 9 600 files, and every sixtieth one of 40 pictures.
    fn add_long_history(&mut self) -> std::io::Result<()> {
        const COMMITS: usize = 35_000;
        const LINES: usize = 120;
        let mut files: Vec<Vec<u64>> = Vec::new();
        self.first_commit()?;
        for number in 1..COMMITS {
            let (directory, part, file) = (number % 40, number / 40 % 20, number / 800 % 12);
            let which = (number - 1) % 9600;
            if which == files.len() {
                files.push((0..LINES).map(|_| self.numbers.next()).collect());
            }
            let line = self.numbers.next();
            files[which][line as usize % LINES] = line;
            let text: String = files[which].iter().map(|line| format!("line {line}\n")).collect();
            self.commit()?;
            self.file(&format!("d{directory}/s{part}/f{file}.txt"), text.as_bytes())?;
            if number % 60 == 0 {
                let picture = self.binary(960 * 1024);
                self.file(&format!("pictures/{}.bin", number / 60 % 40), &picture)?;
            }
        }
        Ok(())
    }

    fn add_refs(&mut self, name: impl Fn(usize) -> Option<String>) -> std::io::Result<()> {
        self.first_commit()?;
        for number in 0..20_000 {
            self.commit()?;
            self.file("counter", format!("{number}\n").as_bytes())?;
            if let Some(name) = name(number) {
                write!(self.out, "\nreset {name}\nfrom refs/heads/main\n\n")?;
            }
        }
        Ok(())
    }
}

/// Numbers without a pattern, the same ones in every run (xorshift).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
