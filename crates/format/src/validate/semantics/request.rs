//! A request: history, intents, tools, cache marks, state, labels.

use super::parts::{self, Allowed, Known};
use super::shared::{self, Ids};
use super::{conversation, tools, transport};
use crate::UnifiedRequestV2;
use crate::cache::{CacheTtl, UnifiedCacheIntent};
use crate::conversation::Completeness;
use crate::intent::{UnifiedGenerationIntent, UnifiedIntent};
use crate::item::{ItemStatus, Role};
use crate::metadata::UnifiedSemanticMetadata;
use crate::validate::{Check, Rule};
use std::collections::HashMap;

pub(super) fn check(check: &mut Check, request: &UnifiedRequestV2) {
    let input = &request.conversation;
    check.require(
        !request.request_id.is_pending(),
        "requestId",
        Rule::PendingId,
        "a request has an ID of its own",
    );
    let known = Known::of(input.items.iter(), input.completeness == Completeness::Complete);
    let mut part_ids = Ids::of("part");
    let prefill = request.generation.prefill.as_ref().map(|p| &p.value.item_id);
    check.inside("conversation", |check| {
        conversation::check(check, input, &known, prefill, &mut part_ids);
    });
    check.inside("generation", |check| generation(check, request, &known, &mut part_ids));
    tools::check(check, &request.tools, request.tool_choice.as_ref());
    if let Some(cache) = &request.cache {
        check.inside("cache", |check| self::cache(check, cache, request, &known));
    }
    if let Some(state) = &request.state {
        check.inside("state", |check| {
            let mut ids = Ids::of("resource");
            check.each("resources", state.resources.iter().flatten(), |check, resource| {
                ids.add(check, "resourceId", &resource.resource_id);
                let kept = !conversation::continues(&resource.resource_type);
                check.require(
                    kept,
                    "resourceType",
                    Rule::Continuation,
                    "what continues a history stands in conversation.continuations",
                );
            });
        });
    }
    if let Some(format) = request.output.as_ref().and_then(|o| o.format.as_ref()) {
        check.inside("output", |check| {
            check.inside("format", |check| {
                check.inside("value", |check| tools::output_format(check, &format.value));
            });
        });
    }
    if let Some(found) = &request.metadata {
        check.inside("metadata", |check| metadata(check, found));
    }
    check.inside("model", |check| {
        check.require(
            !request.model.requested.is_empty(),
            "requested",
            Rule::Bound,
            "a request names its model",
        );
        check.secret_free("requested", &request.model.requested);
    });
    check.inside("source", |check| transport::source(check, &request.source));
}

fn generation<'a>(check: &mut Check, request: &'a UnifiedRequestV2, known: &Known<'a>, part_ids: &mut Ids<'a>) {
    let wishes: &UnifiedGenerationIntent = &request.generation;
    let value = |wish: &Option<UnifiedIntent<f64>>| wish.as_ref().map(|w| w.value);
    let ranges = [
        ("temperature", &wishes.temperature, 0.0, f64::MAX),
        ("topP", &wishes.top_p, 0.0, 1.0),
        ("minP", &wishes.min_p, 0.0, 1.0),
        ("topK", &wishes.top_k, -1.0, f64::MAX),
        ("repetitionPenalty", &wishes.repetition_penalty, 0.0, f64::MAX),
    ];
    for (member, wish, least, most) in ranges {
        check.inside(member, |check| shared::in_range(check, "value", value(wish), least, most));
    }
    if let Some(prediction) = &wishes.prediction {
        check.inside("prediction", |check| {
            check.inside("value", |check| {
                parts::ids(check, "parts", &prediction.value.parts, part_ids);
                parts::list(check, "parts", &prediction.value.parts, known, Allowed::Content);
            });
        });
    }
    if let Some(prefill) = &wishes.prefill {
        let last = request.conversation.items.last();
        let fits =
            last.is_some_and(|i| i.id == prefill.value.item_id && i.role == Some(Role::Assistant) && i.status == ItemStatus::InProgress);
        check.inside("prefill", |check| {
            check.inside("value", |check| {
                check.require(
                    fits,
                    "itemId",
                    Rule::Prefill,
                    "it names the last item, which is the assistant's and in progress",
                );
            });
        });
    }
    if let Some(video) = wishes.media.as_ref().and_then(|m| m.video.as_ref()) {
        check.below("/media/video/value", |check| {
            shared::not_negative(check, "durationSeconds", video.value.duration_seconds);
        });
    }
}

