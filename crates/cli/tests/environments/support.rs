//! Words that the tests of environments share.

use palisade_testing::{Instance, Outcome};
use std::path::{Path, PathBuf};

pub(crate) const RUBY: &str = "name = \"ruby\"\ndescription = \"Ruby, as far as this test needs it\"\nroot = \"host\"\n\
                               requires = [\"sh\"]\ncommand = \"/bin/sh\"\nargs = [\"-c\", \"echo ruby in $(pwd)\"]\n";

/// A plugin of the user's.
pub(crate) fn plugin(instance: &Instance, name: &str, text: &str) -> PathBuf {
    write(&instance.user_config().with_file_name("environments").join(format!("{name}.toml")), text)
}

/// A plugin of the project in which the commands run.
pub(crate) fn project_plugin(instance: &Instance, name: &str, text: &str) -> PathBuf {
    write(&instance.work().join(format!(".palisade/environments/{name}.toml")), text)
}

pub(crate) fn user_config(instance: &Instance, text: &str) {
    write(&instance.user_config(), text);
}

fn write(path: &Path, text: &str) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
    path.to_owned()
}

/// Without the names of this test's own directories, and what is said of the machine's limits.
pub(crate) fn redacted(instance: &Instance, outcome: Outcome) -> Outcome {
    let redact = |text: String| {
        text.replace(instance.work().to_str().unwrap(), "WORK")
            .replace(instance.user_config().parent().unwrap().to_str().unwrap(), "CONFIG")
    };
    let stderr: String = outcome
        .stderr
        .split_inclusive('\n')
        .filter(|line| !line.starts_with("warning: the default limits") && !line.starts_with("(said once;"))
        .collect();
    Outcome { stdout: redact(outcome.stdout), stderr: redact(stderr), code: outcome.code }
}

pub(crate) fn outcome(stdout: &str, stderr: &str, code: i32) -> Outcome {
    Outcome { stdout: stdout.into(), stderr: stderr.into(), code }
}
