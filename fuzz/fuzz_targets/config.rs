//! See `palisade_fuzzing::config`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| palisade_fuzzing::config::check(input));
