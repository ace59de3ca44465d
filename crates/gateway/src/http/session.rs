//! What an agent calls the session that a request is of: where each one says it, in headers and in its body.
//!
//! A body is read again for it only where no header says it.

use axum::http::HeaderMap;
use serde::Deserialize;
use throughline_engine::ClientSession;

/// Longest ID of a session or subagent, in bytes; nothing longer is one.
const MAX_ID_BYTES: usize = 256;
/// What Claude Code says in the first block of a subagent's instructions.
const SUBAGENT_SIGN: &str = "cc_is_subagent=true";
/// A subagent that has no ID of its own.
const UNNAMED: &str = "unnamed";
/// What Claude Code 1 and 2.0 put before the ID.
const USER_SESSION: &str = "_session_";

/// The session of a request, when its client is an agent that names one.
pub(super) fn client_session(family: Option<&str>, headers: &HeaderMap, body: &[u8]) -> Option<ClientSession> {
    let known = Client { headers, body };
    let (family, id, subagent) = match family {
        Some("claude-code") => known.claude_code(),
        Some("codex") => known.codex(),
        Some("opencode") => known.opencode(),
        // Hosts of an agent name themselves; its own headers tell.
        _ if known.header("x-claude-code-session-id").is_some() => known.claude_code(),
        _ if known.is_codex() => known.codex(),
        _ => None,
    }?;
    let retries = known.header("x-stainless-retry-count").and_then(|count| count.parse::<u32>().ok());
    Some(ClientSession {
        family: family.to_owned(),
        id,
        subagent,
        asks_again: retries.is_some_and(|count| count > 0),
    })
}

type Named = Option<(&'static str, String, Option<String>)>;

struct Client<'a> {
    headers: &'a HeaderMap,
    body: &'a [u8],
}

impl Client<'_> {
    fn header(&self, name: &str) -> Option<String> {
        self.headers.get(name).and_then(|value| bounded(value.to_str().ok()?))
    }

    fn first_of(&self, names: &[&str]) -> Option<String> {
        names.iter().find_map(|name| self.header(name))
    }

    /// The members of the body that name sessions; a body that cannot be read has none.
    fn members(&self) -> Members {
        serde_json::from_slice(self.body).unwrap_or_default()
    }

    /// `x-claude-code-session-id`, before 2.1 `metadata.user_id`: JSON with `session_id`, or `user_…_session_ID`.
    fn claude_code(&self) -> Named {
        let in_body = || {
            let user = self.members().metadata?.user_id?;
            let told = serde_json::from_str::<User>(&user).ok().and_then(|user| user.session_id);
            bounded(&told.or_else(|| Some(user.rsplit_once(USER_SESSION)?.1.to_owned()))?)
        };
        let id = self.header("x-claude-code-session-id").or_else(in_body)?;
        let subagent = self.header("x-claude-code-agent-id");
        Some((
            "claude-code",
            id,
            subagent.or_else(|| self.is_subagent().then(|| UNNAMED.to_owned())),
        ))
    }

    fn is_subagent(&self) -> bool {
        // Hardly any body says it, and this is quicker than reading one.
        let may_be = std::str::from_utf8(self.body).is_ok_and(|text| text.contains(SUBAGENT_SIGN));
        let first = may_be.then(|| serde_json::from_slice::<Instructed>(self.body).ok()?.system.into_iter().next());
        first.flatten().is_some_and(|block| block.text.contains(SUBAGENT_SIGN))
    }

    fn is_codex(&self) -> bool {
        let originator = self.header("originator");
        originator.is_some_and(|name| name.starts_with("codex")) || self.headers.keys().any(|name| name.as_str().starts_with("x-codex-"))
    }

    /// Codex names the session, and the thread in it where that is another one: of a subagent.
    fn codex(&self) -> Named {
        let (session, thread) = (self.header("session-id"), self.header("thread-id"));
        let named = session.or_else(|| self.first_of(&["thread-id", "x-client-request-id", "session_id", "conversation_id"]));
        if let Some(id) = named {
            let subagent = thread.filter(|thread| *thread != id);
            return Some(("codex", id, subagent));
        }
        let members = self.members();
        if let Some(id) = members.prompt_cache_key.as_deref().and_then(bounded) {
            return Some(("codex", id, None));
        }
        let told = members.client_metadata?;
        let (session, thread) = (told.session_id, told.thread_id);
        let id = bounded(&session.or_else(|| thread.clone())?)?;
        let subagent = thread.and_then(|thread| bounded(&thread)).filter(|thread| *thread != id);
        Some(("codex", id, subagent))
    }

    fn opencode(&self) -> Named {
        let in_body = || bounded(&self.members().prompt_cache_key?);
        let id = self.first_of(&["x-session-id", "x-session-affinity"]).or_else(in_body)?;
        Some(("opencode", id, None))
    }
}

fn bounded(id: &str) -> Option<String> {
    let id = id.trim();
    (!id.is_empty() && id.len() <= MAX_ID_BYTES).then(|| id.to_owned())
}

#[derive(Default, Deserialize)]
struct Members {
    #[serde(default)]
    metadata: Option<Metadata>,
    #[serde(default)]
    prompt_cache_key: Option<String>,
    #[serde(default)]
    client_metadata: Option<Threads>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    user_id: Option<String>,
}

#[derive(Deserialize)]
struct User {
    #[serde(default)]
    session_id: Option<String>,
}

#[derive(Deserialize)]
struct Threads {
    #[serde(default)]
    session_id: Option<String>,
    #[serde(default)]
    thread_id: Option<String>,
}

