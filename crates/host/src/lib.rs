//! What every room on the host needs of the operating system: processes by identity, and careful file work in
//! directories whose contents a sandbox wrote, or may write.

pub mod as_owner;
pub mod beneath;
pub mod bound_path;
pub mod cgroup;
pub mod descriptors;
pub mod digest;
pub mod exact_read;
pub mod fault;
pub mod fence;
pub mod marked;
pub mod memory;
pub mod new_file;
pub mod object_store;
pub mod private_file;
pub mod process;
pub mod program;
pub mod self_running;
pub mod signals;
pub mod stamp;
pub mod tree;
pub mod user_namespace;
