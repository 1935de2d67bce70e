//! Which limits an engine enforces: asked for in the container's body, dropped by an engine that cannot, with a warning.
//! An asked limit that is dropped is an error; a default one is told.

use palisade_core::{BackendError, Enforcement, LimitSource, Method, Resources};

/// What the engine says it has set for a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InForce {
    pub memory: bool,
    pub cpus: bool,
    pub pids: bool,
}

impl InForce {
    /// From the engine's warnings about a container that it has made.
    pub fn after(warnings: &[String]) -> Self {
        let warned = |words: &[&str]| {
            warnings.iter().any(|warning| {
                let warning = warning.to_lowercase();
                let dropped =
                    ["not support", "discarded", "ignored"].iter().any(|word| warning.contains(word));
                dropped && words.iter().any(|word| warning.contains(word))
            })
        };
        let all = warned(&["resource limits"]);
        // Swap has words of its own: without its accounting the memory itself is limited all the same.
        let memory = warned(&["memory limit"]) && !warned(&["swap limit"]);
        Self {
            memory: !all && !memory,
            cpus: !all && !warned(&["cpu cfs", "cpu quota", "cpu cgroup"]),
            pids: !all && !warned(&["pids"]),
        }
    }

    fn rows(self, resources: &Resources) -> [(&'static str, String, LimitSource, bool); 3] {
        let Resources { memory, cpus, pids, .. } = resources;
        [
            ("memory", memory.value.to_string(), memory.source, self.memory),
            ("cpus", cpus.value.to_string(), cpus.source, self.cpus),
            ("pids", pids.value.to_string(), pids.source, self.pids),
        ]
    }

    /// For `inspect` and for whoever should hear of a default that does not hold.
    pub fn told(self, method: Method, resources: &Resources) -> Vec<Enforcement> {
        let row = |(limit, value, _, enforced): (&str, String, LimitSource, bool)| Enforcement {
            limit: limit.into(),
            value,
            enforced,
            how: if enforced { method.to_string() } else { cannot(method) },
        };
        self.rows(resources).into_iter().map(row).collect()
    }

    pub fn require(self, method: Method, resources: &Resources) -> Result<(), BackendError> {
        let missing = self
            .rows(resources)
            .into_iter()
            .find(|(_, _, source, enforced)| !enforced && *source == LimitSource::Asked);
        match missing {
            Some((limit, ..)) => Err(BackendError::Limit {
                limit: limit.into(),
                reason: cannot(method),
                fix: "let the engine use cgroups v2 with that controller, or leave the limit out".into(),
            }),
            None => Ok(()),
        }
    }
}

fn cannot(method: Method) -> String {
    format!("{method} cannot set it on this machine")
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_core::{ByteSize, Limit};

    const ALL: InForce = InForce { memory: true, cpus: true, pids: true };

    fn after(warnings: &[&str]) -> InForce {
        let warnings: Vec<String> = warnings.iter().map(|text| (*text).to_owned()).collect();
        InForce::after(&warnings)
    }

    #[test]
    fn an_engine_without_warnings_enforces_everything() {
        assert_eq!(after(&[]), ALL);
        assert_eq!(after(&["Published ports are discarded when using host network mode"]), ALL);
        let swap = "Your kernel does not support swap limit capabilities or the cgroup is not mounted. Memory \
                    limited without swap.";
        assert_eq!(after(&[swap]), ALL);
    }

    #[test]
    fn what_the_engine_drops_is_not_in_force() {
        let memory = "Your kernel does not support memory limit capabilities or the cgroup is not mounted. \
                      Limitation discarded.";
        assert_eq!(after(&[memory]), InForce { memory: false, ..ALL });
        let pids = "Your kernel does not support PIDs limit capabilities or the cgroup is not mounted. PIDs limit \
                    discarded.";
        assert_eq!(after(&[pids]), InForce { pids: false, ..ALL });
        let rootless = "Resource limits are not supported and ignored on cgroups V1 rootless systems";
        assert_eq!(after(&[rootless]), InForce::default());
    }

    #[test]
    fn an_asked_limit_that_is_dropped_is_an_error_and_a_default_one_is_told() {
        let mut resources = Resources::default();
        let none = InForce { memory: false, ..ALL };
        assert!(none.require(Method::Docker, &resources).is_ok());
        assert_eq!(
            none.told(Method::Docker, &resources)[0],
            Enforcement {
                limit: "memory".into(),
                value: "8G".into(),
                enforced: false,
                how: "docker cannot set it on this machine".into()
            }
        );
        resources.memory = Limit::asked(ByteSize(ByteSize::GIB));
        let error = none.require(Method::Docker, &resources).unwrap_err().to_string();
        assert_eq!(
            error,
            "the memory limit that was asked for cannot be enforced: docker cannot set it on this machine"
        );
    }
}
