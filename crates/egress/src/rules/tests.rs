use super::*;
use proptest::prelude::*;

fn rules(mode: Network, allow: &[&str]) -> Rules {
    let allow = allow.iter().map(|text| text.parse().unwrap()).collect();
    let host_ports = vec!["8080:80".parse().unwrap()];
    Rules::of(&Policy { network: mode, allow, host_ports, ..Policy::default() }).unwrap()
}

fn listed(allow: &[&str]) -> Rules {
    rules(Network::Allowlist, allow)
}

fn name(text: &str) -> Destination {
    Destination::Name(HostName::new(text).unwrap())
}

#[test]
fn without_a_network_there_are_no_rules() {
    assert_eq!(Rules::of(&Policy::default()), None);
}

#[test]
fn only_listed_names_on_listed_ports_are_destinations() {
    let rules = listed(&["example.org", "*.example.net:8443", "github.com:22"]);
    for (host, port, expected) in [
        ("example.org", 443, Ok(name("example.org"))),
        ("EXAMPLE.org.", 80, Ok(name("example.org"))),
        ("example.org", 22, Err(Reason::PortNotListed)),
        ("a.example.net", 8443, Ok(name("a.example.net"))),
        ("a.example.net", 443, Err(Reason::PortNotListed)),
        ("example.net", 8443, Err(Reason::NotListed)),
        ("github.com", 22, Ok(name("github.com"))),
        ("github.com", 0, Err(Reason::PortNotListed)),
    ] {
        assert_eq!(rules.destination(host, port), expected, "{host}:{port}");
    }
}

#[test]
fn the_list_is_not_fooled_by_how_a_name_is_written() {
    let rules = listed(&["example.org", "*.example.net"]);
    for (host, reason) in [
        ("badexample.org", Reason::NotListed),
        ("example.org.evil.com", Reason::NotListed),
        ("badexample.net", Reason::NotListed),
        ("example.org..", Reason::NotAName),
        ("example.org\0.evil.com", Reason::NotAName),
        ("example.org@evil.com", Reason::NotAName),
        ("example.org/..", Reason::NotAName),
        ("example.org%00", Reason::NotAName),
        (" example.org", Reason::NotAName),
        ("exаmple.org", Reason::NotAName),
        (".example.net", Reason::NotAName),
        ("*.example.net", Reason::NotAName),
        ("", Reason::NotAName),
        ("localhost", Reason::Address(Kind::Loopback)),
        ("x.LOCALHOST.", Reason::Address(Kind::Loopback)),
        ("127.0.0.1", Reason::Address(Kind::Loopback)),
        ("0.0.0.0", Reason::Address(Kind::Loopback)),
        ("[::1]", Reason::Address(Kind::Loopback)),
        ("::ffff:127.0.0.1", Reason::Address(Kind::Embedded)),
        ("2130706433", Reason::NotAName),
        ("0x7f000001", Reason::NotAName),
        ("0177.0.0.1", Reason::NotAName),
        ("127.1", Reason::NotAName),
        ("169.254.169.254", Reason::Address(Kind::Metadata)),
        ("10.0.0.1", Reason::Address(Kind::Private)),
        ("1.1.1.1", Reason::NotListed),
        ("fe80::1%eth0", Reason::NotAName),
    ] {
        assert_eq!(rules.destination(host, 443), Err(reason), "{host:?}");
        assert!(rules.name(host).is_err(), "{host:?}");
    }
}

#[test]
fn open_reaches_every_public_name_and_address_and_nothing_else() {
    let rules = rules(Network::Open, &["registry:5000", "10.1.0.0/16:5432"]);
    let public = "1.1.1.1".parse().unwrap();
    assert_eq!(rules.destination("any.example.com", 12345), Ok(name("any.example.com")));
    assert_eq!(rules.destination("1.1.1.1", 53), Ok(Destination::Address(public)));
    assert_eq!(rules.name("any.example.com"), Ok(HostName::new("any.example.com").unwrap()));
    for (host, port, reason) in [
        ("printer", 80, Reason::NotPublic),
        ("localhost", 80, Reason::Address(Kind::Loopback)),
        ("192.168.1.1", 80, Reason::Address(Kind::Private)),
        ("10.1.2.3", 80, Reason::Address(Kind::Private)),
        ("10.2.2.3", 5432, Reason::Address(Kind::Private)),
        ("169.254.169.254", 80, Reason::Address(Kind::Metadata)),
        ("fd00:ec2::254", 80, Reason::Address(Kind::Metadata)),
        ("64:ff9b::7f00:1", 80, Reason::Address(Kind::Embedded)),
        ("100.64.0.1", 80, Reason::Address(Kind::CarrierNat)),
        ("224.0.0.1", 80, Reason::Address(Kind::Multicast)),
    ] {
        assert_eq!(rules.destination(host, port), Err(reason), "{host}:{port}");
    }
    assert_eq!(rules.destination("registry", 5000), Ok(name("registry")));
    assert_eq!(rules.destination("10.1.2.3", 5432), Ok(Destination::Address("10.1.2.3".parse().unwrap())));
}

