//! Long inline data inside of events: an event is kept as bytes, so its data leaves it only where the same bytes come back.

use super::{Splitter, each_media, join_parts};
use crate::{ArtifactFiles, StoreError, StoreLimits};
use bytes::Bytes;
use throughline_format::event::{EventBody, ItemDelta, UnifiedEventV2};
use throughline_format::json::decode::decode_unscanned;
use throughline_format::media::UnifiedDataSource;
use throughline_format::{UnifiedArtifact, UnifiedContentPart, UnifiedId};

/// The event, when these are the bytes that it is written as.
fn read(bytes: &[u8]) -> Option<UnifiedEventV2> {
    let event: UnifiedEventV2 = decode_unscanned(bytes).ok()?;
    (serde_json::to_vec(&event).ok()? == bytes).then_some(event)
}

fn write(event: &UnifiedEventV2) -> Result<Bytes, StoreError> {
    let bytes = serde_json::to_vec(event).map_err(|_| StoreError::internal("an event cannot be written"))?;
    Ok(Bytes::from(bytes))
}

/// Gives `change` the lists of parts that an event carries.
fn each_list(
    event: &mut UnifiedEventV2,
    change: &mut dyn FnMut(&mut Vec<UnifiedContentPart>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let part = match &mut event.body {
        EventBody::ItemStarted(started) => return started.item.parts_mut().map_or(Ok(()), change),
        EventBody::ItemCompleted(done) => return done.item.as_mut().and_then(|item| item.parts_mut()).map_or(Ok(()), change),
        EventBody::ItemDelta(delta) => match &mut delta.delta {
            ItemDelta::PartStarted(started) => &mut started.part,
            ItemDelta::Output(output) => match &mut output.part {
                Some(part) => part,
                None => return Ok(()),
            },
            ItemDelta::PartCompleted(_) | ItemDelta::Media(_) | ItemDelta::Field(_) => return Ok(()),
        },
        EventBody::SourceReady(ready) | EventBody::ArtifactReady(ready) => &mut ready.part,
        _ => return Ok(()),
    };
    let mut list = vec![part.clone()];
    change(&mut list)?;
    if let Some(changed) = list.pop() {
        *part = changed;
    }
    Ok(())
}

/// Whether data may have to leave an event.
pub(super) fn is_long(event: &[u8], bound: usize) -> bool {
    event.len() > bound
}

/// Takes the data out of an event; `None` when there is none, or the event would not come back as it was.
pub(super) fn split(event: &Bytes, splitter: &mut Splitter<'_>, operation_id: &UnifiedId) -> Result<Option<Bytes>, StoreError> {
    if !is_long(event, splitter.bound) {
        return Ok(None);
    }
    let Some(mut read) = read(event) else { return Ok(None) };
    let before = splitter.contents.len();
    each_list(&mut read, &mut |parts| splitter.parts(Some(parts), operation_id))?;
    if splitter.contents.len() == before {
        return Ok(None);
    }
    write(&read).map(Some)
}

/// Bytes of an event as it is kept: without the data that leaves it.
pub(crate) fn kept_length(event: &Bytes, limits: &StoreLimits) -> usize {
    if event.len() <= limits.event_bytes {
        return event.len();
    }
    let mut splitter = Splitter::new("", limits);
    let kept = split(event, &mut splitter, &UnifiedId::pending());
    kept.ok().flatten().map_or(event.len(), |kept| kept.len())
}

/// Puts the data back into an event; `find` gives the metadata of an artifact.
pub fn join_event(
    event: Bytes,
    files: &ArtifactFiles,
    find: &mut dyn FnMut(&UnifiedId) -> Result<Option<UnifiedArtifact>, StoreError>,
) -> Result<Bytes, StoreError> {
    if !names_data(&event) {
        return Ok(event);
    }
    let Some(mut joined) = read(&event) else { return Ok(event) };
    each_list(&mut joined, &mut |parts| join_parts(Some(parts), files, find))?;
    write(&joined)
}

/// Whether the bytes hold what the ID of externalised data begins with.
fn names_data(event: &[u8]) -> bool {
    // Most events are short, and few have an artifact at all.
    event.windows(super::PREFIX.len()).any(|window| window == super::PREFIX.as_bytes())
}

/// IDs of externalised data that an event brings along instead of data.
pub(super) fn reserved(event: &[u8], found: &mut Vec<UnifiedId>) {
    let Some(mut read) = names_data(event).then(|| read(event)).flatten() else {
        return;
    };
    // Nothing is changed, so nothing fails.
    let _ = each_list(&mut read, &mut |parts| {
        each_media(Some(parts), &mut |media| {
            if let UnifiedDataSource::Artifact(source) = &media.source
                && source.artifact_id.as_str().starts_with(super::PREFIX)
            {
                found.push(source.artifact_id.clone());
            }
            Ok(())
        })
    });
}
