//! An address of its own for each name, in a part of 127/8 that nobody uses: by the address that a connection was
//! made to, it is known which name was meant.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

/// How many names are remembered. The one that was not asked for longest makes room.
const MOST: usize = 4096;
/// 127.64.0.0/10.
const FIRST: u32 = 0x7f40_0000;
const SIZE: u32 = 1 << 22;

#[derive(Debug, Default)]
pub(crate) struct Names {
    by_name: HashMap<String, u32>,
    by_number: BTreeMap<u32, Known>,
    /// Numbers go round through all the addresses, so that one is not soon given to another name.
    next: u32,
    asked: u64,
}

#[derive(Debug)]
struct Known {
    name: String,
    asked: u64,
}

impl Names {
    /// The address of a name that has one already. Case does not count.
    pub(crate) fn known(&mut self, name: &str) -> Option<Ipv4Addr> {
        let number = *self.by_name.get(&name.to_ascii_lowercase())?;
        self.asked += 1;
        if let Some(known) = self.by_number.get_mut(&number) {
            known.asked = self.asked;
        }
        Some(address(number))
    }

    /// Gives a name its address.
    pub(crate) fn add(&mut self, name: &str) -> Ipv4Addr {
        if let Some(address) = self.known(name) {
            return address;
        }
        if self.by_number.len() >= MOST {
            let oldest =
                self.by_number.iter().min_by_key(|(_, known)| known.asked).map(|(number, _)| *number);
            if let Some(known) = oldest.and_then(|number| self.by_number.remove(&number)) {
                self.by_name.remove(&known.name);
            }
        }
        let mut number = self.next;
        while number == 0 || self.by_number.contains_key(&number) {
            number = (number + 1) % SIZE;
        }
        self.next = (number + 1) % SIZE;
        self.asked += 1;
        let name = name.to_ascii_lowercase();
        self.by_number.insert(number, Known { name: name.clone(), asked: self.asked });
        self.by_name.insert(name, number);
        address(number)
    }

    /// The name an address was given to.
    pub(crate) fn of(&self, address: Ipv4Addr) -> Option<&str> {
        let number = address.to_bits().checked_sub(FIRST)?;
        self.by_number.get(&number).map(|known| known.name.as_str())
    }
}

fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST + number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_an_address_of_its_own_and_keeps_it() {
        let mut names = Names::default();
        let first = names.add("example.org");
        let second = names.add("example.net");
        assert_eq!(first, Ipv4Addr::new(127, 64, 0, 1));
        assert_ne!(first, second);
        assert_eq!(names.add("EXAMPLE.org"), first);
        assert_eq!(names.known("Example.Net"), Some(second));
        assert_eq!((names.of(first), names.of(second)), (Some("example.org"), Some("example.net")));
        assert_eq!(names.of(Ipv4Addr::new(127, 0, 0, 1)), None);
        assert_eq!(names.known("other.org"), None);
    }

    #[test]
    fn ever_new_names_stay_within_bounds_and_the_ones_in_use_remain() {
        let mut names = Names::default();
        let kept = names.add("kept.org");
        let dropped = names.add("dropped.org");
        for number in 0..MOST + 100 {
            names.add(&format!("x{number}.org"));
            assert_eq!(names.known("kept.org"), Some(kept));
        }
        assert_eq!((names.by_name.len(), names.by_number.len()), (MOST, MOST));
        assert_eq!((names.of(kept), names.of(dropped)), (Some("kept.org"), None));
    }

    #[test]
    fn numbers_go_round_and_never_collide() {
        let mut names = Names { next: SIZE - 1, ..Names::default() };
        assert_eq!(names.add("last.org"), Ipv4Addr::new(127, 127, 255, 255));
        assert_eq!(names.add("first.org"), Ipv4Addr::new(127, 64, 0, 1));
    }
}
