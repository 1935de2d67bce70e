//! Which trace and which span: W3C Trace Context, as it travels in `TRACEPARENT`.

use std::fmt;
use std::str::FromStr;

/// Never all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct TraceId(pub(crate) [u8; 16]);

/// Never all zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SpanId(pub(crate) [u8; 8]);

/// A span that others can be children of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TraceContext {
    pub(crate) trace: TraceId,
    pub(crate) span: SpanId,
    pub(crate) sampled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not of the form 00-<32 hex digits>-<16 hex digits>-<2 hex digits>")]
pub(crate) struct NotATraceparent;

impl TraceId {
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        random().map(Self)
    }
}

impl SpanId {
    pub(crate) fn random() -> Result<Self, getrandom::Error> {
        random().map(Self)
    }
}

fn random<const N: usize>() -> Result<[u8; N], getrandom::Error> {
    let mut bytes = [0; N];
    while bytes == [0; N] {
        getrandom::fill(&mut bytes)?;
    }
    Ok(bytes)
}

impl FromStr for TraceContext {
    type Err = NotATraceparent;

    /// A later version may append more fields; what this one knows is read all the same.
    fn from_str(text: &str) -> Result<Self, NotATraceparent> {
        let mut parts = text.trim().split('-');
        let mut part = || parts.next().ok_or(NotATraceparent);
        let [version] = bytes(part()?)?;
        let (trace, span) = (bytes(part()?)?, bytes(part()?)?);
        let [flags] = bytes(part()?)?;
        let more = parts.next().is_some();
        if version == 0xff || (version == 0 && more) || trace == [0; 16] || span == [0; 8] {
            return Err(NotATraceparent);
        }
        Ok(Self { trace: TraceId(trace), span: SpanId(span), sampled: flags & 1 == 1 })
    }
}

/// Lower-case hex digits, exactly as many as are needed.
fn bytes<const N: usize>(text: &str) -> Result<[u8; N], NotATraceparent> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(NotATraceparent),
    };
    if text.len() != 2 * N {
        return Err(NotATraceparent);
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Ok(bytes)
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_reads_back_as_it_was_written() {
        let context: TraceContext = EXAMPLE.parse().unwrap();
        assert_eq!(context.to_string(), EXAMPLE);
        let unsampled = EXAMPLE.replace("-01", "-00").parse::<TraceContext>().unwrap();
        assert_eq!((context.sampled, unsampled.sampled), (true, false));
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        let later = EXAMPLE.replacen("00", "cc", 1) + "-what-comes";
        assert_eq!(later.parse::<TraceContext>(), EXAMPLE.parse());
    }

    #[test]
    fn what_is_no_traceparent_is_refused() {
        let zeros = "0".repeat(32);
        for bad in [
            "",
            "00",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            &format!("00-{zeros}-b7ad6b7169203331-01"),
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319é-b7ad6b7169203331-01",
        ] {
            assert_eq!(bad.parse::<TraceContext>(), Err(NotATraceparent), "{bad}");
        }
    }
}