/// Words that providers begin their own names with: such a name is no portable key.
const PROVIDER_NAMES: &[&str] = &["cachedContents/", "resp_", "container_", "cntr_", "msg_", "chatcmpl-"];

fn cache<'a>(check: &mut Check, cache: &'a UnifiedCacheIntent, request: &'a UnifiedRequestV2, known: &Known<'a>) {
    if let Some(key) = &cache.affinity_key {
        let foreign =
            PROVIDER_NAMES.iter().any(|name| key.starts_with(name)) || (key.starts_with("projects/") && key.contains("/cachedContents/"));
        check.require(
            !foreign,
            "affinityKey",
            Rule::AffinityKey,
            "the name of a provider's own resource is sealed, not a key",
        );
        check.require((1..=1_024).contains(&key.len()), "affinityKey", Rule::Bound, "1 to 1,024 bytes");
        check.secret_free("affinityKey", key);
    }
    // Lives by place; items bring theirs from the native API.
    let mut lives: HashMap<_, Option<CacheTtl>> = request
        .conversation
        .items
        .iter()
        .filter_map(|item| item.cache.as_ref().map(|mark| ((&item.id, None), mark.ttl)))
        .collect();
    let part_of: HashMap<_, _> = request
        .conversation
        .items
        .iter()
        .flat_map(|i| i.parts().iter().map(|p| (&p.part_id, &i.id)))
        .collect();
    check.each("breakpoints", cache.breakpoints.iter().flatten(), |check, mark| {
        let item = known.items.contains_key(&mark.item_id);
        check.require(item, "itemId", Rule::UnknownReference, "no item of the request has this ID");
        if let Some(part) = &mark.part_id {
            let inside = !item || part_of.get(part) == Some(&&mark.item_id);
            check.require(inside, "partId", Rule::UnknownReference, "the item has no such part");
        }
        let seconds = |ttl: Option<CacheTtl>| ttl.map(CacheTtl::seconds);
        let earlier = lives.insert((&mark.item_id, mark.part_id.as_ref()), mark.ttl);
        let kept = earlier.is_none_or(|e| seconds(e) == seconds(mark.ttl));
        check.require(kept, "ttl", Rule::CacheTtl, "this place has a mark with another life already");
        check.require(seconds(mark.ttl) != Some(0), "ttl", Rule::Number, "a life is longer than 0 seconds");
    });
}

/// Labels and end user.
pub(super) fn metadata(check: &mut Check, metadata: &UnifiedSemanticMetadata) {
    if let Some(labels) = &metadata.labels {
        check.inside("labels", |check| {
            if labels.0.len() > 64 {
                check.broken(Rule::Metadata, "at most 64 labels");
            }
            for (key, value) in &labels.0 {
                check.require(key.chars().count() <= 64, key, Rule::Metadata, "a key has at most 64 characters");
                check.require(
                    value.chars().count() <= 512,
                    key,
                    Rule::Metadata,
                    "a value has at most 512 characters",
                );
                check.secret_free(key, value);
                let named = crate::secrets::is_credential_name(key) || crate::secrets::find(key).is_some();
                check.require(!named, key, Rule::Secret, "a label is named as credentials are, or is one");
            }
        });
    }
    if let Some(user) = &metadata.end_user_ref {
        check.require(
            user.chars().count() <= 1_024,
            "endUserRef",
            Rule::Metadata,
            "at most 1,024 characters",
        );
        check.secret_free("endUserRef", user);
    }
}
