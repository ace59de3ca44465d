//! What real agents send, request after request, each of them a whole history: where it lands.
//!
//! The captures hold requests only. The answer to a request is what the next one tells of it, put into the provider's form, so each is
//! sent back by the client exactly as that client sends things back.

use crate::support::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use throughline_engine::ClientSession;
use throughline_engine::lineage::atoms::{Atom, atoms};
use throughline_engine::ports::{Router, Target};
use throughline_format::item::Role;
use throughline_format::{ProtocolFamily as F, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemBody};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::{Capabilities, DecodeContext, EncodeContext, codec_of};

/// One request.
struct Sent {
    file: String,
    family: F,
    model: Option<String>,
    body: Value,
    items: Vec<UnifiedItem>,
    atoms: Vec<Atom>,
    session: Option<ClientSession>,
}

fn family(path: &str) -> Option<F> {
    let path = path.split('?').next().unwrap_or_default();
    match path {
        "/v1/messages" => Some(F::AnthropicMessages),
        "/v1/responses" => Some(F::OpenAiResponses),
        "/v1/chat/completions" => Some(F::OpenAiChat),
        _ if path.ends_with("enerateContent") => Some(F::GeminiGenerateContent),
        _ => None,
    }
}

/// What the agent calls its session, where a header says it.
fn session(captured: &Value) -> Option<ClientSession> {
    let headers = captured["headers"].as_array().unwrap();
    let header = |name: &str| {
        let found = headers.iter().find(|header| header[0].as_str().unwrap().eq_ignore_ascii_case(name));
        found.map(|header| header[1].as_str().unwrap().to_owned())
    };
    let names = ["x-claude-code-session-id", "session-id", "session_id", "x-session-id"];
    Some(ClientSession {
        family: "agent".into(),
        id: names.iter().find_map(|name| header(name))?,
        subagent: header("x-claude-code-agent-id"),
        asks_again: false,
    })
}

/// Every captured request in the order in which they were sent.
fn captured(folder: &Path) -> Vec<Sent> {
    let manifest = std::fs::read_to_string(folder.join("MANIFEST.tsv")).unwrap();
    let mut found = Vec::new();
    for line in manifest.lines().skip(1) {
        let file = line.split('\t').next().unwrap();
        let captured: Value = serde_json::from_slice(&std::fs::read(folder.join(file)).unwrap()).unwrap();
        let path = captured["path"].as_str().unwrap();
        let Some(family) = family(path).filter(|_| captured["method"] == "POST") else {
            continue;
        };
        let model = path
            .split_once("/models/")
            .and_then(|(_, rest)| rest.split_once(':'))
            .map(|(model, _)| model.to_owned());
        let body = captured["body"].clone();
        let codec = codec_of(&family).unwrap();
        let context = DecodeContext {
            requested_model: model.clone(),
            ..DecodeContext::offline()
        };
        let decoded = codec.decode_request(&serde_json::to_vec(&body).unwrap(), &context).unwrap();
        let items = decoded.unified.conversation.items;
        found.push(Sent {
            file: file.to_owned(),
            family,
            model,
            atoms: atoms(&items),
            body,
            items,
            session: session(&captured),
        });
    }
    found
}

impl Sent {
    /// The client and its version.
    fn client(&self) -> &str {
        let (folder, name) = self.file.split_once('/').unwrap();
        let version = name.split('-').next().unwrap();
        &self.file[..folder.len() + 1 + version.len()]
    }

    /// Whether it tells the whole of another request and an answer to it.
    fn continues(&self, earlier: &Self) -> bool {
        let shared = earlier.atoms.len();
        let same = |(a, b): (&Atom, &Atom)| a.canonical == b.canonical;
        self.family == earlier.family
            && self.atoms.len() > shared
            && self.atoms.iter().zip(&earlier.atoms).all(same)
            && self.atoms[shared].is_answer()
    }
}

/// An answer in the provider's form: of these items, or a text that nobody repeats.
fn answer(family: &F, items: Vec<UnifiedItem>, number: usize) -> Value {
    let codec = codec_of(family).unwrap();
    let mut fold = OfflineFold::new();
    let text = format!(
        r#"{{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"answer {number}"}},"finish_reason":"stop"}}]}}"#
    );
    fold.push(
        codec_of(&F::OpenAiChat)
            .unwrap()
            .decode_response(text.as_bytes(), &DecodeContext::offline())
            .unwrap(),
    )
    .unwrap();
    let mut result = fold.fold.result();
    if !items.is_empty() {
        result.output = items;
    }
    let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
    serde_json::from_str(&codec.encode_response(&result, &context).unwrap().body).unwrap()
}

