//! Owners of private state: the one rule of which model belongs to which family.

/// The family of models that share reasoning state, by the vendor's own naming; `None` when the name tells nothing.
///
/// Providers bind signatures and encrypted reasoning to a family, not to a dated slug. A name that is not known here gives
/// no family, and absent equals only absent, so unknown models share state with each other at one owner and with no others.
pub fn model_family(model: &str) -> Option<String> {
    let bare = model.rsplit('/').next().unwrap_or(model);
    let known: &[(&str, &str)] = &[
        ("claude-", "claude"),
        ("gpt-", "gpt"),
        ("o1", "openai-o"),
        ("o3", "openai-o"),
        ("o4", "openai-o"),
        ("gemini-3", "gemini-3"),
        ("gemini-2", "gemini-2"),
        ("deepseek-", "deepseek"),
        ("grok-", "grok"),
        ("qwen", "qwen"),
        ("kimi-", "kimi"),
        ("glm-", "glm"),
        ("minimax-", "minimax"),
    ];
    let lower = bare.to_ascii_lowercase();
    known
        .iter()
        .find(|(prefix, _)| lower.starts_with(prefix))
        .map(|(_, family)| (*family).to_owned())
}
