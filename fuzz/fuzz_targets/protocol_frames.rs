//! See `palisade_fuzzing::frames`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| palisade_fuzzing::frames::check(input));
