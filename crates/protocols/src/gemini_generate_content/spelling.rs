//! Proto JSON accepts `snake_case` beside `lowerCamelCase`. Names are brought to the latter before anything is decoded, and
//! pointers of reports are brought back to what the client wrote.
//!
//! Only names of the wire are touched: schemas, arguments, results and labels belong to the user.

use crate::raw;
use std::borrow::Cow;
use std::collections::BTreeMap;
use throughline_format::Json;
use throughline_format::json::escape_pointer_token;

/// Members whose value is the user's own JSON.
const OPAQUE: &[&str] = &[
    "args",
    "parameters",
    "parametersJsonSchema",
    "responseSchema",
    "responseJsonSchema",
    "_responseJsonSchema",
    "labels",
    "partMetadata",
    "headers",
    "customMetadata",
    "schema",
];

/// Members of the envelope that one of its clients spells so; the other spelling is no member of it.
const VERBATIM: &[&str] = &["user_prompt_id", "enabled_credit_types"];

/// The names that were changed: pointers of the changed body to the name that was written.
#[derive(Debug, Default)]
pub(super) struct Spelling(BTreeMap<String, String>);

impl Spelling {
    /// The body with the usual names.
    pub(super) fn of(body: &str) -> (Cow<'_, str>, Self) {
        let mut spelling = Self::default();
        if !has_snake_name(body) {
            return (Cow::Borrowed(body), spelling);
        }
        match Json::from_text(body.to_owned()) {
            Ok(json) => {
                let changed = spelling.rename(&json, "", "");
                (Cow::Owned(changed.as_str().to_owned()), spelling)
            }
            // Whoever decodes it says what is wrong.
            Err(_) => (Cow::Borrowed(body), spelling),
        }
    }

    fn rename(&mut self, value: &Json, path: &str, name: &str) -> Json {
        let text = value.as_str();
        if text.starts_with('[') {
            let list: Vec<Json> = value.decode().unwrap_or_default();
            let list: Vec<_> = list
                .iter()
                .enumerate()
                .map(|(n, element)| self.rename(element, &format!("{path}/{n}"), name))
                .collect();
            return raw::json(&list);
        }
        if !text.starts_with('{') {
            return value.clone();
        }
        let members = raw::members(value);
        let known: Vec<String> = members.iter().map(|(key, _)| key.clone()).collect();
        let renamed = members
            .into_iter()
            .map(|(key, value)| {
                let camel = if VERBATIM.contains(&key.as_str()) {
                    key.clone()
                } else {
                    camel(&key)
                };
                // The same member twice in two spellings: the second stays as it is, and is no member that is known.
                let to = if *camel != key && known.contains(&camel) {
                    key.clone()
                } else {
                    camel
                };
                let at = format!("{path}/{}", escape_pointer_token(&to));
                let opaque = OPAQUE.contains(&to.as_str())
                    || (to == "response" && matches!(name, "functionResponse" | "toolResponse" | "functionDeclarations"));
                let value = if opaque { value } else { self.rename(&value, &at, &to) };
                if to != key {
                    self.0.insert(at, key);
                }
                (to, value)
            })
            .collect();
        raw::object(renamed)
    }

    /// The pointer into the body as it was written.
    pub(super) fn original(&self, pointer: &str) -> String {
        if self.0.is_empty() {
            return pointer.to_owned();
        }
        let (mut at, mut written) = (String::new(), String::new());
        for token in pointer.split('/').skip(1) {
            at.push('/');
            at.push_str(token);
            written.push('/');
            match self.0.get(&at) {
                Some(name) => written.push_str(&escape_pointer_token(name)),
                None => written.push_str(token),
            }
        }
        written
    }
}

/// Whether a name with an underscore may stand in the body; a hit inside the user's own JSON costs time only.
fn has_snake_name(body: &str) -> bool {
    let bytes = body.as_bytes();
    body.match_indices("\":").chain(body.match_indices("\" :")).any(|(end, _)| {
        let name = bytes.get(..end).unwrap_or_default();
        let name = name.iter().rev().take(48).take_while(|b| b.is_ascii_lowercase() || **b == b'_');
        name.into_iter().any(|b| *b == b'_')
    })
}

/// A name in lowerCamelCase.
fn camel(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut upper = false;
    for c in name.chars() {
        if c == '_' && !camel.is_empty() {
            upper = true;
        } else if std::mem::take(&mut upper) {
            camel.extend(c.to_uppercase());
        } else {
            camel.push(c);
        }
    }
    camel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_wire_change_and_the_users_own_stay() {
        let cases = [
            (r#"{"generationConfig":{"topP":1}}"#, r#"{"generationConfig":{"topP":1}}"#),
            (r#"{"generation_config":{"top_p":1.0}}"#, r#"{"generationConfig":{"topP":1.0}}"#),
            (
                r#"{"contents":[{"parts":[{"function_call":{"args":{"a_b":1}}}]}]}"#,
                r#"{"contents":[{"parts":[{"functionCall":{"args":{"a_b":1}}}]}]}"#,
            ),
            (
                r#"{"function_response":{"response":{"a_b":{"c_d":1}}}}"#,
                r#"{"functionResponse":{"response":{"a_b":{"c_d":1}}}}"#,
            ),
            (r#"{"top_p":1,"topP":2}"#, r#"{"top_p":1,"topP":2}"#),
            (r#"{"_responseJsonSchema":{"a_b":1}}"#, r#"{"_responseJsonSchema":{"a_b":1}}"#),
        ];
        for (body, expected) in cases {
            assert_eq!(Spelling::of(body).0, expected);
        }
    }

    #[test]
    fn pointers_go_back_to_what_was_written() {
        let (_, spelling) = Spelling::of(r#"{"tool_config":{"function_calling_config":{"mode":"ANY"}},"x":[{"a_b":1}]}"#);
        let cases = [
            (
                "/toolConfig/functionCallingConfig/mode",
                "/tool_config/function_calling_config/mode",
            ),
            ("/toolConfig", "/tool_config"),
            ("/x/0/aB", "/x/0/a_b"),
            ("/else/aB", "/else/aB"),
            ("", ""),
        ];
        for (pointer, expected) in cases {
            assert_eq!(spelling.original(pointer), expected);
        }
    }
}
