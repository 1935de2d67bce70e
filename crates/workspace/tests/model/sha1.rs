//! Git's names of contents, without a process for each look.

/// The id of a blob.
pub(crate) fn blob_id(content: &[u8]) -> String {
    let mut data = format!("blob {}\0", content.len()).into_bytes();
    data.extend_from_slice(content);
    hex(&digest(data))
}

fn hex(words: &[u32; 5]) -> String {
    words.iter().map(|word| format!("{word:08x}")).collect()
}

fn digest(mut data: Vec<u8>) -> [u32; 5] {
    let bits = data.len() as u64 * 8;
    data.push(0x80);
    while data.len() % 64 != 56 {
        data.push(0);
    }
    data.extend(bits.to_be_bytes());
    let mut state: [u32; 5] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in data.chunks_exact(64) {
        let mut words = [0u32; 80];
        for (word, bytes) in words.iter_mut().zip(block.chunks_exact(4)) {
            *word = bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte));
        }
        for at in 16..80 {
            words[at] = (words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1);
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (at, word) in words.iter().enumerate() {
            let (mixed, constant) = match at {
                0..20 => ((b & c) | (!b & d), 0x5a82_7999),
                20..40 => (b ^ c ^ d, 0x6ed9_eba1),
                40..60 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6u32),
            };
            let next = a.rotate_left(5).wrapping_add(mixed).wrapping_add(e);
            let next = next.wrapping_add(constant).wrapping_add(*word);
            (a, b, c, d, e) = (next, a, b.rotate_left(30), c, d);
        }
        for (sum, value) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(value);
        }
    }
    state
}

#[test]
fn blobs_have_the_ids_that_git_gives_them() {
    assert_eq!(blob_id(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
    assert_eq!(blob_id(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
    let long = b"0123456789".repeat(20);
    assert_eq!(blob_id(&long), git_id(&long));
}

#[cfg(test)]
fn git_id(content: &[u8]) -> String {
    use std::io::Write;
    let mut command = std::process::Command::new("git");
    command.args(["hash-object", "--stdin"]).current_dir("/");
    command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(content).unwrap();
    String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap().trim().to_owned()
}
