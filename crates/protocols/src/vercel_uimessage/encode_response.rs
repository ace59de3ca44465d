//! Answers to the wire: the messages after the turn, as applications store them.

use super::answer::{ALONE, NO_MESSAGE};
use super::encode_message::Messages;
use super::encode_part::Out;
use super::private::{Form, Kept, METADATA, UNMAPPED, message_of};
use super::{Major, is_own, usage};
use crate::codec::Encoded;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::object::Object;
use crate::raw::json;
use throughline_format::loss::LossSeverity;
use throughline_format::resource::UnmappedEntry;
use throughline_format::{Json, UnifiedResultV2};

/// Writes the list of messages. A failed answer is what there is of it: a stored message has no error.
pub(super) fn encode(result: &UnifiedResultV2, context: &EncodeContext) -> Encoded {
    let out = Out::new(context);
    let major = out.major;
    let own = is_own(Some(&result.provenance.profile));
    let mut messages = Messages::new(out, &result.output, "/output");
    let group: Vec<usize> = (0..result.output.len()).collect();
    let parts = messages.assistant_parts(&group);
    let form = Form::of_root(context.private.as_ref());
    let first = result.output.first();
    let known = first.and_then(|item| message_of(context.private.as_ref(), item.provider_data.iter().flatten()));
    let mut message = Object::default();
    let id = known.and_then(|(form, _)| form.id);
    message.set("id", json(&id.unwrap_or_else(|| result.response_id.to_string())));
    if let Some(metadata) = metadata(result, context, &mut messages.out, major) {
        message.set("metadata", metadata);
    }
    message = message.with("role", "assistant").with("parts", &parts);
    if let Some(item) = first {
        Kept::of_message(context.private.as_ref(), item).apply(&mut message);
    }
    let has = |mark: &str| form.absent.iter().any(|word| word == mark);
    let (is_alone, has_message) = (has(ALONE), !has(NO_MESSAGE));
    Form {
        absent: Vec::new(),
        ..form
    }
    .apply(&mut message);
    losses(result, &mut messages.out, own);
    let entries = crate::keeper::unmapped_in(context.private.root_payload(UNMAPPED));
    let body = if is_alone {
        for entry in entries {
            message.put(&entry.pointer, entry.value);
        }
        message.to_json()
    } else {
        list(message, entries, has_message)
    };
    Encoded {
        body: body.as_str().to_owned(),
        loss: messages.out.loss.finish(),
    }
}

/// The answer behind the messages that stood before it.
fn list(mut message: Object, entries: Vec<UnmappedEntry>, has_message: bool) -> Json {
    let place = |entry: &UnmappedEntry| entry.pointer.get(1..).and_then(|token| token.parse::<usize>().ok());
    let mut before: Vec<(usize, Json)> = Vec::new();
    for entry in entries {
        match place(&entry) {
            Some(index) => {
                before.push((index, entry.value));
            }
            None => {
                if let Some((_, rest)) = entry.pointer.get(1..).and_then(|rest| rest.split_once('/')) {
                    message.put(&format!("/{rest}"), entry.value);
                }
            }
        }
    }
    before.sort_by_key(|(index, _)| *index);
    let mut list: Vec<Json> = before.into_iter().map(|(_, value)| value).collect();
    if has_message {
        list.push(message.to_json());
    }
    json(&list)
}

/// The application's own metadata, else the usage.
fn metadata(result: &UnifiedResultV2, context: &EncodeContext, out: &mut Out<'_>, major: Major) -> Option<Json> {
    let own = context
        .private
        .root_payload(METADATA)
        .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
        .and_then(|text| Json::from_text(text).ok());
    if let Some(own) = own
        && usage::decode(&own) == result.usage
    {
        return Some(own);
    }
    let (value, lost) = usage::encode(result.usage.as_ref()?, major.number());
    for member in lost {
        out.loss.info(
            Feature::ResponseUsage,
            format!("/usage/{member}"),
            "the target's usage record has no counter for it",
        );
    }
    value.map(|value| Object::default().with("usage", &value).to_json())
}

/// What a stored message cannot say.
fn losses(result: &UnifiedResultV2, out: &mut Out<'_>, own: bool) {
    for number in 0..result.alternatives.as_ref().map_or(0, Vec::len) {
        out.loss.warning(
            Feature::ResponseCandidates,
            format!("/alternatives/{number}"),
            "the target has one answer",
        );
    }
    if result.error.is_some() {
        out.loss.add(
            LossSeverity::Warning,
            Feature::ResponseFinishReason,
            "/error",
            "a stored message has no error",
        );
    }
    out.loss.report_state(result);
    // How an answer of this wire stands follows from its parts, and its model is nobody's word.
    if own {
        out.loss.renamed("/status", "follows from the parts");
    } else {
        out.loss.info(
            Feature::ResponseFinishReason,
            "/status",
            "a stored message does not say how it ended",
        );
        out.loss.info(
            Feature::RecordBookkeeping,
            "/model",
            "a stored message does not say which model answered",
        );
    }
}
