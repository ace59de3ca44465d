#![no_main]
//! See `bodies::decode_request`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| throughline_fuzz::bodies::decode_request(data));
