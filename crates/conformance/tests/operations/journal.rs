//! ITEM-06 and ITEM-07: what happens to items between a client, the journal, and a bundle.

use crate::support::*;
use bytes::Bytes;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use throughline_engine::{CompactRequest, ImportIds, ItemQuery, NewConversation, NewItems};
use throughline_format::export::UnifiedExportV2;
use throughline_format::item::ItemStatus;
use throughline_format::json::decode_slice;
use throughline_format::media::encode_base64;
use throughline_format::schema::json_schema;
use throughline_format::validate::semantics;
use throughline_format::{Sha256, UnifiedId, UnifiedItem, UnifiedItemRevision, UnifiedRequestV2, clause, fingerprint};
use throughline_protocols::{Capabilities, EncodeContext, codec_of};
use throughline_store::{WriteBatch, WriteOp};

const PICTURE: &[u8] = b"not really a picture";
const TIME: &str = "2026-01-01T00:00:00.000Z";
/// Over the bound for inline data, so the store keeps it as a file.
const LONG: usize = 300 * 1_024;

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap_or_else(|error| panic!("{error}"))
}

fn item(id: &str, status: &str, members: &Value) -> UnifiedItem {
    let mut whole = json!({"id": id, "conversationId": "pending", "branchId": "pending", "sequence": 1, "createdAt": TIME, "visibility": "model", "status": status,
        "provenance": {"origin": "client", "attribution": {"modelProvider": "anthropic"}}});
    whole.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    read(&whole)
}

/// The kinds that clients write, each in a state that a client may send.
fn of_clients() -> Vec<UnifiedItem> {
    let text = |id: &str| json!([{"kind": "text", "partId": format!("{id}.p0"), "text": "x \u{0}\u{1F600} \"quoted\"\r\n"}, {"kind": "json", "partId": format!("{id}.p1"), "value": {"b": 1.0, "a": [1, 2]}}]);
    let image = |id: &str, bytes: usize| json!({"kind": "image", "partId": format!("{id}.p2"), "source": {"kind": "inline", "encoding": "base64", "mediaType": "image/png", "data": encode_base64(&vec![7; bytes])}, "media": {"mediaType": "image/png"}});
    let call = |kind: &str, call: &str, execution: &str| {
        json!({"kind": kind, "role": "assistant", "callId": call, "name": "bash", "toolType": if kind == "tool-call" { "function" } else { "web-search" },
            "input": {"cmd": "ls", "n": 1.0}, "rawArguments": "{\"cmd\":\"ls\",\"n\":1.0}", "lifecycle": "arguments-ready", "execution": execution, "providerExecuted": execution == "provider"})
    };
    let error = json!({"category": "server", "code": "server.overloaded", "message": "no", "retryable": true});
    let list = [
        (
            "completed",
            json!({"kind": "message", "role": "user", "parts": [text("k0")[0], text("k0")[1], image("k0", LONG)]}),
        ),
        ("incomplete", json!({"kind": "message", "role": "assistant", "parts": text("k1")})),
        (
            "completed",
            json!({"kind": "reasoning", "role": "assistant", "parts": [{"kind": "reasoning", "partId": "k2.p0", "text": "hm", "form": "summary", "state": "disclosed"}]}),
        ),
        ("completed", call("tool-call", "call|1:a", "client")),
        (
            "failed",
            json!({"kind": "tool-result", "role": "tool", "callId": "call|1:a", "output": [text("k4")[0], image("k4", 9)], "isError": true, "error": error, "execution": "client"}),
        ),
        (
            "completed",
            json!({"kind": "approval-request", "approvalId": "a1", "subject": "plan", "reasons": [{"code": "c", "message": "m"}]}),
        ),
        (
            "completed",
            json!({"kind": "approval-response", "approvalId": "a1", "decision": "approved", "acknowledged": ["c"]}),
        ),
        ("cancelled", call("server-tool-call", "srv_1", "provider")),
        (
            "completed",
            json!({"kind": "server-tool-result", "callId": "srv_1", "toolType": "web-search", "output": [], "execution": "provider"}),
        ),
        (
            "completed",
            json!({"kind": "computer-action", "role": "assistant", "callId": "c2", "environment": "browser", "actions": [{"action": "click", "x": 1.50}], "lifecycle": "arguments-ready", "execution": "client"}),
        ),
        (
            "completed",
            json!({"kind": "computer-action-result", "role": "tool", "callId": "c2", "output": [image("k10", 9)], "currentUrl": "https://example.org/"}),
        ),
        (
            "completed",
            json!({"kind": "code-execution", "callId": "c3", "code": "1+1", "lifecycle": "output-ready", "execution": "provider"}),
        ),
        (
            "completed",
            json!({"kind": "code-execution-result", "callId": "c3", "outcome": "ok", "exitCode": 0, "stdout": "2\n", "output": []}),
        ),
        (
            "completed",
            json!({"kind": "search-result", "queries": ["q"], "parts": [{"kind": "grounding-source", "partId": "k13.p0", "source": {"sourceId": "s1", "type": "web", "uri": "https://example.org/"}}]}),
        ),
        ("completed", json!({"kind": "retrieval-result", "queries": [], "parts": []})),
        (
            "completed",
            json!({"kind": "artifact", "artifactId": "art_1", "sha256": Sha256::of(PICTURE), "media": {"name": "a.png"}, "purpose": "generated"}),
        ),
        (
            "completed",
            json!({"kind": "message", "role": "user", "parts": [{"kind": "artifact-reference", "partId": "k16.p0", "artifactId": "art_1", "sha256": Sha256::of(PICTURE)}]}),
        ),
        (
            "completed",
            json!({"kind": "reference", "target": {"kind": "item", "itemId": "k0"}}),
        ),
    ];
    let numbered = list.iter().enumerate();
    numbered
        .map(|(n, (status, members))| item(&format!("k{n}"), status, members))
        .collect()
}

