//! The environment variables that are settings. The program reads them in one place and hands them over; this
//! crate only knows their names.

/// The isolation method. Set but empty is an error, not "unset".
pub const SANDBOX_METHOD: &str = "SANDBOX_METHOD";
/// How far a sandbox reaches into the network: `none`, `allowlist`, `open`.
pub const PALISADE_NETWORK: &str = "PALISADE_NETWORK";
/// The image of sandboxes without an environment.
pub const PALISADE_IMAGE: &str = "PALISADE_IMAGE";
/// The memory limit, such as `8G`.
pub const PALISADE_MEMORY: &str = "PALISADE_MEMORY";
/// The processor limit, such as `4` or `0.5`.
pub const PALISADE_CPUS: &str = "PALISADE_CPUS";
/// The limit on processes and threads.
pub const PALISADE_PIDS: &str = "PALISADE_PIDS";
/// The least severe log level that is written.
pub const PALISADE_LOG: &str = "PALISADE_LOG";
/// The form of log lines: `text`, `json`.
pub const PALISADE_LOG_FORMAT: &str = "PALISADE_LOG_FORMAT";

/// All of the above: what a caller collects into `Sources::environment`.
pub const ALL: [&str; 8] = [
    SANDBOX_METHOD,
    PALISADE_IMAGE,
    PALISADE_NETWORK,
    PALISADE_MEMORY,
    PALISADE_CPUS,
    PALISADE_PIDS,
    PALISADE_LOG,
    PALISADE_LOG_FORMAT,
];