/// What a later request tells of the answer to this one.
fn told(later: &Sent, earlier: &Sent) -> Vec<UnifiedItem> {
    let begin = earlier.atoms.len().checked_sub(1).map_or(0, |last| later.atoms[last].item + 1);
    let mut answered = false;
    let mut answer = Vec::new();
    for item in &later.items[begin..] {
        match &item.body {
            // Results may stand between the calls of one answer; a text behind them is the next answer.
            UnifiedItemBody::Message(_) if item.role == Some(Role::User) || answered => break,
            UnifiedItemBody::ToolResult(_) => answered = !answer.is_empty(),
            UnifiedItemBody::Message(_) if item.role != Some(Role::Assistant) => {}
            UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_) | UnifiedItemBody::ToolCall(_) => answer.push(item.clone()),
            _ => {}
        }
    }
    answer
}

/// Sends each request to a provider of the client's own protocol, or of one protocol for all.
struct Provider<'a>(&'a World, Option<F>);

impl Router for Provider<'_> {
    fn route(&self, family: &F, model: &str) -> Result<Vec<Target>, UnifiedError> {
        Ok(vec![self.0.target(self.1.as_ref().unwrap_or(family), model, "key")])
    }
}

/// Where requests landed.
#[derive(Debug, Default, PartialEq, Eq)]
struct Landed {
    /// At the head of the conversation that they continue.
    head: Vec<String>,
    /// On another branch of it.
    forks: Vec<String>,
    /// Elsewhere, though they continue one.
    elsewhere: Vec<String>,
    /// In a conversation of their own, as they are the first of one.
    new: usize,
    /// With somebody else's.
    joined: Vec<String>,
    /// Revisions of results that nobody changed.
    revisions: usize,
}

async fn replay(requests: &[Sent], provider: Option<F>, with_sessions: bool) -> Landed {
    let world = World::new();
    let mut landed = Landed::default();
    let mut places: Vec<(UnifiedId, UnifiedId)> = Vec::new();
    let mut seen = BTreeSet::new();
    for (number, sent) in requests.iter().enumerate() {
        let next = requests[number + 1..].iter().find(|later| later.continues(sent));
        let family = provider.as_ref().unwrap_or(&sent.family);
        let items = next.map(|later| told(later, sent)).unwrap_or_default();
        World::expect(world.script(family), Answer::Json(answer(family, items, number)));
        let mut request = world.request(&sent.family, &sent.body);
        request.model.clone_from(&sent.model);
        request.session = sent.session.clone().filter(|_| with_sessions);
        let turn = world.engine.begin(request, &Provider(&world, provider.clone())).await;
        let turn = turn.unwrap_or_else(|error| panic!("{}: {error:?}", sent.file));
        let place = (turn.conversation_id.clone(), turn.branch_id.clone());
        turn.collect().await.unwrap_or_else(|error| panic!("{}: {error:?}", sent.file));
        // Two clients told the same; what settles it is the IDs that were issued to each.
        let continued = (0..number)
            .rev()
            .filter(|at| sent.continues(&requests[*at]))
            .max_by_key(|at| (requests[*at].atoms.len(), requests[*at].client() == sent.client(), *at));
        match continued {
            Some(at) if places[at] == place => landed.head.push(sent.file.clone()),
            Some(at) if places[at].0 == place.0 => landed.forks.push(sent.file.clone()),
            Some(_) => landed.elsewhere.push(sent.file.clone()),
            None if seen.contains(&place.0) => landed.joined.push(sent.file.clone()),
            None => landed.new += 1,
        }
        seen.insert(place.0.clone());
        places.push(place);
    }
    for (_, branch) in places.iter().collect::<BTreeSet<_>>() {
        landed.revisions += world.store.branch_revisions(branch).await.unwrap().len();
    }
    landed
}

#[tokio::test]
async fn every_request_of_a_real_agent_finds_its_conversation() {
    let Some(folder) = shared("corpus/wire-clients") else { return };
    let requests = captured(&folder);
    assert_eq!(requests.len(), 71);
    assert_eq!(requests.iter().filter(|sent| sent.session.is_some()).count(), 46);
    for (provider, with_sessions) in [
        (None, false),
        (None, true),
        (Some(F::AnthropicMessages), false),
        (Some(F::OpenAiChat), true),
    ] {
        let landed = replay(&requests, provider.clone(), with_sessions).await;
        // The measure of the design: 24 of 25 at the head. The other one is a compaction that was asked for twice, and forks.
        assert_eq!((landed.head.len(), landed.new), (24, 46), "{provider:?} {landed:#?}");
        let expected = Landed {
            forks: vec!["claude-code/2.1.332-compact-02.json".into()],
            head: landed.head.clone(),
            new: landed.new,
            ..Landed::default()
        };
        assert_eq!(landed, expected, "{provider:?}");
    }
}
