//! What was said on the command line about a sandbox that exists already and was made otherwise.

use palisade_core::{Method, Policy};

/// An option about what a sandbox may see and use, which counts when one is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Given {
    Method,
    Network,
    Allow,
    HostPorts,
    Memory,
    Cpus,
    Pids,
    Tmp,
    Opt,
    Tools,
    Mounts,
}

impl Given {
    pub fn flag(self) -> &'static str {
        match self {
            Given::Method => "--method",
            Given::Network => "--network",
            Given::Allow => "--allow",
            Given::HostPorts => "--host-port",
            Given::Memory => "--memory",
            Given::Cpus => "--cpus",
            Given::Pids => "--pids",
            Given::Tmp => "--tmp",
            Given::Opt => "--opt",
            Given::Tools => "--tool",
            Given::Mounts => "--mount",
        }
    }

    /// Whether the sandbox has what was asked for all the same.
    fn holds(self, wanted: (Method, &Policy), made_with: (Method, &Policy)) -> bool {
        fn within<T: PartialEq>(wanted: &[T], made_with: &[T]) -> bool {
            wanted.iter().all(|element| made_with.contains(element))
        }
        let ((method, wanted), (made_by, made_with)) = (wanted, made_with);
        let (limits, made_limits) = (&wanted.resources, &made_with.resources);
        match self {
            Given::Method => method == made_by,
            Given::Network => wanted.network == made_with.network,
            Given::Allow => within(&wanted.allow, &made_with.allow),
            Given::HostPorts => within(&wanted.host_ports, &made_with.host_ports),
            Given::Memory => limits.memory.value == made_limits.memory.value,
            Given::Cpus => limits.cpus.value == made_limits.cpus.value,
            Given::Pids => limits.pids.value == made_limits.pids.value,
            Given::Tmp => limits.tmp == made_limits.tmp,
            Given::Opt => wanted.opt == made_with.opt,
            Given::Tools => within(&wanted.tools, &made_with.tools),
            Given::Mounts => within(&wanted.mounts, &made_with.mounts),
        }
    }
}

/// The options that have no effect on a sandbox that was made with another policy.
pub(crate) fn without_effect(
    given: &[Given],
    wanted: (Method, &Policy),
    made_with: (Method, &Policy),
) -> Vec<&'static str> {
    let idle = given.iter().filter(|option| !option.holds(wanted, made_with));
    idle.map(|option| option.flag()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_core::Network;

    #[test]
    fn only_options_that_were_given_and_differ_are_told() {
        let made_with = Policy {
            network: Network::Allowlist,
            allow: vec!["a.example".parse().unwrap(), "b.example".parse().unwrap()],
            ..Policy::default()
        };
        let wanted = Policy {
            network: Network::Open,
            allow: vec!["b.example".parse().unwrap()],
            host_ports: vec!["80".parse().unwrap()],
            ..Policy::default()
        };
        let told =
            |given: &[Given]| without_effect(given, (Method::Bwrap, &wanted), (Method::Noop, &made_with));
        assert_eq!(told(&[]), Vec::<&str>::new());
        assert_eq!(told(&[Given::Allow, Given::Memory, Given::Opt]), Vec::<&str>::new());
        assert_eq!(
            told(&[Given::Method, Given::Network, Given::Allow, Given::HostPorts]),
            ["--method", "--network", "--host-port"]
        );
    }
}
