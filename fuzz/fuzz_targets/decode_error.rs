#![no_main]
//! See `bodies::decode_error`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| throughline_fuzz::bodies::decode_error(data));
