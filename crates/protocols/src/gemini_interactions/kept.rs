//! What the record cannot say: its schemas.

use crate::context::EncodeContext;
use crate::keeper::{Keep, Keeper, payload_of, text_of};
use crate::raw::{self, object};
use throughline_format::resource::ResourceType;
use throughline_format::{Json, UnifiedId, UnifiedProviderDataRef};

/// Schema of a thought's signature.
pub(super) const SIGNATURE: &str = "gemini-interactions/thought-signature@1";
/// Schema of a step that holds private state of the provider, as written.
pub(super) const STEP: &str = "gemini-interactions/step@1";
/// Schema of the form of something: members as written.
pub(super) const FORM: &str = "gemini-interactions/form@1";
/// Schema of the form of a body.
pub(super) const BODY: &str = "gemini-interactions/body-form@1";
/// Schema of an interaction's ID.
pub(super) const INTERACTION: &str = "gemini-interactions/interaction-id@1";
/// Schema of a continuation token.
pub(super) const CONTINUATION: &str = "gemini-interactions/continuation-token@1";
/// Schema of the ID of the last event, after which a stream can go on.
pub(super) const EVENT: &str = "gemini-interactions/event-id@1";
/// Schema of an interaction without its steps.
pub(super) const ANSWER: &str = "gemini-interactions/answer@1";
/// Schema of an error body as written.
pub(super) const ERROR_BODY: &str = "gemini-interactions/error-body@1";

/// Keeps members as they were written.
pub(super) fn form(
    keeper: &mut Keeper,
    schema: &'static str,
    subject: Option<&UnifiedId>,
    resource_id: UnifiedId,
    path: &str,
    members: Vec<(String, Json)>,
) -> Option<UnifiedProviderDataRef> {
    if members.is_empty() {
        return None;
    }
    let paths = members.iter().map(|(key, _)| format!("{path}/{key}")).collect();
    let kept = Keep {
        schema,
        resource_type: ResourceType::Other("form".into()),
        subject,
        resource_id,
        paths,
    };
    Some(keeper.payload(kept, object(members).as_str().as_bytes().to_vec()))
}

/// Members as they were written, when the target may see them; a `null` means that there was none.
pub(super) fn form_of(references: Option<&Vec<UnifiedProviderDataRef>>, context: &EncodeContext) -> Vec<(String, Json)> {
    payload_of(references, FORM, context)
        .and_then(|bytes| crate::keeper::to_json(&bytes))
        .map(|json| raw::members(&json))
        .unwrap_or_default()
}

/// Puts members into an object, in the place of what stands there.
pub(super) fn with_members(json: Json, members: &[(String, Json)]) -> Json {
    members.iter().fold(json, |json, (key, value)| {
        let key = throughline_format::json::escape_pointer_token(key);
        raw::put(&json, &format!("/{key}"), value)
    })
}

/// The whole step, when the target may see it.
pub(super) fn step_of(references: Option<&Vec<UnifiedProviderDataRef>>, context: &EncodeContext) -> Option<Json> {
    Json::from_text(text_of(references, STEP, context)?).ok()
}