/// Kinds that tell what the gateway did, besides the summary that it makes when asked.
fn of_the_gateway() -> Vec<UnifiedItem> {
    let error = json!({"category": "server", "code": "server.overloaded", "message": "no", "retryable": true});
    let list = [
        json!({"kind": "provider-switch", "to": {"modelProvider": "google"}, "toProfile": {"family": "gemini-generate-content"}, "reason": "route"}),
        json!({"kind": "interruption", "cause": "connection-lost", "operationId": "op_1", "openCallIds": []}),
        json!({"kind": "error", "error": error}),
    ];
    list.iter()
        .enumerate()
        .map(|(n, members)| item(&format!("g{n}"), "completed", members))
        .collect()
}

async fn all_items(world: &World, conversation: &UnifiedId) -> Vec<UnifiedItem> {
    let query = ItemQuery {
        limit: 200,
        ..ItemQuery::default()
    };
    world.engine.items(&me(), conversation, query).await.unwrap().items
}

async fn bundle(world: &World, conversation: &UnifiedId) -> UnifiedExportV2 {
    world.engine.export(&me(), conversation).await.unwrap()
}

fn lines(bundle: &UnifiedExportV2) -> Vec<u8> {
    let content = json!({"sha256": Sha256::of(PICTURE), "data": encode_base64(PICTURE)});
    format!("{}\n{content}\n", serde_json::to_string(bundle).unwrap()).into_bytes()
}

