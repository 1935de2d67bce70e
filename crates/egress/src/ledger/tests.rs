use super::*;

fn counts(ledger: &Ledger) -> Vec<(Outcome, String, Option<u16>, u64)> {
    let (entries, _) = ledger.entries();
    entries.into_iter().map(|entry| (entry.outcome, entry.host, entry.port, entry.count)).collect()
}

#[test]
fn the_same_decision_again_is_counted_and_not_listed_again() {
    let ledger = Ledger::default();
    for _ in 0..1000 {
        ledger.note(What::Connect, "evil.org", Some(443), None, Some(Reason::NotListed));
    }
    ledger.note(What::Connect, "example.org", Some(443), None, None);
    assert_eq!(
        counts(&ledger),
        [
            (Outcome::Refused, "evil.org".into(), Some(443), 1000),
            (Outcome::Allowed, "example.org".into(), Some(443), 1)
        ]
    );
}

#[test]
fn a_loop_over_ever_new_names_stays_within_bounds_and_every_decision_counts() {
    let ledger = Ledger::default();
    for number in 0..100_000 {
        ledger.note(What::Name, &format!("x{number}.org"), None, None, Some(Reason::NotListed));
    }
    ledger.note(What::Name, &"a".repeat(100_000), None, None, Some(Reason::NotAName));
    let (entries, version) = ledger.entries();
    assert!(entries.len() <= MOST_ENTRIES + 3, "{}", entries.len());
    assert!(entries.iter().all(|entry| entry.host.len() <= LONGEST_HOST));
    assert_eq!((entries.iter().map(|entry| entry.count).sum::<u64>(), version), (100_001, 100_001));
}

#[test]
fn entries_read_back_and_go_on_counting() {
    let ledger = Ledger::default();
    ledger.note(
        What::Connect,
        "h",
        Some(1),
        Some("10.0.0.1".parse().unwrap()),
        Some(Reason::Address(crate::Kind::Private)),
    );
    let text = serde_json::to_string(&ledger.entries().0).unwrap();
    let later = Ledger::with(serde_json::from_str(&text).unwrap());
    assert_eq!(later.entries().0, ledger.entries().0);
    later.note(What::Connect, "h", Some(1), None, Some(Reason::Address(crate::Kind::Private)));
    assert_eq!(counts(&later), [(Outcome::Refused, "h".into(), Some(1), 2)]);
}
