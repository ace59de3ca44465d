#![no_main]
//! See `bodies::decode_stream`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| throughline_fuzz::bodies::decode_stream(data));
