//! See `palisade_fuzzing::environment`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| palisade_fuzzing::environment::check(input));
