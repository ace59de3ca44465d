//! What is known of models by their names: defaults that a route's configuration may overrule.

/// What a model wants of thinking and signatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generation {
    /// Before the third: budgets, no checked signatures, hosted tools not beside functions.
    Second,
    /// From the third on: levels, and signatures on the first call of a step.
    Third,
    /// A model of another vendor behind the envelope.
    Foreign,
    /// A name that tells nothing.
    Unknown,
}

/// The generation of a model.
pub(super) fn generation(model: &str) -> Generation {
    let has = |list: &[&str]| list.iter().any(|part| model.contains(part));
    if has(&["claude", "gpt-oss"]) {
        Generation::Foreign
    } else if has(&["gemini-1", "gemini-2", "gemini-exp", "learnlm", "gemma", "aqa"]) {
        Generation::Second
    } else if has(&["gemini-3", "gemini-4", "gemini-5"]) {
        Generation::Third
    } else {
        Generation::Unknown
    }
}

/// Thinking levels that a model takes, from the least to the most.
pub(super) fn levels(model: &str) -> &'static [&'static str] {
    let starts = |name: &str| model.rsplit('/').next().unwrap_or(model).starts_with(name);
    if starts("gemini-3-pro") {
        &["LOW", "HIGH"]
    } else if starts("gemini-3.1-pro") {
        &["LOW", "MEDIUM", "HIGH"]
    } else if starts("gemini-4-hydrogen") {
        &["LOW", "MEDIUM", "HIGH", "XHIGH"]
    } else if starts("gemini-4") {
        &["LOW", "MEDIUM", "HIGH"]
    } else {
        &["MINIMAL", "LOW", "MEDIUM", "HIGH"]
    }
}

/// Thinking budgets that a model of the second generation takes; and whether 0 switches thinking off.
pub(super) fn budgets(model: &str) -> (u64, u64, bool) {
    if model.contains("2.5-pro") {
        (128, 32_768, false)
    } else if model.contains("lite") {
        (512, 24_576, true)
    } else {
        (1, 24_576, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_generations() {
        for (model, expected) in [
            ("gemini-2.5-flash", Generation::Second),
            ("gemini-3-pro-preview", Generation::Third),
            ("models/gemini-4-argon", Generation::Third),
            ("claude-opus-4-6-thinking", Generation::Foreign),
            ("fast", Generation::Unknown),
        ] {
            assert_eq!(generation(model), expected, "{model}");
        }
    }
}
