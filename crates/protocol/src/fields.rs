//! The encoding of a message's fields: `tag (1) · length (4, big-endian) · bytes`, in any order, repeated for lists.
//! A reader skips tags it does not know, so that a newer peer may say more.

use crate::Violation;

#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn bytes(mut self, tag: u8, value: &[u8]) -> Self {
        self.bytes.push(tag);
        self.bytes.extend_from_slice(&(value.len() as u32).to_be_bytes());
        self.bytes.extend_from_slice(value);
        self
    }

    pub fn u8(self, tag: u8, value: u8) -> Self {
        self.bytes(tag, &[value])
    }

    pub fn u16(self, tag: u8, value: u16) -> Self {
        self.bytes(tag, &value.to_be_bytes())
    }

    pub fn u32(self, tag: u8, value: u32) -> Self {
        self.bytes(tag, &value.to_be_bytes())
    }

    /// A flag is present or absent.
    pub fn flag(self, tag: u8, value: bool) -> Self {
        if value { self.bytes(tag, &[]) } else { self }
    }

    pub fn list<T: AsRef<[u8]>>(self, tag: u8, values: &[T]) -> Self {
        values.iter().fold(self, |writer, value| writer.bytes(tag, value.as_ref()))
    }

    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// The fields of one message, checked for form when made.
#[derive(Debug)]
pub struct Reader<'a> {
    what: &'static str,
    fields: Vec<(u8, &'a [u8])>,
}

impl<'a> Reader<'a> {
    pub fn new(what: &'static str, mut bytes: &'a [u8]) -> Result<Self, Violation> {
        let mut fields = Vec::new();
        while let Some((&tag, rest)) = bytes.split_first() {
            let (len, rest) = rest.split_first_chunk::<4>().ok_or(Violation::Malformed(what))?;
            let len = u32::from_be_bytes(*len) as usize;
            let value = rest.get(..len).ok_or(Violation::Malformed(what))?;
            fields.push((tag, value));
            bytes = &rest[len..];
        }
        Ok(Self { what, fields })
    }

    pub fn optional(&self, tag: u8) -> Option<&'a [u8]> {
        self.fields.iter().find(|(found, _)| *found == tag).map(|(_, value)| *value)
    }

    pub fn required(&self, tag: u8) -> Result<&'a [u8], Violation> {
        self.optional(tag).ok_or(Violation::Malformed(self.what))
    }

    pub fn flag(&self, tag: u8) -> bool {
        self.optional(tag).is_some()
    }

    pub fn list(&self, tag: u8) -> Vec<Vec<u8>> {
        self.fields.iter().filter(|(found, _)| *found == tag).map(|(_, value)| value.to_vec()).collect()
    }

    pub fn array<const N: usize>(&self, tag: u8) -> Result<[u8; N], Violation> {
        self.required(tag)?.try_into().map_err(|_| Violation::Malformed(self.what))
    }

    pub fn u8(&self, tag: u8) -> Result<u8, Violation> {
        self.array::<1>(tag).map(|[byte]| byte)
    }

    pub fn u16(&self, tag: u8) -> Result<u16, Violation> {
        self.array(tag).map(u16::from_be_bytes)
    }

    pub fn u32(&self, tag: u8) -> Result<u32, Violation> {
        self.array(tag).map(u32::from_be_bytes)
    }

    pub fn text(&self, tag: u8) -> Result<String, Violation> {
        String::from_utf8(self.required(tag)?.to_vec()).map_err(|_| Violation::Malformed(self.what))
    }
}
