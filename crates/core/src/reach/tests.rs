use super::*;
use proptest::prelude::*;

fn rule(text: &str) -> AllowRule {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_rule_without_a_port_is_for_http_plain_and_encrypted() {
    assert_eq!(rule("example.org").ports(), [80, 443]);
    assert_eq!(rule("github.com:22").ports(), [22]);
    assert!(!rule("github.com").allows_port(22));
}

#[test]
fn names_have_one_form() {
    for (written, kept) in [
        ("Example.ORG", "example.org"),
        ("example.org.", "example.org"),
        ("*.Example.org:8443", "*.example.org:8443"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("_dmarc.example.org", "_dmarc.example.org"),
        ("registry", "registry"),
    ] {
        assert_eq!(rule(written).to_string(), kept);
    }
}

#[test]
fn addresses_are_listed_as_such_or_by_range() {
    for (written, kept) in [
        ("192.0.2.1", "192.0.2.1"),
        ("10.0.0.0/8:5432", "10.0.0.0/8:5432"),
        ("2001:db8::1", "2001:db8::1"),
        ("[2001:DB8::1]:443", "[2001:db8::1]:443"),
        ("[2001:db8::/32]:443", "[2001:db8::/32]:443"),
        ("0.0.0.0/0", "0.0.0.0/0"),
    ] {
        assert_eq!(rule(written).to_string(), kept);
    }
}

#[test]
fn what_is_no_host_is_refused_with_the_reason() {
    for (bad, part) in [
        ("", "empty"),
        ("example.org:", "the port"),
        ("example.org:0", "the port"),
        ("example.org:70000", "the port"),
        ("example.org:+80", "the port"),
        ("*", "'*' stands only"),
        ("a.*.org", "'*' stands only"),
        ("*example.org", "'*' stands only"),
        ("ex ample.org", "letters, digits"),
        ("example.org\0.evil.org", "letters, digits"),
        ("bücher.example", "xn--"),
        ("a..b", "a part between"),
        ("-a.org", "a part between"),
        ("a.org..", "a part between"),
        ("0x7f000001", "a number"),
        ("0x7f.1", "a number"),
        ("2130706433", "a number"),
        ("0177.0.0.01", "a number"),
        ("127.1", "a number"),
        ("10.0.0.0/33", "write addresses"),
        ("10.0.0.0/", "write addresses"),
        ("https://example.org", "the host alone"),
        ("[example.org]:80", "write addresses"),
        ("[::1", "write addresses"),
        ("localhost", "--host-port"),
        ("db.localhost:5432", "--host-port"),
        ("127.0.0.1:8080", "--host-port"),
        ("127.0.0.0/8", "--host-port"),
        ("0.0.0.0", "--host-port"),
        ("[::1]:80", "--host-port"),
        ("::", "--host-port"),
        ("::ffff:127.0.0.1", "--host-port"),
    ] {
        let error = bad.parse::<AllowRule>().map(|rule| rule.to_string()).unwrap_err().to_string();
        assert!(error.contains(part), "{bad:?}: {error}");
    }
}

#[test]
fn a_name_is_below_another_only_at_a_boundary() {
    let name = |text: &str| HostName::new(text).unwrap();
    let parent = name("example.org");
    assert!(name("a.example.org").is_below(&parent));
    assert!(name("a.b.example.org").is_below(&parent));
    for other in ["example.org", "badexample.org", "example.org.evil.net", "org"] {
        assert!(!name(other).is_below(&parent), "{other}");
    }
}

#[test]
fn ranges_contain_what_has_their_prefix() {
    let Target::Addresses(range) = *rule("10.1.0.0/16").target() else { panic!("a range") };
    assert!(range.contains("10.1.255.3".parse().unwrap()));
    assert!(!range.contains("10.2.0.1".parse().unwrap()));
    assert!(!range.contains("::ffff:10.1.0.1".parse().unwrap()));
    let Target::Addresses(all) = *rule("::/0").target() else { panic!("a range") };
    assert!(all.contains("2001:db8::1".parse().unwrap()));
}

#[test]
fn host_ports_have_one_or_two_numbers() {
    let port = |text: &str| text.parse::<HostPort>();
    assert_eq!(port("8080"), Ok(HostPort { inside: 8080, host: 8080 }));
    assert_eq!(port("80:8080"), Ok(HostPort { inside: 80, host: 8080 }));
    for bad in ["", "0", "x", "1:2:3", "80:", ":80", "65536", "-1", "127.0.0.1:80"] {
        assert!(matches!(port(bad), Err(InvalidRule::HostPort { .. })), "{bad:?}");
    }
    assert_eq!(port("1080"), Err(InvalidRule::Taken { port: 1080, by: "proxy" }));
    assert_eq!(port("53:5353"), Err(InvalidRule::Taken { port: 53, by: "name server" }));
    assert_eq!(port("5353:53"), Ok(HostPort { inside: 5353, host: 53 }));
}

proptest! {
    #[test]
    fn whatever_is_accepted_reads_back_the_same(text in "(\\*\\.)?[a-zA-Z0-9._:/\\[\\]-]{0,40}(:[0-9]{1,5})?") {
        if let Ok(rule) = text.parse::<AllowRule>() {
            prop_assert_eq!(rule.to_string().parse::<AllowRule>(), Ok(rule));
        }
    }

    #[test]
    fn a_name_is_never_something_that_resolvers_read_as_an_address(text in "[0-9a-fx.]{1,20}") {
        if let Ok(name) = HostName::new(&text) {
            let last = name.as_str().rsplit('.').next().unwrap();
            let hexadecimal = last.strip_prefix("0x").map(|rest| u128::from_str_radix(rest, 16).is_ok());
            prop_assert!(last.parse::<u128>().is_err() && hexadecimal != Some(true));
        }
    }

    #[test]
    fn names_outside_the_alphabet_are_never_taken(text in "\\PC{0,40}") {
        if let Ok(name) = HostName::new(&text) {
            prop_assert!(name.as_str().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b)));
        }
    }
}
