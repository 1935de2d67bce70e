//! See `palisade_fuzzing::archive`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| palisade_fuzzing::archive::check(input));
