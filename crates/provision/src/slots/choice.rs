//! Which number a new slot gets: the first for which every port is free and nobody's.

use super::record::SlotRecord;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// More sandboxes of one project than a machine carries.
pub const MOST_SLOTS: u16 = 200;

/// How many numbers a refusal tells about.
const TOLD: usize = 3;

/// From 1; 0 would be the project's own ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct SlotNumber(pub(super) u16);

impl SlotNumber {
    pub fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for SlotNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The ports that slots have claimed, whether somebody listens on them yet or not.
#[derive(Debug, Default)]
pub(super) struct Taken {
    ports: HashMap<u16, String>,
}

impl Taken {
    pub(super) fn claim(&mut self, record: &SlotRecord) {
        for port in record.ports.values() {
            self.ports.insert(*port, record.name());
        }
    }
}

/// The number and its ports, or why the first numbers did not do.
pub(super) fn choose(
    bases: &BTreeMap<String, u16>,
    taken: &Taken,
    exists: impl Fn(SlotNumber) -> bool,
    is_free: impl Fn(u16) -> bool,
) -> Result<(SlotNumber, BTreeMap<String, u16>), Vec<String>> {
    let mut reasons = Vec::new();
    for number in (1..=MOST_SLOTS).map(SlotNumber) {
        if exists(number) {
            continue;
        }
        match ports(bases, number, taken, &is_free) {
            Ok(ports) => return Ok((number, ports)),
            Err(reason) => reasons.push(format!("slot {number}: {reason}")),
        }
    }
    let more = reasons.len().saturating_sub(TOLD);
    reasons.truncate(TOLD);
    if more > 0 {
        reasons.push(format!("and {more} more"));
    }
    if reasons.is_empty() {
        reasons.push(format!("all {MOST_SLOTS} are in use"));
    }
    Err(reasons)
}

pub(super) fn ports(
    bases: &BTreeMap<String, u16>,
    number: SlotNumber,
    taken: &Taken,
    is_free: impl Fn(u16) -> bool,
) -> Result<BTreeMap<String, u16>, String> {
    let mut ports = BTreeMap::new();
    for (variable, base) in bases {
        let port = base.checked_add(number.0).ok_or_else(|| format!("{variable} would be above 65535"))?;
        if let Some(slot) = taken.ports.get(&port) {
            return Err(format!("{variable} {port} belongs to {slot}"));
        }
        if !is_free(port) {
            return Err(format!("{variable} {port} is in use"));
        }
        ports.insert(variable.clone(), port);
    }
    Ok(ports)
}
