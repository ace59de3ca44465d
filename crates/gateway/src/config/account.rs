//! Which service a `[providers.NAME]` is, and where its credential stands: the keys of the file that depend on `kind`.

use super::reader::{Placed, Section};
use super::{CredentialSource, beside};
use std::path::Path;
use throughline_providers::{GeminiApi, OpenAiApi, ProviderKind};

const NO_KEYS: &str = "keys do not belong in the file; name a variable with api_key_env";
const NO_TOKENS: &str = "tokens do not belong in the file; name a variable with access_token_env";
/// Keys that nobody takes, with what to write instead.
pub(super) const SECRET_HINTS: &[(&str, &str)] = &[
    ("api_key", NO_KEYS),
    ("key", NO_KEYS),
    ("token", NO_KEYS),
    ("access_token", NO_TOKENS),
    (
        "credentials_file",
        "name a variable that holds the file's path with credentials_file_env",
    ),
    ("secret", NO_KEYS),
    ("password", NO_KEYS),
    ("authorization", NO_KEYS),
];
/// Words of `kind`.
const KINDS: &[(&str, ProviderKind)] = &[
    ("anthropic", ProviderKind::Anthropic),
    ("openai", ProviderKind::OpenAi(OpenAiApi::Responses)),
    ("azure", ProviderKind::Azure(OpenAiApi::Responses)),
    ("openai-compatible", ProviderKind::OpenAiCompatible),
    ("gemini", ProviderKind::Gemini(GeminiApi::V1Beta)),
    ("vertex", ProviderKind::Vertex),
    ("antigravity", ProviderKind::Antigravity),
    ("interactions", ProviderKind::Interactions),
    ("cursor", ProviderKind::Cursor),
];
const LATER_KINDS: &[&str] = &["replay"];

/// The kind that the words `kind` and `api` name.
pub(super) fn kind(section: &Section<'_, '_>) -> Option<ProviderKind> {
    let word = section.required("kind");
    let api = section.text("api");
    let word = word?.value;
    if api.is_some() && !matches!(word.as_str(), "openai" | "azure" | "gemini") {
        section.problem("api", "belongs to the kinds \"openai\", \"azure\" and \"gemini\" only");
    }
    let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == word) else {
        let known: Vec<&str> = KINDS.iter().map(|(word, _)| *word).collect();
        let what = if LATER_KINDS.contains(&word.as_str()) {
            format!("\"{word}\" is not available in this version")
        } else {
            "unknown kind".to_owned()
        };
        section.problem("kind", format!("{what}; known are {}", known.join(", ")));
        return None;
    };
    match (kind, api.as_ref().map(|api| api.value.as_str())) {
        (ProviderKind::OpenAi(_), Some("chat")) => Some(ProviderKind::OpenAi(OpenAiApi::Chat)),
        (ProviderKind::Azure(_), Some("chat")) => Some(ProviderKind::Azure(OpenAiApi::Chat)),
        (ProviderKind::Gemini(_), Some("v1")) => Some(ProviderKind::Gemini(GeminiApi::V1)),
        (ProviderKind::OpenAi(_) | ProviderKind::Azure(_), Some("responses")) | (ProviderKind::Gemini(_), Some("v1beta")) | (_, None) => {
            Some(*kind)
        }
        (ProviderKind::OpenAi(_) | ProviderKind::Azure(_), Some(_)) => {
            section.problem("api", "expected \"responses\" or \"chat\"");
            None
        }
        (ProviderKind::Gemini(_), Some(_)) => {
            section.problem("api", "expected \"v1beta\" or \"v1\"");
            None
        }
        (_, Some(_)) => None,
    }
}

/// Whether a kind is asked with access tokens instead of a key.
const fn takes_tokens(kind: ProviderKind) -> bool {
    matches!(kind, ProviderKind::Vertex | ProviderKind::Antigravity)
}

/// Where the credential stands. Each kind has two ways to say it, of which one is written.
pub(super) fn credential(section: &Section<'_, '_>, kind: Option<ProviderKind>, file: &Path) -> CredentialSource {
    let key = section.text("api_key_env").map(CredentialSource::Variable);
    let key_file = section.text("api_key_file").map(|path| {
        CredentialSource::File(Placed {
            value: beside(file, &path.value),
            line: path.line,
            key: path.key,
        })
    });
    let token = section.text("access_token_env").map(CredentialSource::Variable);
    let credentials = section.text("credentials_file_env").map(CredentialSource::CredentialsFile);
    let (keys, tokens) = (
        [("api_key_env", key), ("api_key_file", key_file)],
        [("credentials_file_env", credentials), ("access_token_env", token)],
    );
    let by_token = kind.is_some_and(takes_tokens);
    let (own, other) = if by_token { (tokens, keys) } else { (keys, tokens) };
    let [(first, _), (second, _)] = own;
    if let Some((name, _)) = other.iter().find(|(_, found)| found.is_some()) {
        if kind.is_some() {
            section.problem(name, format!("does not belong to this kind; name {first} or {second}"));
        }
        return CredentialSource::Absent;
    }
    match own.map(|(_, found)| found) {
        [Some(_), Some(_)] => {
            section.problem(second, format!("name either {first} or {second}"));
            CredentialSource::Absent
        }
        [Some(found), None] | [None, Some(found)] => found,
        [None, None] => {
            // A literal key is a problem of its own, told where it stands.
            let literal = SECRET_HINTS.iter().any(|(key, _)| section.has(key));
            if kind.is_some_and(ProviderKind::needs_credential) && !literal {
                let told = if by_token {
                    "is missing; name the variable that holds the path of the credentials file, or a token with access_token_env"
                } else {
                    "is missing; name the variable that holds the key, or a file with api_key_file"
                };
                section.problem(first, told);
            }
            CredentialSource::Absent
        }
    }
}

/// Project and location of an account, where its service has such: both at `vertex`, a project perhaps at `antigravity`.
pub(super) fn place(section: &Section<'_, '_>, kind: Option<ProviderKind>) -> (Option<String>, Option<String>) {
    let (project, location) = (section.text("project"), section.text("location"));
    match kind {
        Some(ProviderKind::Vertex) => {
            for (name, found) in [("project", &project), ("location", &location)] {
                if found.is_none() && !section.has(name) {
                    section.problem(name, "is missing; kind \"vertex\" has a project and a location such as \"global\"");
                }
            }
        }
        Some(kind) => {
            if project.is_some() && kind != ProviderKind::Antigravity {
                section.problem("project", "belongs to kinds \"vertex\" and \"antigravity\" only");
            }
            if location.is_some() {
                section.problem("location", "belongs to kind \"vertex\" only");
            }
        }
        None => {}
    }
    (project.map(|text| text.value), location.map(|text| text.value))
}
