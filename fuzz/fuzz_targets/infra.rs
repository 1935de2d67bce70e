//! See `palisade_fuzzing::infra`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| palisade_fuzzing::infra::check(input));
