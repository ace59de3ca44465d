#![no_main]
//! See `sessions::read_session`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| throughline_fuzz::sessions::read_session(data));
