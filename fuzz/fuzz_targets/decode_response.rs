#![no_main]
//! See `bodies::decode_response`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| throughline_fuzz::bodies::decode_response(data));
