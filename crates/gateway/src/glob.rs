//! Patterns on model names: `*` is any text, `?` any one character, everything else itself.

/// Whether a pattern has only itself as a match.
pub fn is_literal(pattern: &str) -> bool {
    !pattern.contains(['*', '?'])
}

/// Whether the text matches the pattern. Linear for each `*`; no recursion, so no input makes it slow.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    // Where to go on when a later character does not fit: after the last star, one character further.
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match (pattern.get(p), text.get(t)) {
            (Some('*'), _) => {
                retry = Some((p + 1, t));
                p += 1;
            }
            (Some('?'), Some(_)) => (p, t) = (p + 1, t + 1),
            (Some(a), Some(b)) if a == b => (p, t) = (p + 1, t + 1),
            _ => match &mut retry {
                Some((after_star, from)) => {
                    *from += 1;
                    (p, t) = (*after_star, *from);
                }
                None => return false,
            },
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        for (pattern, text, expected) in [
            ("claude-*", "claude-sonnet-4-5", true),
            ("claude-*", "claude", false),
            ("*", "", true),
            ("*-mini", "gpt-5.4-mini", true),
            ("*-mini", "gpt-5.4-mini-x", false),
            ("gpt-?", "gpt-5", true),
            ("gpt-?", "gpt-55", false),
            ("a*b*c", "a-b-b-c", true),
            ("fast", "fast", true),
            ("fast", "Fast", false),
            ("*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
        assert!(is_literal("gpt-5.4") && !is_literal("gpt-*"));
    }
}
