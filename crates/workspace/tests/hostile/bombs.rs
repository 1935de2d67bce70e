//! Little that becomes much: the host neither lists nor writes nor computes more than it said it would.

use crate::assert_refs;
use crate::support::Scene;
use palisade_workspace::{CommitsOutcome, ExchangeError, GitError};
use std::io::Write;
use std::time::{Duration, Instant};

/// A commit whose tree names one file a thousand million times, on a branch of its own.
const TREE: &str = "
    tree=$(echo x | git hash-object -w --stdin); kind='100644 blob'
    for level in 1 2 3 4 5 6; do
        tree=$(for name in $(seq 64); do printf '%s %s\\t%s\\n' \"$kind\" $tree $name; done | git mktree); kind='040000 tree'
    done
    git update-ref refs/heads/bomb $(git commit-tree $tree -p HEAD -m bomb)";

#[tokio::test]
async fn a_tree_of_a_thousand_million_files_is_given_up_before_it_is_listed() {
    let mut scene = Scene::new();
    scene.start().await;
    scene.inside(TREE);
    let plain = scene.plain(
        "git fetch -q ../inside bomb; git ls-tree -r --full-tree FETCH_HEAD | head -c 70000000 | wc -c",
    );
    assert_eq!(plain.trim(), "70000000", "the control");

    // In the branch that is checked out.
    let (bomb, workspace) = (scene.inside("git rev-parse bomb"), scene.workspace());
    let branch = ["repository", "", "main", "ref", "refs/heads/main", &bomb];
    scene.forge_survey(&[&branch[..], &["tree", &workspace, "main", &bomb, "", "", ""]].concat());
    let error = scene.sync_with(|_| {}).await.unwrap_err();
    assert!(matches!(error, ExchangeError::Git(GitError::TooMuch { .. })), "{error}");
    assert_eq!(scene.host("git status --porcelain; git log --format=%s"), "first");
    assert_refs(&scene, &["refs/heads/main"]);

    // In another branch, beside work that is to come.
    scene.restore_inside();
    scene.inside("echo sane > code && git commit -qam sane && git branch good");
    let error = scene.sync_with(|_| {}).await.unwrap_err();
    assert!(matches!(error, ExchangeError::Git(GitError::TooMuch { .. })), "{error}");
    assert_eq!(
        scene.host("git status --porcelain; git log --format=%s"),
        "sane\nfirst",
        "the working tree is whole"
    );
    assert_refs(&scene, &["refs/heads/main"]);
    assert_ne!(scene.host(&format!("git rev-parse {}", scene.archive_ref(1))), "", "it is archived");

    scene.inside("git branch -D -q bomb");
    assert!(scene.sync().await.branch("good").is_some());
}

#[tokio::test]
async fn uncommitted_files_without_number_are_given_up_before_they_are_listed() {
    let mut scene = Scene::new();
    scene.start().await;
    scene.inside(&format!("{TREE}; git checkout -q -b good; echo good > good; git add good; git commit -qm good; git checkout -q main"));
    let (main, bomb, tree) = (
        scene.inside("git rev-parse main"),
        scene.inside("git rev-parse bomb"),
        scene.inside("git rev-parse bomb^{tree}"),
    );
    let (good, workspace) = (scene.inside("git rev-parse good"), scene.workspace());
    scene.forge_survey(
        &[
            &["repository", "", "main", "ref", "refs/heads/main", &main, "ref", "refs/heads/good", &good][..],
            &["tree", &workspace, "main", &main, &bomb, &tree, ""],
        ]
        .concat(),
    );
    let error = scene.sync_with(|_| {}).await.unwrap_err();
    assert!(matches!(error, ExchangeError::Git(GitError::TooMuch { .. })), "{error}");
    assert_refs(&scene, &["refs/heads/main"]);
    let parents = scene.host(&format!("git log -1 --format=%P {}", scene.archive_ref(1)));
    assert!(parents.contains(&good), "the rest is archived: {parents}");
    assert_eq!(scene.host("git status --porcelain"), "");
}

#[tokio::test]
async fn files_that_are_large_in_the_tree_and_small_in_a_pack_are_weighed_first() {
    for commit in ["git add -A && git commit -qm zeros", "true"] {
        let mut scene = Scene::new();
        scene.most = 1 << 20;
        scene.start().await;
        scene.inside(&format!("truncate -s 4M zeros && {commit}"));
        scene.plain("cp ../inside/zeros .; wc -c < zeros > ../plain-size");
        assert_eq!(scene.read("plain-size").trim(), "4194304", "the control");

        let error = scene.sync_with(|_| {}).await.unwrap_err();
        let too_large =
            matches!(error, ExchangeError::Git(GitError::TooLarge { bytes: 4_194_304, most: 1_048_576 }));
        assert!(too_large, "{error}");
        assert_eq!(
            scene.host("git status --porcelain; git log --format=%s; ls .git | grep -e lock -e stage"),
            "first\npalisade.lock"
        );
        scene.most = 8 << 20;
        scene.sync().await;
        assert_eq!(scene.host("wc -c < zeros"), "4194304");
    }
}

/// A pack, byte by byte.
struct Pack {
    bytes: Vec<u8>,
    count: u32,
}

const BLOB: u8 = 3;
const OFS_DELTA: u8 = 6;

impl Pack {
    fn new() -> Self {
        Self { bytes: b"PACK\0\0\0\x02\0\0\0\0".to_vec(), count: 0 }
    }

    /// Adds an object, or a delta against one that begins elsewhere in the pack; where it begins.
    fn add(&mut self, kind: u8, base: Option<usize>, content: &[u8]) -> usize {
        let at = self.bytes.len();
        self.count += 1;
        let mut size = content.len();
        let mut byte = (kind << 4) | (size & 15) as u8;
        size >>= 4;
        while size > 0 {
            self.bytes.push(byte | 128);
            byte = (size & 127) as u8;
            size >>= 7;
        }
        self.bytes.push(byte);
        if let Some(base) = base {
            let mut distance = at - base;
            let mut digits = vec![(distance & 127) as u8];
            while distance >> 7 > 0 {
                distance = (distance >> 7) - 1;
                digits.push((distance & 127) as u8 | 128);
            }
            self.bytes.extend(digits.iter().rev());
        }
        self.bytes.extend(stored(content));
        at
    }

    /// Adds what a base becomes when `part` of it is taken so many times, and `end` behind it.
    fn grow(&mut self, base: (usize, usize), part: usize, times: usize, end: &[u8]) -> (usize, usize) {
        let size = part * times + end.len();
        let mut delta = [number(base.1), number(size)].concat();
        for _ in 0..times {
            let bytes = u32::try_from(part).unwrap().to_le_bytes();
            delta.extend([0b1111_0000, bytes[0], bytes[1], bytes[2]]);
        }
        if !end.is_empty() {
            delta.push(u8::try_from(end.len()).unwrap());
            delta.extend(end);
        }
        (self.add(OFS_DELTA, Some(base.0), &delta), size)
    }

    /// Writes it, with the checksum at its end.
    fn write(mut self, scene: &Scene, name: &str) {
        self.bytes[8..12].copy_from_slice(&self.count.to_be_bytes());
        let path = scene.path(name);
        std::fs::File::create(&path).unwrap().write_all(&self.bytes).unwrap();
        let checksum = scene.host(&format!("sha1sum ../{name} | cut -d' ' -f1"));
        let checksum = (0..20).map(|at| u8::from_str_radix(&checksum[2 * at..2 * at + 2], 16).unwrap());
        self.bytes.extend(checksum);
        std::fs::write(path, self.bytes).unwrap();
    }
}

/// A size, seven bits at a time.
fn number(mut size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while size > 127 {
        bytes.push((size & 127) as u8 | 128);
        size >>= 7;
    }
    bytes.push(size as u8);
    bytes
}

/// As zlib writes what it does not compress.
fn stored(content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x78, 0x01];
    let chunks = content.chunks(65535).collect::<Vec<_>>();
    for (number, chunk) in chunks.iter().enumerate() {
        let length = u16::try_from(chunk.len()).unwrap();
        bytes.push(u8::from(number + 1 == chunks.len()));
        bytes.extend(length.to_le_bytes());
        bytes.extend((!length).to_le_bytes());
        bytes.extend_from_slice(chunk);
    }
    let (mut low, mut high) = (1u32, 0u32);
    for byte in content {
        low = (low + u32::from(*byte)) % 65521;
        high = (high + low) % 65521;
    }
    bytes.extend(((high << 16) | low).to_be_bytes());
    bytes
}