#[test]
fn a_listed_name_does_not_open_the_private_address_it_resolves_to() {
    let address = |rules: &Rules, text: &str| rules.address(text.parse().unwrap(), 443, IsOwn::No);
    let names = listed(&["rebind.example.org"]);
    assert_eq!(address(&names, "192.168.0.1"), Err(Reason::Address(Kind::Private)));
    assert_eq!(address(&names, "127.0.0.1"), Err(Reason::Address(Kind::Loopback)));
    assert_eq!(address(&names, "93.184.215.14"), Ok(()));
    let both = listed(&["registry.corp", "192.168.0.0/16", "169.254.169.254"]);
    assert_eq!(address(&both, "192.168.0.1"), Ok(()));
    assert_eq!(address(&both, "169.254.169.254"), Ok(()));
    assert_eq!(address(&both, "169.254.170.2"), Err(Reason::Address(Kind::Metadata)));
}

#[test]
fn a_range_wider_than_a_special_block_does_not_list_it() {
    let wide = listed(&["0.0.0.0/0", "::/0"]);
    for (text, kind) in [
        ("127.0.0.1", Kind::Loopback),
        ("10.0.0.1", Kind::Private),
        ("169.254.169.254", Kind::Metadata),
        ("::1", Kind::Loopback),
        ("fd00::1", Kind::Private),
    ] {
        assert_eq!(wide.destination(text, 80), Err(Reason::Address(kind)), "{text}");
    }
    assert!(wide.destination("1.1.1.1", 80).is_ok());
    // Not even the narrowest range that can be written lists the loopback.
    assert_eq!(listed(&["0.0.0.0/7"]).destination("0.0.0.1", 80), Err(Reason::Address(Kind::Loopback)));
}

#[test]
fn an_address_of_this_machine_must_be_listed_by_itself() {
    let own = "93.184.215.14".parse().unwrap();
    let open = rules(Network::Open, &["93.184.215.0/24"]);
    assert_eq!(open.address(own, 443, IsOwn::Yes), Err(Reason::Address(Kind::OwnHost)));
    assert_eq!(open.address(own, 443, IsOwn::No), Ok(()));
    assert_eq!(listed(&["93.184.215.14"]).address(own, 443, IsOwn::Yes), Ok(()));
}

#[test]
fn host_ports_lead_only_where_they_are_listed() {
    let rules = listed(&[]);
    assert_eq!(rules.host_port(8080), Ok(80));
    assert_eq!(rules.host_port(80), Err(Reason::HostPortNotListed));
}

#[test]
fn the_guest_listens_where_names_can_be_called_and_nowhere_else() {
    let expected = |ports: &[u16]| EgressRequest { ports: ports.into(), host_ports: vec![8080], proxy: 1080 };
    assert_eq!(listed(&[]).request(), expected(&[]));
    assert_eq!(listed(&["a.org", "b.org:22", "10.0.0.0/8:5432"]).request(), expected(&[22, 80, 443]));
    assert_eq!(rules(Network::Open, &["a.org:81"]).request(), expected(&[22, 80, 81, 443, 9418]));
}

proptest! {
    #[test]
    fn whatever_is_asked_for_only_names_on_the_list_are_destinations(host in "[a-zA-Z0-9.*_@%:\\[\\]-]{0,30}(example\\.org)?\\.?") {
        let rules = listed(&["example.org", "*.example.org"]);
        if let Ok(destination) = rules.destination(&host, 443) {
            let Destination::Name(name) = destination else { return Err(TestCaseError::fail("an address")) };
            prop_assert!(name.as_str() == "example.org" || name.as_str().ends_with(".example.org"));
            let lower = host.to_ascii_lowercase();
            prop_assert_eq!(lower.trim_end_matches('.'), name.as_str());
        }
    }

    #[test]
    fn no_rule_whatever_opens_the_loopback(bits in any::<u32>(), prefix in 0u8..=32, port in 1u16..) {
        let base = std::net::Ipv4Addr::from_bits(bits);
        if let Ok(rule) = format!("{base}/{prefix}:{port}").parse::<AllowRule>() {
            let policy = Policy { network: Network::Open, allow: vec![rule], ..Policy::default() };
            let rules = Rules::of(&policy).unwrap();
            for own in ["127.0.0.1", "127.255.255.254", "0.0.0.0", "::1", "::"] {
                prop_assert!(rules.destination(own, port).is_err());
                prop_assert!(rules.address(own.parse().unwrap(), port, IsOwn::No).is_err());
            }
        }
    }
}
