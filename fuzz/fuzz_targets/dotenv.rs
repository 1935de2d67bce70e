//! See `palisade_fuzzing::dotenv`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| palisade_fuzzing::dotenv::check(input));
