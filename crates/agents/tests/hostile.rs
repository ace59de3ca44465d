//! Whatever is done to a session of any runtime: an error, or transcripts that everything downstream takes. Never a panic. What must hold is
//! what the fuzz target asks for as well; here it is tried with every run of the tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

#[path = "../../../fuzz/src/sessions.rs"]
#[allow(unreachable_pub)]
mod sessions;

use proptest::prelude::*;

/// Small sessions, the first byte of each chooses its runtime.
const SEEDS: [&[u8]; 5] = [
    include_bytes!("../../../fuzz/seeds/read_session/claude-code"),
    include_bytes!("../../../fuzz/seeds/read_session/codex"),
    include_bytes!("../../../fuzz/seeds/read_session/opencode"),
    include_bytes!("../../../fuzz/seeds/read_session/gemini-cli"),
    include_bytes!("../../../fuzz/seeds/read_session/sna-blocks"),
];

#[test]
fn every_seed_is_a_session() {
    for seed in SEEDS {
        sessions::read_session(seed);
        let runtime = throughline_agents::runtimes()[usize::from(seed[0])];
        let found = runtime.read(&throughline_agents::Source::file("s", &seed[1..])).unwrap();
        assert!(!found[0].items.is_empty(), "{}", runtime.name());
    }
}

/// A token that stands in the place of another.
fn odd() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("null".to_owned()),
        Just("{}".to_owned()),
        Just("[]".to_owned()),
        Just("[null,1,\"x\",{\"type\":\"text\"},{\"type\":\"tool_use\"},{\"type\":\"tool_result\"}]".to_owned()),
        Just("-1e300".to_owned()),
        Just("\"\\u0000\u{2028}\"".to_owned()),
        Just("{\"type\":\"unheard-of\",\"id\":null}".to_owned()),
        Just("\"../../x\"".to_owned()),
        "\"[a-z_]{0,6}\"".prop_map(|text| text),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn a_session_with_other_values_is_taken_or_refused(seed in 0usize..5, at in any::<prop::sample::Index>(), odd in odd(), again in any::<prop::sample::Index>(), twice in any::<bool>()) {
        let text = String::from_utf8(SEEDS[seed][1..].to_vec()).unwrap();
        let mut bytes = vec![SEEDS[seed][0]];
        let mut changed = replaced(&text, at, &odd);
        if twice {
            changed = replaced(&changed, again, "[{}]");
        }
        bytes.extend(changed.into_bytes());
        sessions::read_session(&bytes);
    }

    #[test]
    fn a_session_that_was_cut_or_repeated_is_taken_or_refused(seed in 0usize..5, cut in any::<prop::sample::Index>(), from in any::<prop::sample::Index>()) {
        let whole = SEEDS[seed];
        let mut bytes = whole[..=cut.index(whole.len())].to_vec();
        bytes.extend(&whole[from.index(whole.len())..]);
        sessions::read_session(&bytes);
    }

    #[test]
    fn bytes_of_any_kind_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        sessions::read_session(&bytes);
    }
}

/// The text with the value behind one of its colons replaced.
fn replaced(text: &str, at: prop::sample::Index, value: &str) -> String {
    let colons: Vec<usize> = text.match_indices(": ").map(|(at, _)| at + 2).collect();
    if colons.is_empty() {
        return text.to_owned();
    }
    let begin = colons[at.index(colons.len())];
    let mut stream = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<serde_json::Value>();
    let end = match stream.next() {
        Some(Ok(_)) => begin + stream.byte_offset(),
        _ => begin,
    };
    format!("{}{value}{}", &text[..begin], &text[end..])
}