/// A sandbox whose git answers with a pack of ours.
async fn with_pack(pack: Pack) -> Scene {
    let mut scene = Scene::new();
    scene.start().await;
    scene.inside("echo work > code && git commit -qam work");
    pack.write(&scene, "inside-home/pack");
    scene.replace_inside_git("pack-objects", "exec cat ../inside-home/pack");
    scene
}

#[tokio::test]
async fn a_file_that_a_few_bytes_make_larger_than_memory_is_left_out() {
    let mut pack = Pack::new();
    let small = (pack.add(BLOB, None, &[0; 65535]), 65535);
    let middle = pack.grow(small, 65535, 256, b"");
    pack.grow(middle, 65535 * 256, 300, b"");
    let size = pack.bytes.len();
    let scene = with_pack(pack).await;
    let plain = scene.plain("head -c 65535 /dev/zero > x; git index-pack -v --stdin < ../inside-home/pack & pid=$!; while kill -0 $pid 2>/dev/null && [ $(awk '/VmSize/ { print $2 }' /proc/$pid/status) -lt 4500000 ]; do :; done; kill $pid && echo large");
    assert!(plain.contains("large") && size < 100_000, "the control: {plain}");

    let synced = scene.sync().await;
    let [refused] = synced.0.archived.main.refused.as_slice() else { panic!("{synced:?}") };
    assert_eq!(refused.reason, "an object takes more memory than git may have");
    assert_refs(&scene, &["refs/heads/main"]);
}

