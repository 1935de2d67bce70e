//! What every room on the host needs of the operating system: processes by identity, and careful file work in
//! directories whose contents a sandbox wrote, or may write.

pub mod beneath;
pub mod descriptors;
pub mod digest;
pub mod fault;
pub mod fence;
pub mod marked;
pub mod memory;
pub mod object_store;
pub mod process;
pub mod program;
pub mod signals;
pub mod stamp;
pub mod tree;
