//! Who looks at a session, how far each has come, and whether the command has to wait for them.
//!
//! While somebody looks, the command is held up rather than let output fall out of the scrollback that nobody has
//! seen: the fastest viewer loses nothing. A slower one loses what is no longer kept. A viewer that takes nothing for
//! [`GRACE`] holds nobody up any more, so that a sleeping laptop does not stop an agent for ever.

use std::time::{Duration, Instant};

/// How long a viewer that takes nothing is waited for.
pub(crate) const GRACE: Duration = Duration::from_secs(120);

/// Whose place it is; never given again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat(u64);

#[derive(Debug)]
struct Place {
    seat: Seat,
    position: u64,
    /// When it last took something, or last had nothing to take.
    moved: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct Audience {
    places: Vec<Place>,
    seats: u64,
}

/// What the command may write now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// As much as it likes.
    Free,
    /// So many bytes; zero holds it.
    Bytes(usize),
}

impl Room {
    pub(crate) fn is_held(self) -> bool {
        self == Room::Bytes(0)
    }

    /// At most `most`.
    pub(crate) fn limit(self, most: usize) -> usize {
        match self {
            Room::Free => most,
            Room::Bytes(bytes) => bytes.min(most),
        }
    }
}

impl Audience {
    pub(crate) fn join(&mut self, position: u64, now: Instant) -> Seat {
        let seat = Seat(self.seats);
        self.seats += 1;
        self.places.push(Place { seat, position, moved: now });
        seat
    }

    pub(crate) fn leave(&mut self, seat: Seat) {
        self.places.retain(|place| place.seat != seat);
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// A viewer has come to this position.
    pub(crate) fn reached(&mut self, seat: Seat, position: u64, now: Instant) {
        if let Some(place) = self.places.iter_mut().find(|place| place.seat == seat)
            && place.position != position
        {
            place.position = position;
            place.moved = now;
        }
    }

    /// Output is about to follow at `end`: whoever has seen everything until now begins to fall behind now.
    pub(crate) fn output_follows(&mut self, end: u64, now: Instant) {
        self.places.iter_mut().filter(|place| place.position == end).for_each(|place| place.moved = now);
    }

    /// What may follow at `end` so that the fastest viewer loses nothing of the last `capacity` bytes.
    pub(crate) fn room(&self, end: u64, capacity: usize, now: Instant) -> Room {
        let fastest = self.waited_for(now).map(|place| place.position).max();
        fastest.map_or(Room::Free, |position| {
            let behind = usize::try_from(end.saturating_sub(position)).unwrap_or(usize::MAX);
            Room::Bytes(capacity.saturating_sub(behind))
        })
    }

    /// When the first of those who are waited for is waited for no longer.
    pub(crate) fn patience_ends(&self, now: Instant) -> Option<Instant> {
        self.waited_for(now).map(|place| place.moved + GRACE).min()
    }

    fn waited_for(&self, now: Instant) -> impl Iterator<Item = &Place> {
        self.places.iter().filter(move |place| now.saturating_duration_since(place.moved) < GRACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: usize = 100;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn with_nobody_there_a_command_runs_free() {
        let now = Instant::now();
        let mut audience = Audience::default();
        assert_eq!((audience.room(5000, CAPACITY, now), audience.patience_ends(now)), (Room::Free, None));
        let seat = audience.join(0, now);
        audience.leave(seat);
        assert_eq!((audience.room(5000, CAPACITY, now), audience.len()), (Room::Free, 0));
    }

    #[test]
    fn the_only_viewer_holds_the_command_before_it_loses_anything() {
        let now = Instant::now();
        let mut audience = Audience::default();
        let seat = audience.join(0, now);
        assert_eq!(audience.room(0, CAPACITY, now), Room::Bytes(100));
        assert_eq!(audience.room(70, CAPACITY, now), Room::Bytes(30));
        assert!(audience.room(100, CAPACITY, now).is_held());
        audience.reached(seat, 40, now);
        assert_eq!(audience.room(100, CAPACITY, now), Room::Bytes(40));
        // It may have lost something before it was first waited for.
        assert!(audience.room(500, CAPACITY, now).is_held());
    }

    #[test]
    fn a_slow_viewer_beside_a_fast_one_holds_nobody() {
        let now = Instant::now();
        let mut audience = Audience::default();
        let (_slow, fast) = (audience.join(0, now), audience.join(0, now));
        audience.reached(fast, 300, now);
        assert_eq!(audience.room(300, CAPACITY, now), Room::Bytes(100));
    }

    #[test]
    fn who_takes_nothing_is_waited_for_only_so_long() {
        let start = Instant::now();
        let mut audience = Audience::default();
        let seat = audience.join(0, start);
        assert!(audience.room(100, CAPACITY, start + GRACE - seconds(1)).is_held());
        assert_eq!(audience.patience_ends(start + seconds(1)), Some(start + GRACE));
        assert_eq!(audience.room(100, CAPACITY, start + GRACE), Room::Free);
        assert_eq!(audience.patience_ends(start + GRACE), None);
        // As soon as it takes something, it counts again.
        let later = start + 2 * GRACE;
        audience.reached(seat, 950, later);
        assert_eq!(audience.room(1000, CAPACITY, later), Room::Bytes(50));
    }

    #[test]
    fn the_patience_begins_with_the_first_byte_not_taken() {
        let start = Instant::now();
        let mut audience = Audience::default();
        audience.join(0, start);
        // Nothing was said for an hour, then a lot.
        let later = start + seconds(3600);
        audience.output_follows(0, later);
        assert!(audience.room(100, CAPACITY, later + seconds(60)).is_held());
        // More output does not begin it anew.
        audience.output_follows(100, later + seconds(60));
        assert_eq!(audience.room(100, CAPACITY, later + GRACE), Room::Free);
    }
}
