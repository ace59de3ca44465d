#![no_main]
//! See `bodies::unified_records`.

libfuzzer_sys::fuzz_target!(|data: &[u8]| throughline_fuzz::bodies::unified_records(data));
