//! See `palisade_fuzzing::compose`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| palisade_fuzzing::compose::check(input));
