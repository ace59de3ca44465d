//! Contents that are not quite of the API's shape: of old versions, of other writers, cut by tools.

use crate::fields::{Fields, member};
use crate::ids;
use serde_json::value::RawValue;
use throughline_format::{Json, UnifiedItem};
use throughline_protocols::raw;

/// The content with what can be told repaired, and the numbers of the blocks that cannot be read.
///
/// A call without an ID gets one, a result without one answers the first call that nobody answered yet, a text among the blocks is a
/// text block. `is_readable` tries a block.
pub(super) fn content(message: &Fields<'_>, key: &str, before: &[UnifiedItem], is_readable: impl Fn(&Json) -> bool) -> (Json, Vec<usize>) {
    let list = message.list("content");
    if list.is_empty() {
        // Neither text nor blocks.
        return (raw::json::<[u8; 0]>(&[]), vec![0]);
    }
    let mut open = open_calls(before);
    let (mut blocks, mut lost) = (Vec::new(), Vec::new());
    for (at, block) in list.into_iter().enumerate() {
        let Some(repaired) = block_of(block, at, key, &mut open) else {
            lost.push(at);
            continue;
        };
        if is_readable(&repaired) {
            blocks.push(repaired);
        } else {
            lost.push(at);
        }
    }
    (raw::json(&blocks), lost)
}

/// One block with what can be told repaired; `None` for what is neither text nor block.
fn block_of(block: &RawValue, at: usize, key: &str, open: &mut Vec<String>) -> Option<Json> {
    if let Ok(text) = serde_json::from_str::<String>(block.get()) {
        return Some(raw::object(vec![member("type", "text"), member("text", &text)]));
    }
    let fields = Fields::parse(block.get())?;
    let block = Json::from_raw(block);
    Some(match fields.text("type").as_deref() {
        Some("tool_use") if fields.word("id").is_none() => {
            let id = format!("toolu_{}", ids::uuid(&[key, &at.to_string()]).replace('-', ""));
            open.push(id.clone());
            with_input(raw::put(&block, "/id", &raw::json(&id)), &fields)
        }
        Some("tool_use") => with_input(block, &fields),
        Some("tool_result") if fields.word("tool_use_id").is_none() => {
            let call = if open.is_empty() { "unknown".to_owned() } else { open.remove(0) };
            raw::put(&block, "/tool_use_id", &raw::json(&call))
        }
        _ => block,
    })
}

fn with_input(block: Json, fields: &Fields<'_>) -> Json {
    if fields.raw("input").is_some() {
        block
    } else {
        raw::put(&block, "/input", &raw::object(Vec::new()))
    }
}

/// Calls that have no result yet, oldest first.
fn open_calls(items: &[UnifiedItem]) -> Vec<String> {
    let mut open: Vec<String> = Vec::new();
    for item in items {
        let Some(id) = item.call_id() else { continue };
        if item.lifecycle().is_some() {
            open.push(id.to_owned());
        } else {
            open.retain(|known| known != id);
        }
    }
    open
}