/// A conversation with every kind: those of clients through the API, the others as the gateway writes them.
async fn every_kind(world: &World) -> UnifiedId {
    let begun = NewConversation {
        title: Some("every kind".into()),
        metadata: None,
        items: Vec::new(),
    };
    let (id, _) = world.engine.create_conversation(&me(), begun).await.unwrap();
    let conversation = world.store.conversation(&id).await.unwrap().unwrap();
    let artifact = read(
        &json!({"artifactId": "art_1", "sha256": Sha256::of(PICTURE), "size": PICTURE.len(), "mediaType": "image/png", "sealed": false, "createdAt": TIME}),
    );
    world.store.put_content(Bytes::from_static(PICTURE)).await.unwrap();
    let commit = async |ops: Vec<WriteOp>| {
        let now = throughline_format::Timestamp::from_millis(START);
        let batch = WriteBatch {
            now,
            conversation_id: id.clone(),
            ops,
        };
        world.store.commit(batch).await.unwrap();
    };
    commit(vec![
        WriteOp::PutArtifact {
            principal_ref: conversation.principal_ref.clone(),
            artifact,
        },
        WriteOp::AddArtifactRef {
            artifact_id: UnifiedId::parse("art_1").unwrap(),
            subject: UnifiedId::parse("k15").unwrap(),
        },
    ])
    .await;
    let sent = of_clients();
    let new = NewItems {
        branch: None,
        expected_head: None,
        items: sent.clone(),
    };
    let stored = world.engine.append_items(&me(), &id, new).await.unwrap();
    assert_eq!(stored.len(), sent.len());
    let head = stored.last().map(|item| item.id.clone());
    commit(vec![WriteOp::AppendItems {
        branch_id: conversation.default_branch_id.clone(),
        expected_head: head,
        items: of_the_gateway(),
    }])
    .await;
    let summary = CompactRequest {
        conversation_id: id.clone(),
        branch_id: None,
        through_item_id: stored[1].id.clone(),
        summary: vec![read(&json!({"kind": "text", "partId": "s.p0", "text": "so far"}))],
    };
    world.engine.compact(&me(), summary).await.unwrap();

    // What came in is what is read, but for the IDs that the store gives.
    let read_back = all_items(world, &id).await;
    for (sent, stored) in sent.iter().chain(&of_the_gateway()).zip(&read_back) {
        assert_eq!(bare(stored), bare(sent));
        assert_eq!((stored.role, stored.status), (sent.role, sent.status));
    }
    id
}

/// What an item says, without its place and the IDs of items, parts and artifacts.
fn bare(item: &UnifiedItem) -> Value {
    let mut item = item.clone();
    let blank = |id: &mut UnifiedId| *id = UnifiedId::parse("blank").unwrap();
    throughline_format::rename::item(&mut item, &mut |id| blank(id));
    throughline_format::rename::artifacts(&mut item, &mut |id| blank(id));
    let mut whole = serde_json::to_value(&item).unwrap();
    // Its place; the audit hash is made of the IDs.
    for member in [
        "id",
        "conversationId",
        "branchId",
        "sequence",
        "parentId",
        "createdAt",
        "provenance",
        "auditHash",
    ] {
        whole.as_object_mut().unwrap().remove(member);
    }
    whole
}

