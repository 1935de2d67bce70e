//! What a stream of terminal output has switched on, and how to undo or repeat it. Used on both sides: inside, to
//! replay a screen whose beginning is no longer kept; outside, to leave the user's own terminal as it was.
//!
//! Pure: bytes in, bytes out. Sizes are fixed, whatever the output says.

mod keyboard;
mod modes;
mod sequence;

pub use modes::Modes;
