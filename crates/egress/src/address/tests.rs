use super::*;
use proptest::prelude::*;

fn of(text: &str) -> Kind {
    kind(text.parse().unwrap()).0
}

#[test]
fn every_special_block_has_its_kind_from_its_first_to_its_last_address() {
    for (from, to, expected) in [
        ("0.0.0.0", "0.255.255.255", Kind::Loopback),
        ("127.0.0.0", "127.255.255.255", Kind::Loopback),
        ("10.0.0.0", "10.255.255.255", Kind::Private),
        ("172.16.0.0", "172.31.255.255", Kind::Private),
        ("192.168.0.0", "192.168.255.255", Kind::Private),
        ("169.254.0.0", "169.254.255.255", Kind::LinkLocal),
        ("100.64.0.0", "100.127.255.255", Kind::CarrierNat),
        ("224.0.0.0", "239.255.255.255", Kind::Multicast),
        ("240.0.0.0", "255.255.255.255", Kind::Reserved),
        ("169.254.169.254", "169.254.169.254", Kind::Metadata),
        ("168.63.129.16", "168.63.129.16", Kind::Metadata),
        ("::", "::1", Kind::Loopback),
        ("::ffff:0.0.0.0", "::ffff:255.255.255.255", Kind::Embedded),
        ("64:ff9b::", "64:ff9b::ffff:ffff", Kind::Embedded),
        ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Kind::Embedded),
        ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Kind::Private),
        ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Kind::LinkLocal),
        ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Kind::Multicast),
        ("fd00:ec2::254", "fd00:ec2::254", Kind::Metadata),
    ] {
        assert_eq!((of(from), of(to)), (expected, expected), "{from} to {to}");
    }
}

#[test]
fn neighbours_of_special_blocks_are_public() {
    for address in [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2a00:1450::1",
    ] {
        assert_eq!(of(address), Kind::Public, "{address}");
    }
}

#[test]
fn an_address_of_this_machine_is_known_without_asking_anybody() {
    assert!(is_own(Ipv4Addr::LOCALHOST.into()));
    assert!(!is_own("1.1.1.1".parse().unwrap()));
}

proptest! {
    #[test]
    fn no_ipv6_address_that_carries_an_ipv4_one_is_public(bits in any::<u32>(), low in any::<u64>()) {
        let inside = Ipv4Addr::from_bits(bits);
        let [a, b, c, d] = inside.octets();
        let pair = |x: u8, y: u8| u16::from_be_bytes([x, y]);
        let mapped = IpAddr::V6(inside.to_ipv6_mapped());
        let nat64 = IpAddr::V6(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, pair(a, b), pair(c, d)));
        let six_to_four = IpAddr::V6(Ipv6Addr::from_bits(
            (0x2002u128 << 112) | (u128::from(bits) << 80) | u128::from(low),
        ));
        for address in [mapped, nat64, six_to_four] {
            prop_assert_ne!(kind(address).0, Kind::Public);
        }
    }

    #[test]
    fn public_means_public_to_the_standard_library_too(bits in any::<u32>()) {
        let address = Ipv4Addr::from_bits(bits);
        if kind(address.into()).0 == Kind::Public {
            prop_assert!(!(address.is_private() || address.is_loopback() || address.is_link_local()
                || address.is_multicast() || address.is_unspecified() || address.is_broadcast()
                || address.is_documentation()));
        }
    }
}