#[tokio::test]
async fn every_kind_makes_the_trip_from_api_to_journal_to_bundle_to_another_store() {
    for at in 0..homes().len() {
        clause!("ITEM-06");
        let home = &homes()[at];
        let world = World::open(home, 1);
        let id = every_kind(&world).await;
        let kinds: BTreeSet<&str> = all_items(&world, &id).await.iter().map(|item| item.body.kind()).collect();
        assert_eq!(kinds.len(), 20, "{kinds:?}");
        let exported = bundle(&world, &id).await;
        assert!(semantics::export(&exported).is_empty(), "{:?}", semantics::export(&exported));

        // Into another store with its IDs: everything is equal, the fingerprint of each item included.
        for other in &homes() {
            let copy = World::open(other, 5_000);
            copy.engine.import(&me(), lines(&exported).into(), ImportIds::Keep).await.unwrap();
            let again = bundle(&copy, &id).await;
            assert_eq!(
                (&again.items, &again.branches, &again.artifacts),
                (&exported.items, &exported.branches, &exported.artifacts)
            );
            for (left, right) in exported.items.iter().zip(&again.items) {
                assert_eq!(fingerprint(left).unwrap(), fingerprint(right).unwrap());
            }
            let content = copy.engine.artifact_content(&again.artifacts[0]).await.unwrap();
            assert_eq!(&content[..], PICTURE);
            assert!(copy.store.check().await.unwrap().problems.is_empty());

            // They are taken now, so the next copy gets others, and says the same.
            let summary = copy.engine.import(&me(), lines(&exported).into(), ImportIds::Keep).await.unwrap();
            let third: UnifiedId = read(&serde_json::to_value(&summary).unwrap()["conversationId"]);
            assert_ne!(third, id);
            let third = bundle(&copy, &third).await;
            assert!(semantics::export(&third).is_empty(), "{:?}", semantics::export(&third));
            let said = |bundle: &UnifiedExportV2| bundle.items.iter().map(bare).collect::<Vec<_>>();
            assert_eq!(said(&third), said(&exported));
            assert_ne!(third.artifacts[0].artifact_id, exported.artifacts[0].artifact_id);
            assert_eq!(bundle(&copy, &id).await.items, exported.items, "the first copy is left alone");
            copy.close(other).await;
        }
        world.close(home).await;
    }
}

#[tokio::test]
async fn an_import_is_whole_or_leaves_nothing() {
    let home = &homes()[1];
    let world = World::open(home, 1);
    let id = every_kind(&world).await;
    let exported = bundle(&world, &id).await;
    let record = serde_json::to_string(&exported).unwrap();
    let other = Sha256::of(b"other");
    let line = |sha256: &Sha256, data: &[u8]| json!({"sha256": sha256, "data": encode_base64(data)}).to_string();
    let own = Sha256::of(PICTURE);
    for (name, body) in [
        ("no content", record.clone()),
        ("content of another artifact", format!("{record}\n{}", line(&other, b"other"))),
        ("content that is not of its digest", format!("{record}\n{}", line(&own, b"forged"))),
        ("no line of an artifact", format!("{record}\n{{\"sha256\":\"{own}\"}}")),
        ("no base64", format!("{record}\n{{\"sha256\":\"{own}\",\"data\":\"*\"}}")),
    ] {
        let empty = &homes()[1];
        let copy = World::open(empty, 5_000);
        for ids in [ImportIds::Keep, ImportIds::New] {
            let error = copy.engine.import(&me(), body.clone().into(), ids).await.unwrap_err();
            assert_eq!(error.code, "invalid-request.artifacts", "{name}");
        }
        let list = throughline_engine::ConversationQuery {
            limit: 10,
            ..Default::default()
        };
        assert!(copy.engine.conversations(&me(), list).await.unwrap().conversations.is_empty());
        copy.close(empty).await;
    }
    // An item of the bundle is taken: nothing of the kept IDs is half there, and the other conversation is as it was.
    let taken = &homes()[1];
    let copy = World::open(taken, 5_000);
    let first = exported.items[0].id.clone();
    let mut foreign = with_only(&exported, &first);
    foreign.fingerprint = semantics::export_fingerprint(&foreign).unwrap();
    copy.engine.import(&me(), lines(&foreign).into(), ImportIds::Keep).await.unwrap();
    let summary = copy.engine.import(&me(), lines(&exported).into(), ImportIds::Keep).await.unwrap();
    let new: UnifiedId = read(&serde_json::to_value(&summary).unwrap()["conversationId"]);
    assert_ne!(new, id);
    assert_eq!(bundle(&copy, &new).await.items.len(), exported.items.len());
    assert_eq!(bundle(&copy, &foreign.conversation.conversation_id).await.items, foreign.items);
    copy.close(taken).await;
    world.close(home).await;
}