/// Each object is no larger than others, and a hundred thousand of them are made from each other.
#[tokio::test]
async fn a_pack_that_takes_git_more_than_its_time_is_given_up() {
    let mut pack = Pack::new();
    let small = (pack.add(BLOB, None, &[0; 65535]), 65535);
    let mut last = pack.grow(small, 65535, 255, b"");
    for number in 0..2000u16 {
        last = pack.grow((last.0, last.1), 65535 * 255, 1, &number.to_be_bytes());
    }
    let mut scene = with_pack(pack).await;
    let plain = scene.plain("timeout 2 git index-pack --stdin < ../inside-home/pack || echo $?");
    assert!(plain.contains("124"), "the control: {plain}");

    scene.limits.time = Duration::from_secs(2);
    let began = Instant::now();
    let error = scene.sync_with(|_| {}).await.unwrap_err();
    assert!(matches!(error, ExchangeError::Git(GitError::Slow { .. })), "{error}");
    assert!(began.elapsed() < Duration::from_secs(15));
    assert_refs(&scene, &["refs/heads/main"]);
}

/// Many objects that are each below what one may take, and are all held at once.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn git_that_unpacks_has_a_limit_on_all_its_memory() {
    for (files, command) in [(1, "unpack-objects"), (120, "index-pack")] {
        let mut scene = Scene::new();
        scene.start().await;
        scene.inside(&format!(
            "for n in $(seq {files}); do echo $n > f$n; done; git add -A; git commit -qm work"
        ));
        // It has the limit once the first bytes have come.
        let place = scene.path("limit").display().to_string();
        scene.replace_host_git(&format!(
            "case $1 in {command}) head -c 12 > {place}-header; grep 'Max data size' /proc/self/limits > {place}; cat {place}-header - | git \"$@\"; exit;; \
             rev-list) grep 'Max data size' /proc/self/limits > {place}-other;; esac"
        ));
        assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
        let limit = |name: &str| scene.read(name).split_whitespace().nth(3).unwrap().to_owned();
        assert_eq!(limit("limit"), (4u64 << 30).to_string(), "{command}");
        assert_eq!(limit("limit-other"), "unlimited", "the control");
    }
}

/// So that a mistake in the forgery above is not taken for a protection.
#[tokio::test]
async fn a_pack_made_byte_by_byte_is_one_that_git_takes() {
    let mut pack = Pack::new();
    let small = (pack.add(BLOB, None, &[0; 65535]), 65535);
    let middle = pack.grow(small, 65535, 4, b"end");
    pack.grow(middle, 65535 * 4, 2, b"more");
    let scene = with_pack(pack).await;
    let plain = scene.plain("git unpack-objects < ../inside-home/pack; git count-objects; git fsck --strict");
    assert!(plain.contains("7 objects"), "{plain}");
    let synced = scene.sync().await;
    assert_eq!(synced.0.archived.main.refused.len(), 1, "it is not what was asked for");
}