#[derive(Deserialize)]
struct Instructed {
    #[serde(default)]
    system: Vec<Block>,
}

#[derive(Deserialize)]
struct Block {
    #[serde(default)]
    text: String,
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::client::family_of;
    use super::*;
    use axum::http::{HeaderName, HeaderValue};
    use serde_json::{Value, json};

    const CLAUDE: (&str, &str) = ("user-agent", "claude-cli/2.1.332 (external, cli)");
    const OLD_CLAUDE: (&str, &str) = ("user-agent", "claude-cli/1.0.62 (external, cli)");
    const CODEX: (&str, &str) = ("user-agent", "codex_exec/0.171.0 (Linux)");
    const OPENCODE: (&str, &str) = ("user-agent", "opencode/1.18.33 ai-sdk/provider-utils/4.0.23");

    fn session(headers: &[(&str, &str)], body: &Value) -> Option<ClientSession> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                HeaderValue::from_str(value).unwrap(),
            );
        }
        client_session(family_of(&map).as_deref(), &map, body.to_string().as_bytes())
    }

    #[test]
    fn agents_name_their_sessions() {
        let none = json!({});
        let user = |id: &str| json!({"model": "m", "metadata": {"user_id": id}});
        let flagged = json!({"system": [{"type": "text", "text": "x-anthropic-billing-header: cc_is_subagent=true;"}]});
        let quoted = json!({"system": [{"type": "text", "text": "a"}, {"type": "text", "text": "cc_is_subagent=true"}], "messages": []});
        let threads = json!({"client_metadata": {"session_id": "s", "thread_id": "t"}});
        let long = "x".repeat(MAX_ID_BYTES + 1);
        let longest = "x".repeat(MAX_ID_BYTES);
        for (headers, body, expected) in [
            (&[CLAUDE, ("x-claude-code-session-id", "s")][..], &none, Some("claude-code/s")),
            (
                &[CLAUDE, ("x-claude-code-session-id", "s"), ("x-claude-code-agent-id", "a")],
                &none,
                Some("claude-code/s/a"),
            ),
            (
                &[CLAUDE, ("x-claude-code-session-id", "s")],
                &flagged,
                Some("claude-code/s/unnamed"),
            ),
            (&[CLAUDE, ("x-claude-code-session-id", "s")], &quoted, Some("claude-code/s")),
            (
                &[CLAUDE, ("x-claude-code-session-id", "s")],
                &user("{\"session_id\":\"b\"}"),
                Some("claude-code/s"),
            ),
            (&[("x-claude-code-session-id", "s")], &none, Some("claude-code/s")),
            (
                &[OLD_CLAUDE],
                &user("{\"device_id\":\"d\",\"session_id\":\"s\"}"),
                Some("claude-code/s"),
            ),
            (&[OLD_CLAUDE], &user("user_0a_account__session_s"), Some("claude-code/s")),
            (&[OLD_CLAUDE], &user("user_0a"), None),
            (&[OLD_CLAUDE], &json!({"metadata": 3}), None),
            (&[CODEX, ("session-id", "s"), ("thread-id", "s")], &none, Some("codex/s")),
            (&[CODEX, ("session-id", "s"), ("thread-id", "t")], &none, Some("codex/s/t")),
            (&[CODEX, ("x-client-request-id", "t")], &none, Some("codex/t")),
            (
                &[CODEX, ("session_id", "s"), ("conversation_id", "c")],
                &json!({"prompt_cache_key": "p"}),
                Some("codex/s"),
            ),
            (&[CODEX], &json!({"prompt_cache_key": "p"}), Some("codex/p")),
            (&[CODEX], &threads, Some("codex/s/t")),
            (&[("originator", "codex_cli_rs"), ("session_id", "s")], &none, Some("codex/s")),
            (
                &[("user-agent", "t/1"), ("x-codex-window-id", "s:0"), ("session-id", "s")],
                &none,
                Some("codex/s"),
            ),
            (
                &[OPENCODE, ("x-session-id", "s"), ("x-session-affinity", "a")],
                &none,
                Some("opencode/s"),
            ),
            (&[OPENCODE, ("x-session-affinity", "a")], &none, Some("opencode/a")),
            (&[OPENCODE], &json!({"prompt_cache_key": "p"}), Some("opencode/p")),
            // Members that other clients use for something else name no session.
            (
                &[("session_id", "s"), ("x-session-id", "s")],
                &json!({"prompt_cache_key": "p"}),
                None,
            ),
            (&[("user-agent", "OpenAI/JS 6.0.0")], &json!({"prompt_cache_key": "p"}), None),
            (&[("user-agent", "GeminiCLI-tui/0.61.0")], &none, None),
            (&[CODEX, ("session-id", &longest)], &none, Some(&format!("codex/{longest}"))),
            (&[CODEX, ("session-id", &long)], &none, None),
            (&[CODEX, ("session-id", " ")], &none, None),
        ] {
            let told = session(headers, body).map(|session| {
                let words = [Some(session.family), Some(session.id), session.subagent];
                words.into_iter().flatten().collect::<Vec<_>>().join("/")
            });
            assert_eq!(told.as_deref(), expected, "{headers:?} {body}");
        }
    }

    #[test]
    fn a_client_says_that_it_asks_again() {
        for (count, expected) in [(None, false), (Some("0"), false), (Some("1"), true), (Some("x"), false)] {
            let mut headers = vec![CLAUDE, ("x-claude-code-session-id", "s")];
            headers.extend(count.map(|count| ("x-stainless-retry-count", count)));
            assert_eq!(session(&headers, &json!({})).unwrap().asks_again, expected, "{count:?}");
        }
    }
}