/// Another conversation whose only item has the ID of one of these.
fn with_only(of: &UnifiedExportV2, item_id: &UnifiedId) -> UnifiedExportV2 {
    let mut other = of.clone();
    other.conversation.conversation_id = UnifiedId::parse("conv_other").unwrap();
    other.conversation.default_branch_id = UnifiedId::parse("br_other").unwrap();
    other.items.retain(|item| item.id == *item_id);
    other.branches.truncate(1);
    for item in &mut other.items {
        item.base.conversation_id = other.conversation.conversation_id.clone();
        item.base.branch_id = other.conversation.default_branch_id.clone();
    }
    for branch in &mut other.branches {
        branch.branch_id = other.conversation.default_branch_id.clone();
        branch.conversation_id = other.conversation.conversation_id.clone();
        branch.head_item_id = Some(item_id.clone());
        branch.head_sequence = 1;
    }
    other
}

#[tokio::test]
async fn the_current_view_is_the_base_with_its_revisions_and_a_terminal_status_stays() {
    clause!("ITEM-06");
    let states = [
        ItemStatus::InProgress,
        ItemStatus::Completed,
        ItemStatus::Incomplete,
        ItemStatus::Failed,
        ItemStatus::Cancelled,
    ];
    for at in 0..homes().len() {
        let home = &homes()[at];
        let world = World::open(home, 1);
        for seed in 0..40_usize {
            let (id, _) = world
                .engine
                .create_conversation(
                    &me(),
                    NewConversation {
                        title: None,
                        metadata: None,
                        items: Vec::new(),
                    },
                )
                .await
                .unwrap();
            let branch_id = world.store.conversation(&id).await.unwrap().unwrap().default_branch_id;
            let name = format!("m{seed}");
            let base = item(&name, "in-progress", &json!({"kind": "message", "role": "assistant", "parts": []}));
            let now = throughline_format::Timestamp::from_millis(START);
            let append = WriteOp::AppendItems {
                branch_id,
                expected_head: None,
                items: vec![base],
            };
            world.store.commit(WriteBatch::new(now, id.clone()).with(append)).await.unwrap();
            let (mut status, mut text, mut number) = (ItemStatus::InProgress, None, 0);
            for step in 0..12_usize {
                // A plain mix of the seed and the step: statuses and texts in every order.
                let mix = (seed * 7 + step * step * 3 + step) % 10;
                let to = states[mix % states.len()];
                let words = format!("text {step}");
                let change = if mix < states.len() {
                    json!({"status": to})
                } else {
                    json!({"status": to, "parts": [{"kind": "text", "partId": format!("{name}.q{step}"), "text": words}]})
                };
                let revision: UnifiedItemRevision = read(
                    &json!({"revisionId": format!("rev_{seed}_{step}"), "itemId": name, "number": number + 1, "createdAt": now, "change": change, "reason": "test"}),
                );
                let outcome = world
                    .store
                    .commit(WriteBatch::new(now, id.clone()).with(WriteOp::AddRevision(revision)))
                    .await;
                let legal = to == status || status == ItemStatus::InProgress;
                assert_eq!(outcome.is_ok(), legal, "{status} to {to}");
                if legal {
                    (status, number) = (to, number + 1);
                    text = if mix < states.len() { text } else { Some(words) };
                }
                let now = all_items(&world, &id).await.remove(0);
                assert_eq!(
                    (now.status, now.parts().first().and_then(|p| p.as_text())),
                    (status, text.as_deref())
                );
            }
            // The bundle has both, and a copy of it the same view.
            let exported = bundle(&world, &id).await;
            assert_eq!(
                (exported.items[0].status, exported.revisions.len() as u64),
                (ItemStatus::InProgress, number)
            );
            let summary = world
                .engine
                .import(&me(), serde_json::to_vec(&exported).unwrap().into(), ImportIds::New)
                .await
                .unwrap();
            let copy: UnifiedId = read(&serde_json::to_value(&summary).unwrap()["conversationId"]);
            let copied = all_items(&world, &copy).await.remove(0);
            assert_eq!(
                (copied.status, copied.parts().first().and_then(|p| p.as_text())),
                (status, text.as_deref())
            );
        }
        world.close(home).await;
    }
}

