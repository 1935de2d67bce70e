//! See `palisade_fuzzing::names`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| palisade_fuzzing::names::check(input));
