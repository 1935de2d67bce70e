//! The headers in a stream that a fuzzer made: their checksums, which no fuzzer guesses, and what they would unpack to.

use tar::Header;

const BLOCK: usize = 512;
const CHECKSUM: std::ops::Range<usize> = 148..156;

/// Writes the right checksum into every header, as far as headers are found by the sizes they give.
pub(super) fn repair(bytes: &mut [u8]) {
    let mut at = 0_usize;
    while let Some(block) = bytes.get_mut(at..at.saturating_add(BLOCK)) {
        block[CHECKSUM].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        // A block of nothing is the end of an archive, and stays one.
        if sum == 8 * u32::from(b' ') {
            block[CHECKSUM].fill(0);
            at += BLOCK;
            continue;
        }
        block[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let size = Header::from_byte_slice(block).entry_size().unwrap_or(0);
        let blocks = usize::try_from(size.div_ceil(BLOCK as u64)).unwrap_or(usize::MAX);
        at = at.saturating_add(BLOCK).saturating_add(blocks.saturating_mul(BLOCK));
    }
}

/// Whether a sparse file in it may unpack to much more than was sent. The guest makes such files because the user's
/// own tree may have them; a fuzzer's would only fill the disk.
pub(super) fn swells(bytes: &[u8]) -> bool {
    const MOST: u64 = 1 << 20;
    let real_size =
        |block: &[u8]| Header::from_byte_slice(block).as_gnu().and_then(|gnu| gnu.real_size().ok());
    let sparse = |block: &&[u8]| block[156] == b'S';
    bytes.chunks_exact(BLOCK).filter(sparse).filter_map(real_size).any(|size| size > MOST)
}