#[tokio::test]
async fn a_message_of_a_role_is_made_of_items_when_it_is_asked_for_and_is_nowhere_kept() {
    clause!("ITEM-07");
    // Not accepted as history: no root record and no item takes one.
    let message = json!({"role": "user", "content": "hi"});
    let native: Value = serde_json::from_slice(&native(&[], &[said("hi")]).body).unwrap();
    for (pointer, value) in [
        ("/messages", json!([message])),
        ("/conversation/messages", json!([message])),
        ("/conversation/items/0", message.clone()),
        ("/conversation/items/0/content", json!("hi")),
    ] {
        let mut body = native.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        match body.pointer_mut(parent).unwrap() {
            Value::Array(list) => list[0] = value,
            object => object[name] = value,
        }
        assert!(decode_slice::<UnifiedRequestV2>(body.to_string().as_bytes()).is_err(), "{pointer}");
    }
    // No record has a member for a list of them, so none is fingerprinted.
    let schema = json_schema().to_string();
    assert!(schema.contains("\"parts\"") && !schema.contains("\"messages\""));

    // Not stored: no table and no row.
    let home = &homes()[1];
    let world = World::open(home, 1);
    world.answers(&says("hello"));
    let turn = world.begin(crate::support::native(&[], &[said("hi")])).await;
    let (conversation, id) = (turn.conversation_id.clone(), turn.operation_id.clone());
    turn.collect().await.unwrap();
    assert_eq!(
        world.provider.bodies.lock().unwrap()[0]["messages"][0]["role"],
        "user",
        "the provider got messages"
    );
    let stored = all_items(&world, &conversation).await;
    world.close(home).await;
    let Home::Sqlite(folder) = home else { panic!("a folder") };
    let sql = rusqlite::Connection::open(folder.path().join("throughline.db")).unwrap();
    let names: String = sql
        .query_row("SELECT group_concat(sql, ' ') FROM sqlite_schema", [], |row| row.get(0))
        .unwrap();
    assert!(names.contains("journal_items") && !names.contains("message"), "{names}");
    let mut rows = sql.prepare("SELECT body FROM journal_items").unwrap();
    let bodies: Vec<Value> = rows
        .query_map([], |row| {
            row.get::<_, Vec<u8>>(0)
                .or_else(|_| row.get::<_, String>(0).map(String::into_bytes))
        })
        .unwrap()
        .map(|body| serde_json::from_slice(&body.unwrap()).unwrap())
        .collect();
    assert_eq!(bodies.len(), 2, "{id}");
    for body in &bodies {
        assert!(
            body["kind"].is_string() && body["parts"].is_array() && body.get("content").is_none() && body.get("messages").is_none(),
            "{body}"
        );
    }

    // On demand, in the words of each family, of the same items; they are what they were.
    let before: Vec<_> = stored.iter().map(|item| fingerprint(item).unwrap()).collect();
    for (family, pointer) in [
        (throughline_format::ProtocolFamily::OpenAiChat, "/messages/0/role"),
        (throughline_format::ProtocolFamily::AnthropicMessages, "/messages/0/role"),
        (throughline_format::ProtocolFamily::GeminiGenerateContent, "/contents/0/role"),
    ] {
        let codec = codec_of(&family).unwrap();
        let mut request: UnifiedRequestV2 = read(&native);
        request.conversation.items.clone_from(&stored);
        let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
        let body = codec.encode_request(&request, &context).unwrap().body;
        let body: Value = serde_json::from_slice(body.as_ref()).unwrap();
        assert_eq!(body.pointer(pointer), Some(&json!("user")), "{family}");
    }
    assert_eq!(before, stored.iter().map(|item| fingerprint(item).unwrap()).collect::<Vec<_>>());
}
