//! See `palisade_fuzzing::survey`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| palisade_fuzzing::survey::check(input));
