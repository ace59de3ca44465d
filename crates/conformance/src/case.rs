//! [`Case`]: a case file.

use serde::Deserialize;
use serde_json::Value;
use throughline_format::ProtocolFamily;

/// What the input of a case is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A request body.
    Request,
    /// A response body.
    Response,
    /// A stream as network reads.
    Stream,
    /// Turns of a conversation, or transcript files.
    Session,
    /// Steps at a store.
    Store,
    /// Steps at a running operation and its subscribers.
    Resume,
}

/// An assertion in words with the facts that a program can test.
#[derive(Clone, Debug, Deserialize)]
pub struct Expectation {
    /// In words.
    pub say: String,
    /// The facts; none for a hand-written test or a reviewer.
    #[serde(default)]
    pub checks: Vec<Value>,
}

/// A case file. Members that only tell where a case comes from are not read.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// Its name.
    pub id: String,
    /// What the input is.
    pub kind: Kind,
    /// Protocol of the input.
    pub protocol_in: Option<String>,
    /// Protocol of the projection.
    pub protocol_out: Option<String>,
    /// The input, by kind.
    pub input: Value,
    /// What must be true.
    pub expect: Vec<Expectation>,
}

impl Case {
    /// Reads the text of a case file.
    ///
    /// # Errors
    /// When it is no case.
    pub fn parse(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|e| format!("not a case: {e}"))
    }

    /// Every check with the words that it stands for.
    pub fn checks(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.expect
            .iter()
            .flat_map(|e| e.checks.iter().map(|check| (e.say.as_str(), check)))
    }
}

/// The family that a case names.
pub(crate) fn family_of(name: &str) -> Result<ProtocolFamily, String> {
    let family: ProtocolFamily = serde_json::from_value(Value::String(name.to_owned())).map_err(|e| format!("{name}: {e}"))?;
    Ok(family)
}
